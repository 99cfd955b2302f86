"""Pack the blocks of a document into passages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Block(NamedTuple):
    """A paragraph or a heading.

    Attributes:
        text: as it is in the document.
        heading: the text of the heading without markup; empty for a paragraph.
    """

    text: str
    heading: str = ""


class Document(NamedTuple):
    """The blocks of a file, and its title; empty if it has none."""

    title: str
    blocks: list[Block]


def paragraphs(text: str) -> list[str]:
    """Split a text at blank lines."""
    return [part.strip("\n") for part in re.split(r"\n(?:[ \t]*\n)+", text) if part.strip()]


def pack(blocks: Iterable[Block], size: int) -> Iterator[tuple[str, str]]:
    """Pack blocks into passages of at most ``size`` characters; a heading begins a new passage.

    Yields:
        The heading of the section, and the text of the passage.
    """
    parts: list[str] = []
    length, section, has_body = 0, "", False
    for block in blocks:
        if block.heading and has_body:
            yield section, "\n\n".join(parts)
            parts, length, has_body = [], 0, False
        for piece in _split(block.text, size):
            if parts and length + 2 + len(piece) > size:
                yield section, "\n\n".join(parts)
                parts, length = [], 0
            length += len(piece) + (2 if parts else 0)
            parts.append(piece)
        # Of consecutive headings the last is the section.
        section = block.heading or section
        has_body = not block.heading
    if parts:
        yield section, "\n\n".join(parts)


# In Chinese, Japanese, Khmer and Burmese no space follows the end of a sentence.
_SENTENCE_END = re.compile(
    r"[.!?][\"')\]\u2019\u201d]*\s|\n"
    r"|[\u3002\uff01\uff1f\uff61\u17d4\u104b][\u2019\u201d\u3009\u300b\u300d\u300f\u3011\uff09\uff63]*"
)
# A space, or a comma, semicolon or colon of Chinese or Japanese.
_WORD_END = re.compile(r"\s|[\u3001\uff0c\uff1a\uff1b]")
_NOT_SPACE = re.compile(r"\S")


def _split(text: str, size: int) -> Iterator[str]:
    """Split a long paragraph after sentences, else after words, else between characters."""
    start = 0
    while start < len(text):
        end = start + size
        if end < len(text):
            end = _boundary(text, start, end)
        if piece := text[start:end].rstrip():
            yield piece
        # Positions rather than slices of the rest, which would take quadratic time.
        next_start = _NOT_SPACE.search(text, end)
        start = next_start.start() if next_start else len(text)


def _boundary(text: str, start: int, end: int) -> int:
    """The last place to split in the second half of ``text[start:end]``."""
    middle = start + (end - start) // 2
    for boundary in (_SENTENCE_END, _WORD_END):
        ends = [match.end() for match in boundary.finditer(text, start, end)]
        if ends and ends[-1] > middle:
            return ends[-1]
    # Vowel signs and accents stay with their letter.
    for position in range(end, middle, -1):
        if not unicodedata.category(text[position]).startswith("M"):
            return position
    return end
