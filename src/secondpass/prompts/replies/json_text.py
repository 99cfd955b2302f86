"""Finds the JSON values in a model's reply.

A value may be bare, in a code fence, in prose, or in a JSON string.
Everything takes linear time.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

from secondpass.errors import ReplyError
from secondpass.prompts.replies.almost_json import MAX_LENGTH, json_repair_loads, lex, parse


class JsonObject(dict[str, Any]):
    """A JSON object that keeps the pairs of duplicate keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.pairs = pairs
        self.contested: set[str] = set()  # keys that occur with different values
        for key, value in pairs:
            if key in self and (type(self[key]) is not type(value) or self[key] != value):
                self.contested.add(key)
            self[key] = value


_MAX_UNCLOSED = 8  # unclosed brackets in prose that are skipped. Each costs a scan of the rest.
_MAX_BROKEN = 1000
"""Brackets that hold no JSON. Each costs a scan of the text: errors of ``json`` count its lines."""

_BRACKET = re.compile(r"[{\[]")
# An unclosed string reaches to the end of the text: trying its other quotes would be quadratic.
_STEP = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],]', re.S)


def _whole_number(digits: str) -> int:
    # Python refuses integers of thousands of digits. Any number this large is out of range.
    if len(digits) < 300:
        return int(digits)
    return -(10**300) if digits.startswith("-") else 10**300


# Not strict: strings may hold control characters.
_DECODER = json.JSONDecoder(
    object_pairs_hook=JsonObject,
    parse_int=_whole_number,
    parse_constant=lambda _name: math.nan,
    strict=False,
)


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value and its place in the text."""

    value: Any
    start: int
    stop: int
    repaired: bool = False  # whether it was almost-JSON


@dataclass(slots=True)
class Values:
    """The JSON values of a text: the outermost objects and arrays."""

    text: str
    items: list[Value] = field(default_factory=list)
    broken: list[tuple[int, int]] = field(default_factory=list)
    """(start, stop) of brackets that hold no JSON."""
    unclosed: int | None = None  # start of a bracket that is never closed and is not in prose

    @property
    def unread(self) -> list[tuple[int, int]]:
        """(start, stop) of all brackets that could not be read."""
        rest = [] if self.unclosed is None else [(self.unclosed, len(self.text))]
        return [*self.broken, *rest]


def find_values(text: str) -> Values:
    """Find the JSON objects and arrays of a text, in order.

    Raises ReplyError if one is nested too deeply, or too many brackets hold no JSON.
    """
    values = Values(text)
    position = unclosed = 0
    repairer = _Repairer(text)
    while bracket := _BRACKET.search(text, position):
        start = bracket.start()
        value = _strict(text, start) or _in_string(text, start) or repairer.value(start)
        if value is not None:
            values.items.append(value)
            position = value.stop
            continue
        # Prose in brackets, or broken JSON, whose inner values are not trusted.
        end = _closing(text, start)
        if end is not None:
            values.broken.append((start, end))
            if len(values.broken) > _MAX_BROKEN:
                raise ReplyError("it has too many brackets that hold no JSON")
            position = end
        elif unclosed < _MAX_UNCLOSED and _is_prose(text, start):
            unclosed += 1
            position = start + 1
        else:
            values.unclosed = start
            break
    return values


def parse_whole(text: str) -> Any:
    """Parse a text that is one JSON object or array and nothing else; None for any other."""
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
    """Reads almost-JSON of one text, within budgets of characters to parse and to lex."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.to_parse = MAX_LENGTH
        self.to_lex = 10 * MAX_LENGTH

    def value(self, start: int) -> Value | None:
        if self.to_parse <= 0 or self.to_lex <= 0 or json_repair_loads() is None:
            return None
        lexed = lex(self.text, start, self.to_parse)
        self.to_lex -= lexed.end - start
        if lexed.tokens is not None:
            self.to_parse -= lexed.end - start
        parsed = parse(lexed)
        if parsed is None:
            return None
        return Value(_with_pairs(parsed), start, lexed.end, repaired=True)


def _with_pairs(value: Any) -> Any:
    """A value of lists and dicts, in which each dict is a JsonObject."""
    if isinstance(value, dict):
        return JsonObject([(key, _with_pairs(inner)) for key, inner in value.items()])
    if isinstance(value, list):
        return [_with_pairs(inner) for inner in value]
    return value


def _in_string(text: str, start: int) -> Value | None:
    """The JSON value in a JSON string; its first bracket is at ``start``."""
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
    """The end of the bracket that opens at ``start``; None if it is never closed."""
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
    """Whether an unclosed bracket is in prose, with another bracket after it.

    In almost-JSON, a value in an array follows a bracket or comma, and one in an object follows at
    most one word.
    """
    following = _BRACKET.search(text, start + 1)
    if following is None:
        return False
    between = text[start + 1 : following.start()].strip()
    if not between or between[-1] in ",[{" or '"' in between or "'" in between:
        return False
    return text[start] == "[" or len(between.split()) > 1


def completed(text: str) -> Any:
    """Complete a JSON value that breaks off after its last complete element; None if impossible."""
    bracket = _BRACKET.search(text)
    if bracket is None:
        return None
    open_: list[str] = []
    last: int | None = None
    ends: list[str] = []  # brackets open at the last comma and since
    closed: list[str] = []  # brackets open at the last comma that have closed since
    for step in _STEP.finditer(text, bracket.start()):
        if step[0] in "{[":
            open_.append("}" if step[0] == "{" else "]")
        elif step[0] in "}]":
            if not open_ or open_.pop() != step[0]:
                return None
            if len(open_) < len(ends):
                closed.append(ends.pop())
        elif step[0] == ",":
            # Extended rather than copied, which would be quadratic.
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
