"""Passages: blocks of a document, packed to a size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from secondpass.ranking.splitting import split

PASSAGE_SIZE = 1000
"""Default length of a passage in characters: about 220 tokens of English, which the embedded model
reads in full."""
SMALLEST_PASSAGE = 50


class Block(NamedTuple):
    """A paragraph, or a heading, whose text without markup is in ``heading``."""

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
    """Pack blocks into passages of at most ``size`` characters; a heading begins a new passage."""
    parts: list[str] = []  # of the present passage
    length = 0  # of the parts, joined
    section = ""
    has_body = False  # whether the last block was a paragraph
    for block in blocks:
        if block.heading and has_body:
            yield section, "\n\n".join(parts)
            parts, length, has_body = [], 0, False
        for start, stop in split(block.text, size, overlap=0):
            piece = block.text[start:stop].rstrip()  # to a sentence's end, a word's, or within one
            if not piece:
                continue
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
