"""The parts of a server's response that error messages may show: its address, and safe words.

Used by all clients. Servers repeat requests in their errors, however escaped. No part of the
request or of a key may appear in a report, nor may a passage decide what an error means.
"""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any
from urllib.parse import unquote

from secondpass.settings.secrets import bare

RUN = 16
"""Length of a common run of characters that counts as a repetition."""
_LETTERS = 12
"""Number of common letters and digits, whatever stands between them, that counts as one."""
_KEY_PART = 4
"""Length of a common run of characters with a key that counts as one."""
_SHORT_WHOLE = 2
"""Minimum length of a query or line that counts as repeated if a message has it whole."""
_REMOVED_WHOLE = 10
"""Minimum length of a query or line that is removed from a message that has it whole. Shorter ones
may be the server's own words."""
_MAX_COMPARED = 1_000_000
"""Characters of a request. For larger ones, the server's words are not shown."""
_ROUNDS = 3  # of unescaping: JSON in JSON in HTML

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # surrogate pair in JSON
    r"|\\U[0-9a-fA-F]{8}|\\u\{[0-9a-fA-F]{1,6}\}"  # Python, Rust
    r"|(?:\\x[89a-fA-F][0-9a-fA-F]|\\[23][0-7]{2})+"  # bytes of UTF-8; octal in protobuf text
    r"|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\."
    r"|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w{1,31});"
    r"|(?:%[0-9a-fA-F]{2})+",
    re.S,
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{6,}")
_STANDARD = str.maketrans("-_", "+/")
_HEX = re.compile(r"[0-9a-fA-F]{2}(?:[ :,-]?(?:0x)?[0-9a-fA-F]{2}){3,}[0-9a-fA-F]?")
_SEPARATED = re.compile(r"(?P<line>.*?)(?P<end><[^<>]*>|\n|\Z)", re.S)
_OPENING = re.compile(r"<[^/]")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def _unescaped(match: re.Match[str]) -> str:
    """The characters that an escape stands for."""
    escape = match[0]
    if escape[0] == "&":
        return html.unescape(escape)
    if escape[0] == "%":
        return unquote(escape, errors="replace")
    if len(escape) == 2:
        return _CONTROLS.get(escape[1], escape[1])
    if escape[1] in "x23":
        return _decoded_bytes(escape[1:].split("\\"))
    if len(escape) == 12 and escape[6] == "\\":
        high, low = int(escape[2:6], 16), int(escape[8:], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    number = int(escape[2:].strip("{}"), 16)
    return chr(number) if number < 0x110000 else ""


def _decoded_bytes(escapes: Sequence[str]) -> str:
    """The text of bytes that are written as ``xe2`` or, in octal, as ``342``."""
    encoded = bytearray()
    for escape in escapes:
        encoded.append(int(escape[1:], 16) if escape[0] == "x" else int(escape, 8))
    # UTF-8 may be truncated; anything else is Latin-1.
    return encoded.decode("utf-8", "ignore") or encoded.decode("latin-1")


def _fold(text: str) -> str:
    """Lower case, with whitespace (and the plus sign of web forms) collapsed."""
    return " ".join(text.replace("+", " ").lower().split())


def _letters(folded: str) -> str:
    """Letters and digits only, in Unicode compatibility form."""
    if not folded.isascii():
        folded = unicodedata.normalize("NFKD", folded).casefold()
    return re.sub(r"[\W_]+", "", folded)


def _forms(text: str) -> list[str]:
    """The folded text, and the same unescaped once, twice, …"""
    return [_fold(form) for form in _unescapings(text)]


def _unescapings(text: str) -> list[str]:
    """The text, and the same unescaped once, twice, …"""
    forms = [text]
    for _ in range(_ROUNDS):
        if not any(mark in text for mark in "\\&%"):
            break
        unescaped = _ESCAPE.sub(_unescaped, text)
        if unescaped == text:
            break
        text = unescaped
        forms.append(text)
    return forms


def _decoded(text: str) -> Iterator[str]:
    """What parts of a text stand for as base64 (of either alphabet) and as hexadecimal digits.

    A part may begin anywhere in what was encoded, so it is read from each of its first characters.
    """
    for match in _BASE64.finditer(text):
        digits = match[0].translate(_STANDARD)
        for start in range(4):
            group = digits[start:]
            yield _text(base64.b64decode(group + "A" * (-len(group) % 4)))
    for match in _HEX.finditer(text):
        digits = re.sub(r"[^0-9a-fA-F]", "", match[0])
        for start in range(2):
            group = digits[start:]
            yield _text(bytes.fromhex(group[: len(group) // 2 * 2]))


def _text(encoded: bytes) -> str:
    return _fold(encoded.decode("utf-8", "replace"))


def _grams(text: str, size: int) -> set[str]:
    return {text[start : start + size] for start in range(len(text) - size + 1)}


def _common(text: str, others: Sequence[str], size: int) -> Iterator[str]:
    """The runs of ``size`` characters that a text shares with others, in linear time."""
    part = size // 2
    parts, runs = _grams(text, part), None
    # Each run contains one of the parts that begin at a multiple of ``step``.
    step = size - part + 1
    for other in others:
        for index in range(0, len(other) - part + 1, step):
            if other[index : index + part] in parts:
                runs = _grams(text, size) if runs is None else runs
                for start in range(max(0, index - step + 1), index + 1):
                    if (run := other[start : start + size]) in runs:
                        yield run


def _lines(text: str) -> Iterator[str]:
    """The lines of a text, without tags, which separate passages.

    What stands between two opening tags is no line: instructions name several tags in a sentence.
    """
    after = "\n"
    for piece in _SEPARATED.finditer(text):
        before, line, after = after, piece["line"], piece["end"]
        if not (_OPENING.match(before) and _OPENING.match(after)):
            yield line


class Sent:
    """The texts, and the keys or parts of them, of a request, which must not appear in errors."""

    def __init__(self, texts: Sequence[str], secrets: Sequence[str] = ()) -> None:
        self._texts = texts
        self._secrets = [secret for secret in secrets if secret]

    def with_secrets(self, secrets: Sequence[str]) -> Sent:
        """What was sent, with more keys."""
        return Sent(self._texts, [*self._secrets, *secrets])

    @cached_property
    def _folded(self) -> list[str]:
        return list(dict.fromkeys(form for text in self._texts for form in _forms(text)))

    @cached_property
    def _lines(self) -> list[str]:
        """The lines of the texts; tags separate passages."""
        lines = {line for text in self._texts for line in _lines(text) if len(line) < 200}
        return list({form for line in lines for form in _forms(line)} - {""})

    @cached_property
    def _short_lines(self) -> dict[int, set[str]]:
        """The lines that are shorter than a run, by length."""
        lines: dict[int, set[str]] = {}
        for line in self._lines:
            if len(line) < RUN:
                lines.setdefault(len(line), set()).add(line)
        return lines

    @cached_property
    def _letters(self) -> list[str]:
        return [_letters(form) for form in self._folded]

    def holds_part_of(self, text: str) -> bool:
        """Whether a server's short text shares a run with the request, or part of a key."""
        return self.holds_secret(text) or self._repeats(text)

    def holds_secret(self, text: str) -> bool:
        """Whether a text contains part of a key."""
        forms = [form.casefold() for form in _forms(text)]
        forms += [_letters(form) for form in forms]
        for raw in _unescapings(text):
            forms += [form.casefold() for form in _decoded(raw)]
        for secret in self._secrets:
            for key in (secret.casefold(), _letters(secret.casefold())):
                parts = _grams(key, min(_KEY_PART, len(key))) - {""}
                if any(part in form for form in forms for part in parts):
                    return True
        return False

    def _repeats(self, text: str) -> bool:
        """Whether a text shares a run, or a whole short line, with the texts of the request."""
        if sum(map(len, self._texts)) > _MAX_COMPARED:
            return True
        short: set[str] = set()
        for size in range(_SHORT_WHOLE, RUN):
            short |= self._short_lines.get(size, set())
        for raw in _unescapings(text):
            for decoded in _decoded(raw):
                if any(_common(decoded, self._folded, RUN)):
                    return True
        for form in _forms(text):
            if any(_common(form, self._folded, RUN)):
                return True
            if any(_common(_letters(form), self._letters, _LETTERS)):
                return True
            for line in short:
                if line in form and re.search(rf"(?<!\w){re.escape(line)}(?!\w)", form):
                    return True
        return False

    def removed_from(self, text: str) -> str:
        """A text, folded and unescaped, without the runs that it shares with the request."""
        folded = _forms(text)[-1]
        repeated = {RUN: set(_common(folded, self._folded, RUN))}
        for size in range(_REMOVED_WHOLE, RUN):
            repeated[size] = self._short_lines.get(size, set()) & _grams(folded, size)
        kept = list(folded)
        for size, runs in repeated.items():
            for start in range(len(folded) - size + 1 if runs else 0):
                if folded[start : start + size] in runs:
                    kept[start : start + size] = " " * size
        return re.sub(" {2,}", " ", "".join(kept))


_MAX_WORDS = 200
_MAX_NAMES = 8
_IDENTIFIER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-\[\]]{0,63}")
_MARKUP = re.compile(r"<[!?/A-Za-z]")  # the beginning of a web page, unlike `<400> Value error`


def words(body: Any, sent: Sent) -> str:
    """The server's code, type and parameter, then its message; empty if nothing is safe to show.

    The body is text, or parsed JSON.
    """
    named = [
        f"{name} {value}"
        for name, value in _structured(body)
        if _IDENTIFIER.fullmatch(value) and not sent.holds_part_of(value)
    ]
    message = _clean(_message(body))
    if _MARKUP.match(message) or sent.holds_part_of(message[: _MAX_WORDS + RUN]):
        message = ""
    elif len(message) > _MAX_WORDS:
        message = message[: _MAX_WORDS - 1] + "…"
    return ": ".join(filter(None, [", ".join(dict.fromkeys(named)), message]))


def words_in_answer(text: str, sent: Sent) -> str:
    """What the text of a successful response says of an error, for the end of a message.

    The text should hold an answer. An error object is said in the server's words; anything else may
    be a model's reply, so nothing of it is shown.
    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    first = body[0] if isinstance(body, list) and body else body
    said = words(first, sent) if _is_error(first) else ""
    return f"; the server says: {said}" if said else ""


def _is_error(body: Any) -> bool:
    """Whether a parsed response is an error object: by its members."""
    if not isinstance(body, Mapping):
        return False
    if "error" in body or "detail" in body:
        return True
    has_message = "message" in body or "msg" in body
    return has_message and not body.keys().isdisjoint({"code", "type", "status", "success"})


def names(values: Iterable[Any], sent: Sent) -> list[str]:
    """The first names of members in a response that are safe to show."""
    first = [name for name in islice(values, _MAX_NAMES) if isinstance(name, str)]
    return [name for name in first if _IDENTIFIER.fullmatch(name) and not sent.holds_part_of(name)]


def codes(body: Any) -> str:
    """The server's error codes and types, for matching; never shown."""
    return "\n".join(
        value
        for name, value in _structured(body)
        if name in {"code", "type"} and _IDENTIFIER.fullmatch(value)
    )


def address(error: BaseException, base_url: str | None) -> str:
    """The address of the request, without user, password, query and fragment.

    That of the request that the error may hold, else the base URL.
    """
    link: BaseException | None = error
    url = ""
    for _ in range(10):
        if link is None or url:
            break
        url = _requested(link)
        link = link.__cause__ or link.__context__
    return bare(url or base_url or "")


def _requested(error: BaseException) -> str:
    for holder in (getattr(error, "response", None), error):
        try:
            url = getattr(getattr(holder, "request", None), "url", None)
        except RuntimeError:  # httpx: no request is set
            continue
        if url is not None:
            return str(url)
    return ""


def _holders(body: Any) -> Iterator[Mapping[Any, Any]]:
    """The objects in a body that may describe the error."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, Mapping):
        inner = body.get("error")
        if isinstance(inner, Mapping):
            yield inner
        detail = body.get("detail")
        if isinstance(detail, list) and detail and isinstance(detail[0], Mapping):
            yield detail[0]
        elif isinstance(detail, Mapping):
            yield detail
        yield body


_NAMES = {"code": ("code",), "type": ("type", "error_type", "status"), "param": ("param", "loc")}


def _structured(body: Any) -> list[tuple[str, str]]:
    """The code, type and parameter of a body: the first of each."""
    fields: list[tuple[str, str]] = []
    for name, keys in _NAMES.items():
        values = [_identifier(holder.get(key)) for holder in _holders(body) for key in keys]
        known = [value for value in values if value not in {"", "error"}]
        if known:
            fields.append((name, known[0]))
    return fields


def _identifier(value: Any) -> str:
    if isinstance(value, list) and all(type(part) in {str, int} for part in value[:9]):
        return ".".join(map(str, value[:9]))
    if type(value) is int and 600 <= value < 10**9:  # smaller ones repeat the status
        return str(value)
    return value if isinstance(value, str) else ""


def _message(body: Any) -> str:
    if isinstance(body, str):
        return body[:2000]
    for holder in _holders(body):
        for key in ("message", "msg", "error", "detail"):
            if isinstance(value := holder.get(key), str) and value:
                return value[:2000]
    return ""


def _clean(text: str) -> str:
    printable = (character if character.isprintable() else " " for character in text)
    return " ".join("".join(printable).split())


def strings_in(values: Sequence[Any]) -> Iterator[str]:
    """The strings in request parameters, at any depth."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from strings_in(list(value.values()))
        elif isinstance(value, list | tuple):
            yield from strings_in(value)
