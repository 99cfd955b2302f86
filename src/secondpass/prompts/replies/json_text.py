"""Finds the JSON values in a model's reply.

A value may be bare, in a code fence, in prose, or in a JSON string.
Everything takes linear time.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
        self.to_parse = 0 if json_repair_loads() is None else MAX_LENGTH
        self.to_lex = 10 * MAX_LENGTH

    def value(self, start: int) -> Value | None:
        if min(self.to_parse, self.to_lex) <= 0:
            return None
        lexed = lex(self.text, start, self.to_parse)
        self.to_lex -= lexed.end - start
        if lexed.tokens is not None:
            self.to_parse -= lexed.end - start
        parsed = parse(lexed)
        return None if parsed is None else Value(parsed, start, lexed.end, repaired=True)


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


# ---------------------------------------------------------------------- almost JSON

# json-repair (the extra ``lenient``) reads trailing and missing commas, single quotes, bare words,
# Python's literals and comments. It also guesses: it drops, merges and completes what it cannot
# read. A lexer reads the same text, and the result counts only if it has exactly the lexer's
# tokens, in order.

MAX_LENGTH = 20_000
"""Characters of one reply that json-repair reads, in about 5 µs each."""
_MAX_DEPTH = 12

_TOKEN = re.compile(
    r"""(?P<space>[\s\ufeff\u200b]+)
    |(?P<comment>//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|/\*.*|\#[^\n]*)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\u201c[^\u201c\u201d"\\]*\u201d|\u2018[^\u2018\u2019'\\]*\u2019)
    |(?P<punctuation>[{}\[\]:,])
    |(?P<word>[^\s{}\[\]:,"'\u201c\u201d\u2018\u2019]+)""",
    re.X | re.S,
)
_QUOTE = re.compile(r'\\.|"', re.S)
_REQUOTED = {'"': '\\"', "\\'": "'"}
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,5})?", re.ASCII)
_WORD = re.compile(r"[0-9]|[^\W\d_]")  # not an ellipsis
_CONSTANTS = {"true": True, "True": True, "false": False, "False": False, "null": None,
              "None": None}  # fmt: skip
# A comment in words. One that contains a row of the answer would make the text ambiguous.
_REMARK = re.compile(r"(?:[^\"\u201c\u201d{}\[\]:']|(?<=\w)'(?=\w)|:(?!\s*[\d'\"]))*", re.S)


class _Token(NamedTuple):
    kind: str  # "punctuation", "string" or "word"
    text: str


class Lexed(NamedTuple):
    """The tokens of what looks like one object or array."""

    tokens: tuple[_Token, ...] | None
    """Without commas; None if it is incomplete, or not all values are written out."""
    end: int  # where it ends, or how far it was read
    text: str = ""  # without comments, with strings and words in JSON notation


@functools.cache
def json_repair_loads() -> Callable[..., Any] | None:
    """The function of json-repair; None if that is not installed."""
    try:
        from json_repair import loads
    except ImportError:
        return None
    return loads


def parse(lexed: Lexed) -> Any:
    """Parse what was lexed; None unless the result has exactly the lexed tokens."""
    loads = json_repair_loads()
    if loads is None or lexed.tokens is None:
        return None
    try:
        # The normalized text: json-repair takes quadratic time for many bare words.
        value = loads(lexed.text, skip_json_loads=True)
        return _rebuilt(value) if _agrees(value, lexed.tokens) else None
    except Exception:  # json-repair may raise anything on hostile text
        return None


def lex(text: str, start: int, longest: int) -> Lexed:
    """Read the tokens of the object or array at ``start``, of ``longest`` characters at most."""
    tokens: list[_Token] = []
    pieces: list[str] = []
    open_: list[str] = []
    before = ""  # the previous punctuation, or "value" for a string or word
    position, stop = start, min(len(text), start + longest)
    while match := _TOKEN.match(text, position, stop):
        position, kind, written = match.end(), match.lastgroup, match[0]
        if kind == "comment" and not _REMARK.fullmatch(written[2:].removesuffix("*/")):
            return Lexed(None, position)
        if kind == "punctuation":
            if not _fits(written, before, open_):
                return Lexed(None, position)
            if written in "{[":
                open_.append(written)
            elif written in "}]":
                open_.pop()
            before = written
            if written == ":":
                pieces[-1] = json.dumps(tokens[-1].text)
            pieces.append(written)
            if written != ",":
                tokens.append(_Token(kind, written))
            if not open_:
                return Lexed(tuple(tokens), position, " ".join(pieces))
        elif kind in {"string", "word"}:
            scalar = _unquoted(written) if kind == "string" else written
            if scalar is None or (kind == "word" and not _WORD.search(written)):
                return Lexed(None, position)
            tokens.append(_Token(kind, scalar))
            pieces.append(_as_json(tokens[-1]))
            before = "value"
    return Lexed(None, stop)


def _fits(written: str, before: str, open_: list[str]) -> bool:
    """Whether this punctuation may follow the previous token."""
    if written == ",":
        return before not in {",", ":", "{", "["}
    if written == ":":
        return before == "value" and open_[-1] == "{"
    if written in "}]":
        return before != ":" and open_[-1] == ("{" if written == "}" else "[")
    return len(open_) < _MAX_DEPTH


def _unquoted(written: str) -> str | None:
    """The text of a string in any quotes; None if it has other escapes than those of JSON."""
    body = written[1:-1]
    if written[0] != '"':
        body = _QUOTE.sub(lambda match: _REQUOTED.get(match[0], match[0]), body)
    try:
        text = json.loads(f'"{body}"', strict=False)
    except ValueError:
        return None
    return text if isinstance(text, str) else None


def _as_json(token: _Token) -> str:
    """A scalar in JSON notation; words other than constants and numbers become strings."""
    if token.kind == "word":
        if token.text in _CONSTANTS:
            return json.dumps(_CONSTANTS[token.text])
        if _NUMBER.fullmatch(token.text):
            return token.text
    return json.dumps(token.text)


_OPEN, _CLOSE, _COLON, _FIRST, _LAST = (_Token("punctuation", mark) for mark in "{}:[]")


def _flat(value: Any) -> Iterator[Any]:
    """Brackets, colons, keys and scalars of a value, in order. Brackets and colons are tokens."""
    if isinstance(value, dict):
        yield _OPEN
        for key, inner in value.items():
            yield key
            yield _COLON
            yield from _flat(inner)
        yield _CLOSE
    elif isinstance(value, list):
        yield _FIRST
        for inner in value:
            yield from _flat(inner)
        yield _LAST
    else:
        yield value


def _agrees(value: Any, tokens: tuple[_Token, ...]) -> bool:
    flat = list(_flat(value))
    return len(flat) == len(tokens) and all(
        _same(value, token, is_key=following == _COLON)
        for value, token, following in zip(flat, tokens, (*tokens[1:], None), strict=True)
    )


def _same(value: Any, token: _Token, is_key: bool) -> bool:
    if isinstance(value, _Token) or token.kind == "punctuation":
        return bool(value == token)
    if token.kind == "word" and not is_key:
        if token.text in _CONSTANTS:
            return value is _CONSTANTS[token.text]
        if _NUMBER.fullmatch(token.text):
            return type(value) in {int, float} and float(value) == float(token.text)
    return type(value) is str and value == token.text


def _rebuilt(value: Any) -> Any:
    if isinstance(value, dict):
        return JsonObject([(key, _rebuilt(inner)) for key, inner in value.items()])
    if isinstance(value, list):
        return [_rebuilt(inner) for inner in value]
    return value
