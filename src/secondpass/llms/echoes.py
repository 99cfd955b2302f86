"""Finds in what a server writes the texts and keys that it was sent, however it escapes them.

Servers repeat requests in their errors. What a passage says must neither decide what an error
means nor appear in a report.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from urllib.parse import unquote

RUN = 16
"""Characters in a row that are no coincidence."""
_LETTERS = 12
"""The same, of letters and digits only."""
_KEY_PART = 4
_SHORT_WHOLE = 2
"""A query or line shorter than a run counts where it is repeated whole."""
_REMOVED_WHOLE = 10
"""The same, where the repetition is removed: shorter ones are the server's own words as well."""
_MOST_COMPARED = 1_000_000
"""Characters of a request. Behind a larger one no words of the server's are passed on."""
_ROUNDS = 3  # of unescaping: JSON within JSON within HTML

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # one character of JSON's
    r"|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\."
    r"|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w{1,31});"
    r"|(?:%[0-9a-fA-F]{2})+",
    re.S,
)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def _meaning(found: re.Match[str]) -> str:
    """The characters that an escape stands for."""
    escape = found[0]
    if escape[0] == "&":
        return html.unescape(escape)
    if escape[0] == "%":
        return unquote(escape, errors="replace")
    if len(escape) == 12:
        high, low = int(escape[2:6], 16), int(escape[8:], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if len(escape) > 2:
        return chr(int(escape[2:], 16))
    return _CONTROLS.get(escape[1], escape[1])


def _fold(text: str) -> str:
    """Lower case, with white space (and the plus sign of web forms) collapsed."""
    return " ".join(text.replace("+", " ").lower().split())


def _letters(folded: str) -> str:
    """Letters and digits alone."""
    return re.sub(r"[\W_]+", "", folded)


def _forms(text: str) -> list[str]:
    """A text folded: as it is, and unescaped once and more often."""
    forms = [_fold(text)]
    for _ in range(_ROUNDS):
        if not any(mark in text for mark in "\\&%"):
            break
        unescaped = _ESCAPE.sub(_meaning, text)
        if unescaped == text:
            break
        text = unescaped
        forms.append(_fold(text))
    return forms


def _grams(text: str, size: int) -> set[str]:
    return {text[at : at + size] for at in range(len(text) - size + 1)}


def _common(text: str, others: Sequence[str], size: int) -> Iterator[str]:
    """The runs of ``size`` characters that a text has in common with others; in linear time."""
    part = size // 2
    runs, parts = _grams(text, size), _grams(text, part)
    if not runs:
        return
    # Each run holds one of the parts that begin at a multiple of ``step``.
    step = size - part + 1
    for other in others:
        for at in range(0, len(other) - part + 1, step):
            if other[at : at + part] in parts:
                for start in range(max(0, at - step + 1), at + 1):
                    if (run := other[start : start + size]) in runs:
                        yield run


class Sent:
    """What a request holds that must not come back: texts, and keys.

    Args:
        texts: system prompt, query, passages, prompts that hold these.
        secrets: keys, and parts of an address that may hold one.
    """

    def __init__(self, texts: Sequence[str], secrets: Sequence[str] = ()) -> None:
        self._texts = texts
        self._secrets = [secret for secret in secrets if secret]

    @cached_property
    def _folded(self) -> list[str]:
        return list(dict.fromkeys(form for text in self._texts for form in _forms(text)))

    @cached_property
    def _lines(self) -> list[str]:
        """The lines of the texts; passages stand between tags."""
        pieces = (re.split(r"<[^<>]*>|\n", text) for text in self._texts)
        lines = {line for piece in pieces for line in piece if len(line) < 200}
        return list({form for line in lines for form in _forms(line)} - {""})

    def holds_part_of(self, text: str) -> bool:
        """Whether a short text of a server's shares a run with what was sent, or part of a key."""
        return self.holds_secret(text) or self._repeats(text)

    def holds_secret(self, text: str) -> bool:
        """Whether a text has some characters of a key in a row."""
        forms = [form.casefold() for form in _forms(text)]
        forms += [_letters(form) for form in forms]
        for secret in self._secrets:
            for key in (secret.casefold(), _letters(secret.casefold())):
                size = min(_KEY_PART, len(key))
                if size and any(part in form for part in _grams(key, size) for form in forms):
                    return True
        return False

    def _repeats(self, text: str) -> bool:
        if sum(map(len, self._texts)) > _MOST_COMPARED:
            return True
        letters = [_letters(sent) for sent in self._folded]
        short = [line for line in self._lines if _SHORT_WHOLE <= len(line) < RUN]
        for form in _forms(text):
            if any(_common(form, self._folded, RUN)):
                return True
            if any(_common(_letters(form), letters, _LETTERS)):
                return True
            for line in short:
                if line in form and re.search(rf"(?<!\w){re.escape(line)}(?!\w)", form):
                    return True
        return False

    def removed_from(self, text: str) -> str:
        """A text without the runs that stand in what was sent too."""
        for _ in range(_ROUNDS):
            folded, spans = _folded_with_spans(text)
            repeated = {RUN: set(_common(folded, self._folded, RUN))}
            for line in self._lines:
                if _REMOVED_WHOLE <= len(line) < RUN:
                    repeated.setdefault(len(line), set()).add(line)
            cuts = [
                (spans[at][0], spans[at + size - 1][1])
                for size, runs in repeated.items()
                if runs
                for at in range(len(folded) - size + 1)
                if folded[at : at + size] in runs
            ]
            text = _without(text, cuts)
            # An escape may have hidden a repetition.
            unescaped = _ESCAPE.sub(_meaning, text)
            if unescaped == text:
                break
            text = unescaped
        return text


def _folded_with_spans(text: str) -> tuple[str, list[tuple[int, int]]]:
    """A text folded, and from where to where each of its characters stands in the text."""
    characters: list[str] = []
    spans: list[tuple[int, int]] = []
    for at, character in enumerate(text):
        if character.isspace() or character == "+":
            if characters and characters[-1] == " ":
                spans[-1] = (spans[-1][0], at + 1)
            elif characters:
                characters.append(" ")
                spans.append((at, at + 1))
            continue
        for lower in character.lower():
            characters.append(lower)
            spans.append((at, at + 1))
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
