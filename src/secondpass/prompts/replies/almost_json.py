"""Reads what is nearly JSON, with json-repair (the extra ``lenient``) and a check of its result.

json-repair reads trailing and missing commas, single quotes, bare words, Python's literals and
comments. It also guesses: it drops, merges and completes what it cannot read. A lexer reads the
same text, and the result counts only if it has exactly the lexer's tokens, in order.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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
        return value if _agrees(value, lexed.tokens) else None
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
