"""Finds the JSON values in a model's reply.

Values stand bare or in well-known wrappings: a code fence, a block of thinking before them, prose
around them, a JSON string. All of it takes time that grows with the length of the reply only.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

from secondpass.errors import ReplyError
from secondpass.prompts.replies import lenient
from secondpass.prompts.replies.json_object import JsonObject

_LONGEST = 400_000
"""Characters. A longer reply is no answer to a question about some hundred passages."""
_MOST_UNCLOSED = 8
"""Brackets in prose that do not close and are passed over. Each costs a look at all of the rest."""

_MOST_BROKEN = 1000
"""Brackets that hold no JSON. Each costs a look at all of the text: an error of ``json`` counts its
lines."""

_THOUGHT_ENDS = re.compile(r"</(?:think|thinking|reasoning|thought)>", re.I)
_THOUGHT_BEGINS = re.compile(r"\s*<(?:think|thinking|reasoning|thought)\b", re.I)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_BRACKET = re.compile(r"[{\[]")
# A string that does not end reaches to the end: to try each of its quotes again would be quadratic.
_STEP = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],]', re.S)


def _whole_number(digits: str) -> int:
    # Python refuses to read integers of thousands of digits; any that is far too large will do.
    if len(digits) < 300:
        return int(digits)
    return -(10**300) if digits.startswith("-") else 10**300


# Not strict: strings may hold raw control characters.
_DECODER = json.JSONDecoder(
    object_pairs_hook=JsonObject,
    parse_int=_whole_number,
    parse_constant=lambda _name: math.nan,
    strict=False,
)


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value and where it stands in the text.

    Attributes:
        repaired: whether it is no strict JSON.
    """

    value: Any
    start: int
    stop: int
    repaired: bool = False


@dataclass(slots=True)
class Values:
    """What a text holds.

    Attributes:
        text: the text that was searched.
        found: the objects and arrays that do not stand inside another bracket.
        broken: where there are brackets around something else.
        unclosed: where a bracket opens that never closes, and is not one of prose; else None.
    """

    text: str
    found: list[Value] = field(default_factory=list)
    broken: list[tuple[int, int]] = field(default_factory=list)
    unclosed: int | None = None

    @property
    def unread(self) -> list[tuple[int, int]]:
        """All that is in brackets and could not be read."""
        rest = [] if self.unclosed is None else [(self.unclosed, len(self.text))]
        return [*self.broken, *rest]


def answer_text(text: str) -> str:
    """A reply without the thinking before it; control characters become spaces.

    Raises:
        ReplyError: it is too long, or ends in the middle of thinking.
    """
    if len(text) > _LONGEST:
        raise ReplyError("it is too long")
    text = _CONTROL.sub(" ", text)
    if not _THOUGHT_BEGINS.match(text):
        # Some servers cut off the beginning tag. But an end may also be quoted behind the answer,
        # so what stands before it counts: two answers that differ are none.
        return text
    end = _THOUGHT_ENDS.search(text)
    if end is None:
        raise ReplyError("it ends in the middle of thinking")
    return text[end.end() :]


def find_values(text: str) -> Values:
    """The JSON objects and arrays in a text, in order.

    Raises:
        ReplyError: one is nested too deeply, or there are very many brackets around other things.
    """
    values = Values(text)
    at = unclosed = 0
    repairer = _Repairer(text)
    while bracket := _BRACKET.search(text, at):
        start = bracket.start()
        value = _strict(text, start) or _in_string(text, start) or repairer.value(start)
        if value is not None:
            values.found.append(value)
            at = value.stop
            continue
        # Prose in brackets, or broken JSON. What stands inside broken JSON is not trusted.
        end = _closing(text, start)
        if end is not None:
            values.broken.append((start, end))
            if len(values.broken) > _MOST_BROKEN:
                raise ReplyError("it has too many brackets that hold no JSON")
            at = end
        elif unclosed < _MOST_UNCLOSED and _is_prose(text, start):
            unclosed += 1
            at = start + 1
        else:
            values.unclosed = start
            break
    return values


def parse_whole(text: str) -> Any:
    """The value of a text that is one JSON object or array and nothing else; else None."""
    text = text.strip()
    if text[:1] not in {"{", "["}:
        return None
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _strict(text: str, start: int) -> Value | None:
    try:
        value, stop = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ReplyError("it is nested too deeply") from None
    except ValueError:
        return None
    return Value(value, start, stop)


class _Repairer:
    """Reads almost-JSON of one text, as much of it as a reply may take time for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.to_parse = lenient.LONGEST if lenient.available() else 0
        self.to_lex = 10 * lenient.LONGEST

    def value(self, start: int) -> Value | None:
        if min(self.to_parse, self.to_lex) <= 0:
            return None
        lexed = lenient.lex(self.text, start, self.to_parse)
        self.to_lex -= lexed.end - start
        if lexed.tokens is None:
            return None
        self.to_parse -= lexed.end - start
        parsed = lenient.parse(lexed)
        return None if parsed is None else Value(parsed, start, lexed.end, repaired=True)


def _in_string(text: str, start: int) -> Value | None:
    """The JSON value that a JSON string holds, its bracket standing at ``start``."""
    quote = start - 1
    while quote >= 0 and start - quote < 8 and text[quote].isspace():
        quote -= 1
    if quote < 0 or text[quote] != '"' or text[quote - 1 : quote] == "\\":
        return None
    try:
        inner, stop = _DECODER.raw_decode(text, quote)
    except ValueError:
        return None
    value = parse_whole(inner) if isinstance(inner, str) else None
    return None if value is None else Value(value, quote, stop)


def _closing(text: str, start: int) -> int | None:
    """The end of what opens at ``start``; None where it does not close."""
    depth = 0
    for step in _STEP.finditer(text, start):
        if step[0] in "{[":
            depth += 1
        elif step[0] in "}]":
            depth -= 1
            if depth == 0:
                return step.end()
    return None


def _is_prose(text: str, start: int) -> bool:
    """Whether a bracket that never closes is one of prose, with JSON somewhere behind it.

    In no kind of JSON does a value stand in an array behind anything but a comma, or in an object
    behind several words.
    """
    following = _BRACKET.search(text, start + 1)
    if following is None:
        return False
    between = text[start + 1 : following.start()].strip()
    if not between or between[-1] in ",[{" or '"' in between or "'" in between:
        return False
    return text[start] == "[" or len(between.split()) > 1


def completed(text: str) -> Any:
    """The JSON value that begins in ``text`` and breaks off, up to its last whole element."""
    bracket = _BRACKET.search(text)
    if bracket is None:
        return None
    open_: list[str] = []
    last: int | None = None
    ends: list[str] = []  # what was open at the last comma and has not closed since
    closed: list[str] = []  # what has
    for step in _STEP.finditer(text, bracket.start()):
        if step[0] in "{[":
            open_.append("}" if step[0] == "{" else "]")
        elif step[0] in "}]":
            if not open_ or open_.pop() != step[0]:
                return None
            if len(open_) < len(ends):
                closed.append(ends.pop())
        elif step[0] == ",":
            # Only the outer ones are the same as before, and copying all would be quadratic.
            last = step.start()
            closed.clear()
            ends.extend(open_[len(ends) :])
    if last is None:
        return None
    stop = "".join([*closed, *reversed(ends)])
    try:
        return _DECODER.decode(text[bracket.start() : last] + stop)
    except (ValueError, RecursionError):
        return None
