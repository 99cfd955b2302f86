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
_CLOSING = {"{": "}", "[": "]"}
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
class LocatedValue:
    """A JSON value and its place in the text."""

    value: Any
    start: int
    stop: int


@dataclass(slots=True)
class Values:
    """The JSON values of a text: the outermost objects and arrays."""

    text: str
    items: list[LocatedValue] = field(default_factory=list)
    broken: list[tuple[int, int]] = field(default_factory=list)
    """(start, stop) of brackets that hold no JSON."""
    unclosed: int | None = None  # start of a bracket that is never closed and is not in prose

    @property
    def unread(self) -> list[tuple[int, int]]:
        """(start, stop) of all brackets that could not be read."""
        if self.unclosed is None:
            return self.broken
        return [*self.broken, (self.unclosed, len(self.text))]


def find_values(text: str) -> Values:
    """Find the JSON objects and arrays of a text, in order.

    Raises ReplyError if one is nested too deeply, or too many brackets hold no JSON.
    """
    values = Values(text)
    position = unclosed = 0
    while bracket := _BRACKET.search(text, position):
        start = bracket.start()
        value = _strict(text, start) or _in_string(text, start)
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


def _strict(text: str, start: int) -> LocatedValue | None:
    try:
        value, stop = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ReplyError("it is nested too deeply") from None
    except ValueError:
        return None
    return LocatedValue(value, start, stop)


def _in_string(text: str, start: int) -> LocatedValue | None:
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
    return None if value is None else LocatedValue(value, quote, stop)


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
    start = bracket.start()
    commas = [step.start() for step in _STEP.finditer(text, start) if step[0] == ","]
    if not commas or _missing_brackets(text, start, len(text)) is None:
        return None
    complete = text[start : commas[-1]]
    missing = _missing_brackets(text, start, commas[-1])
    try:
        return _DECODER.decode(f"{complete}{missing}")
    except (ValueError, RecursionError):
        return None


def _missing_brackets(text: str, start: int, stop: int) -> str | None:
    """The brackets that close what a part of a text opens; None if it closes others."""
    opened = []
    for step in _STEP.finditer(text, start, stop):
        if step[0] in "{[":
            opened.append(step[0])
        elif step[0] in "}]" and (not opened or _CLOSING[opened.pop()] != step[0]):
            return None
    return "".join(_CLOSING[bracket] for bracket in reversed(opened))
