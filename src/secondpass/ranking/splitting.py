"""Splits a text: into overlapping parts of a maximum length, and into sentences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from secondpass.questions import Span

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
_LONG_SENTENCE = 300
"""Characters; a long sentence in English has 200."""
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
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    for end in [*ends, len(text)]:
        if stripped := text[start:end].strip():
            first = _next_word(text, start)
            spans.append((first, first + len(stripped)))
        start = end
    return spans


def short_sentences(text: str) -> list[Span]:
    """Split a text into its sentences, and long ones, as of scripts without marks, into parts."""
    spans: list[Span] = []
    for start, stop in sentences(text):
        spans += split(text, _LONG_SENTENCE, 0, start, stop)
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
    boundary = _PARAGRAPH_END.search(text, low - 1, cut)
    if boundary is None:
        boundary = _SENTENCE_END.search(text, low - 1, high + 1)
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
