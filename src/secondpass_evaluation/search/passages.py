"""Pack the blocks of a document into passages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from secondpass.ranking.shared import split


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
        # The last of consecutive headings is the section.
        section = block.heading or section
        has_body = not block.heading
    if parts:
        yield section, "\n\n".join(parts)


def _split(text: str, size: int) -> Iterator[str]:
    """Split a long paragraph after sentences, else after words, else between characters."""
    for start, stop in split(text, size, overlap=0):
        if piece := text[start:stop].rstrip():
            yield piece
