"""Pack the blocks of a document into passages."""

from __future__ import annotations

import re
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


# The last three end sentences in Chinese and Japanese, where no space follows.
_SENTENCE_END = re.compile(r"[.!?][\"')\]\u2019\u201d]*\s|\n|[\u3002\uff01\uff1f]")
_SPACE = re.compile(r"\s")
_NOT_SPACE = re.compile(r"\S")


def _split(text: str, size: int) -> Iterator[str]:
    """Split a long paragraph after sentences, else between words, else anywhere."""
    start = 0
    while start < len(text):
        end = start + size
        for boundary in (_SENTENCE_END, _SPACE) if end < len(text) else ():
            ends = [match.end() for match in boundary.finditer(text, start, end)]
            if ends and ends[-1] - start > size // 2:
                end = ends[-1]
                break
        if piece := text[start:end].rstrip():
            yield piece
        # Positions rather than slices of the rest, which would take quadratic time.
        next_start = _NOT_SPACE.search(text, end)
        start = next_start.start() if next_start else len(text)
