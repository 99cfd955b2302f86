"""Splits long texts into overlapping windows, which a method judges separately.

Dai and Callan, "Deeper text understanding for IR with contextual neural language modeling", SIGIR
2019: the score of a document is that of its best passage (MaxP) or of its first (FirstP).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from secondpass.effects import Span, Windows
from secondpass.errors import ConfigurationError, Problem
from secondpass.questions import affixes
from secondpass.settings import configurable

if TYPE_CHECKING:
    from annotated_types import Ge


@configurable
@dataclass(frozen=True)
class Passages:
    """Splits long texts into overlapping windows, and combines the scores of the windows.

    Attributes:
        size: maximum length of a window, in characters. Shorter texts are one window. Models are
            trained on passages of a few hundred characters. If ``render.prefix`` and ``suffix``
            take more than half of it, a window has them and half of ``size``.
        overlap: maximum length of the text that two successive windows share, in characters;
            smaller than ``size``. None is a fifth of the size.
        combine: the score of a text: the score of its best window (``max``), the score of its first
            window, the only one that is judged then (``first``), or the mean over all (``mean``).

    A text of n characters has at most ``1 + 2 * n / (size - overlap)`` windows; up to twice as many
    if other fields, such as a title, are part of every window.
    """

    size: Annotated[int, Ge(1)] = 500
    overlap: Annotated[int, Ge(0)] | None = None
    combine: Literal["max", "first", "mean"] = "max"

    def __post_init__(self) -> None:
        if self.overlap is not None and self.overlap >= self.size:
            message = f"must be smaller than the size ({self.size})"
            raise ConfigurationError([Problem(("overlap",), message)])

    def windows(self, text: str, body: Span) -> Windows:
        """Return the windows of a rendered text.

        Args:
            text: the rendered text.
            body: the part of it that is split. The text before and after it, such as a title, is
                part of every window if it takes at most half of ``size``. A prefix and a suffix of
                the configuration are always part of it.
        """
        start, stop = body
        room = self.size - (len(text) - (stop - start))
        if room < self.size / 2:
            head, tail = affixes(text)
            start, stop = head, len(text) - tail
            room = max(self.size - head - tail, self.size // 2, 1)
        overlap = self.size // 5 if self.overlap is None else self.overlap
        spans = split(text, room, overlap * room // self.size, start, stop)
        if self.combine == "first":
            return Windows([next(spans)], (start, stop))
        return Windows(list(spans), (start, stop))


# Quotes and brackets may follow. First the marks of scripts that have a space after a sentence
# (Latin, Devanagari, Arabic, Urdu), then those of Chinese, Japanese, Khmer and Burmese.
_MARK = r"[.!?\u2026\u0964\u061f\u06d4][\"')\]\u2019\u201d\u00bb]{0,3}"
_WIDE_MARK = (
    r"[\u3002\uff01\uff1f\uff61\u17d4\u104b]"
    r"[\u2019\u201d\u3009\u300b\u300d\u300f\u3011\uff09\uff63]{0,3}"
)
# Other line breaks may be those of wrapped lines.
_PARAGRAPH_END = re.compile(rf"\n[ \t\r]*\n|(?:{_MARK}|{_WIDE_MARK})[ \t\r]{{0,3}}\n")
_SENTENCE_END = re.compile(rf"{_MARK}(?=\s)|{_WIDE_MARK}|[\n\x85\u2028\u2029]")
_COMMA = r"\u3001\uff0c\uff1a\uff1b"  # of Chinese and Japanese; commas and colons
_WORD_END = re.compile(rf"(?=\s)|(?<=[{_COMMA}])")
_BETWEEN_WORDS = re.compile(rf"[\s{_COMMA}]")
_NOT_SPACE = re.compile(r"\S")
_ZERO_WIDTH_JOINER = "\u200d"
_VIRAMA = 9
"""Combining class of the signs that join a consonant to the next one, in India's scripts, Khmer and
Burmese."""


def split(
    text: str, size: int, overlap: int, start: int = 0, stop: int | None = None
) -> Iterator[Span]:
    """Split a text into windows, in time linear in its length.

    A window ends after a paragraph if one ends in its last part, else after a sentence, else after
    a word, else anywhere; the next window begins by the same rule. White space between windows is
    in none.

    Args:
        text: any text.
        size: maximum length of a window, at least 1.
        overlap: maximum length of the text that successive windows share, less than ``size``.
        start: where the part to split begins.
        stop: where it ends; None is the end of the text.

    Yields:
        (start, stop) of each window, in characters of the text. At least one.
    """
    stop = len(text) if stop is None else stop
    if stop - start <= size:
        yield start, stop
        return
    end = start + len(text[start:stop].rstrip())
    if end == start:  # white space alone
        yield start, start + size
        return
    start = _next_word(text, start)
    covered = start
    while end - start > size:
        # Longer than the overlap by half of the rest, so that the next window begins later.
        cut = _cut(text, start + (size + overlap) // 2, start + size)
        last = start + len(text[start:cut].rstrip())
        if last > covered:  # else only white space is new
            yield start, last
            covered = last
        start = _next_word(text, _resume(text, cut - overlap, cut))
    yield start, end


def sentences(text: str) -> list[Span]:
    """Split a text into its sentences, as (start, stop) without the white space between them."""
    spans: list[Span] = []
    start = 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        if stripped := text[start:end].strip():
            first = _next_word(text, start)
            spans.append((first, first + len(stripped)))
        start = end
    return spans


def _next_word(text: str, start: int) -> int:
    """The first position from ``start`` on that is not white space."""
    match = _NOT_SPACE.search(text, start)
    return match.start() if match else len(text)


def _cut(text: str, low: int, high: int) -> int:
    """Where to end a window: after ``low``, not after ``high``."""
    for boundary in (_PARAGRAPH_END, _SENTENCE_END, _WORD_END):
        # One character more, since the end of a sentence or word depends on what follows it.
        ends = [match.end() for match in boundary.finditer(text, low, high + 1)]
        if ends := [end for end in ends if low < end <= high]:
            return ends[-1]
    for cut in range(high, low, -1):
        if not _inside_character(text, cut):
            return cut
    return high


def _resume(text: str, low: int, cut: int) -> int:
    """Where to begin the window after ``cut``: not before ``low``, not after ``cut``."""
    if low == cut:
        return cut
    high = (low + cut) // 2  # an overlap of only a few words would be useless
    # From one character before, which may be the end of a sentence.
    boundary = _PARAGRAPH_END.search(text, low - 1, cut) or _SENTENCE_END.search(
        text, low - 1, high + 1
    )
    if boundary is None and not _BETWEEN_WORDS.match(text, low - 1):
        boundary = _BETWEEN_WORDS.search(text, low, high)
    if boundary is not None:
        return boundary.end()
    for start in range(low, cut):
        if not _inside_character(text, start):
            return start
    return cut


def _inside_character(text: str, position: int) -> bool:
    """Whether a cut here would divide a character as readers see it; an approximation."""
    before, after = text[position - 1], text[position]
    if after.isascii():
        return False
    return (
        # Accents, vowel signs, variation selectors; joiners, tags of flags
        unicodedata.category(after) in {"Mn", "Mc", "Me", "Cf"}
        or before == _ZERO_WIDTH_JOINER
        or unicodedata.combining(before) == _VIRAMA
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\u1160" <= after <= "\u11ff"  # vowels and finals of Korean syllables
        or ("\U0001f1e6" <= after <= "\U0001f1ff" and "\U0001f1e6" <= before <= "\U0001f1ff")
        or ("\udc00" <= after <= "\udfff" and "\ud800" <= before <= "\udbff")
    )
