"""Finds parts of a request in a server's text, however the server escapes them.

Servers repeat requests in their errors. A passage must neither decide what an error means nor
appear in a report.
"""

from __future__ import annotations

import base64
import html
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from urllib.parse import unquote

RUN = 16
"""Length of a common run of characters that counts as a repetition."""
_LETTERS = 12
"""The same, counting only letters and digits."""
_KEY_PART = 4
_SHORT_WHOLE = 2
"""Minimum length of a query or line that counts if it is repeated whole."""
_REMOVED_WHOLE = 10
"""The same for removal. Shorter ones may be the server's own words."""
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
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def _unescaped(match: re.Match[str]) -> str:
    """The characters that an escape stands for."""
    escape = match[0]
    if escape[0] == "&":
        return html.unescape(escape)
    if escape[0] == "%":
        return unquote(escape, errors="replace")
    if escape[1] in "x23" and len(escape) > 2:
        codes = (
            int(code[1:], 16) if code[0] == "x" else int(code, 8) for code in escape[1:].split("\\")
        )
        encoded = bytes(codes)
        # UTF-8 may be truncated; anything else is Latin-1.
        return encoded.decode("utf-8", "ignore") or encoded.decode("latin-1")
    if len(escape) == 12 and escape[6] == "\\":
        high, low = int(escape[2:6], 16), int(escape[8:], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if len(escape) > 2:
        number = int(escape[2:].strip("{}"), 16)
        return chr(number) if number < 0x110000 else ""
    return _CONTROLS.get(escape[1], escape[1])


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


class Sent:
    """The texts and keys of a request, which must not appear in errors.

    Args:
        texts: system prompt, query, passages, or prompts that contain these.
        secrets: keys, and parts of an address that may contain one.
    """

    def __init__(self, texts: Sequence[str], secrets: Sequence[str] = ()) -> None:
        self._texts = texts
        self._secrets = [secret for secret in secrets if secret]

    def with_secrets(self, secrets: Sequence[str]) -> Sent:
        """The same with more keys."""
        return Sent(self._texts, [*self._secrets, *secrets])

    @cached_property
    def _folded(self) -> list[str]:
        return list(dict.fromkeys(form for text in self._texts for form in _forms(text)))

    @cached_property
    def _lines(self) -> list[str]:
        """The lines of the texts; tags separate passages."""
        pieces = (re.split(r"<[^<>]*>|\n", text) for text in self._texts)
        lines = {line for piece in pieces for line in piece if len(line) < 200}
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
        forms += [form.casefold() for raw in _unescapings(text) for form in _decoded(raw)]
        for secret in self._secrets:
            for key in (secret.casefold(), _letters(secret.casefold())):
                size = min(_KEY_PART, len(key))
                if size and any(part in form for part in _grams(key, size) for form in forms):
                    return True
        return False

    def _repeats(self, text: str) -> bool:
        if sum(map(len, self._texts)) > _MAX_COMPARED:
            return True
        short = {
            line for size in range(_SHORT_WHOLE, RUN) for line in self._short_lines.get(size, ())
        }
        for raw in _unescapings(text):
            if any(any(_common(form, self._folded, RUN)) for form in _decoded(raw)):
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
        """A text without the runs that it shares with the request."""
        for _ in range(_ROUNDS):
            folded = _fold(text)
            repeated: dict[int, set[str]] = {}
            if runs := set(_common(folded, self._folded, RUN)):
                repeated[RUN] = runs
            for size in range(_REMOVED_WHOLE, RUN):
                lines = self._short_lines.get(size)
                if lines and (common := lines & _grams(folded, size)):
                    repeated[size] = common
            if repeated:
                text = _cut(text, repeated)
            # Escapes may hide further repetitions.
            unescaped = _ESCAPE.sub(_unescaped, text)
            if unescaped == text:
                break
            text = unescaped
        return text


def _cut(text: str, repeated: Mapping[int, set[str]]) -> str:
    """A text without these runs of its folded form, grouped by length."""
    folded, spans = _folded_with_spans(text)
    cuts = [
        (spans[start][0], spans[start + size - 1][1])
        for size, runs in repeated.items()
        for start in range(len(folded) - size + 1)
        if folded[start : start + size] in runs
    ]
    return _without(text, cuts)


def _folded_with_spans(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The folded text, and the span of each of its characters in the original."""
    characters: list[str] = []
    spans: list[tuple[int, int]] = []
    for index, character in enumerate(text):
        if character.isspace() or character == "+":
            if characters and characters[-1] == " ":
                spans[-1] = (spans[-1][0], index + 1)
            elif characters:
                characters.append(" ")
                spans.append((index, index + 1))
            continue
        for lower in character.lower():
            characters.append(lower)
            spans.append((index, index + 1))
    return "".join(characters), spans


def _without(text: str, cuts: list[tuple[int, int]]) -> str:
    kept: list[str] = []
    end = 0
    for start, stop in sorted(cuts):
        if start > end or (start == end and not kept):
            kept.append(text[end:start])
        end = max(end, stop)
    kept.append(text[end:])
    return " ".join(kept)
