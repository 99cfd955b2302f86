"""Read Markdown files as blocks of text. markdown-it-py finds headings and code."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from secondpass.errors import MissingExtraError
from secondpass_evaluation.search.passages import Block, Document

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_TITLE = re.compile(r"^title:(.*)$", re.M)


def parse_markdown(text: str) -> Document:
    """Split a file at headings and blank lines, except in code. The markup stays in the blocks.

    YAML front matter is a separate block. The title is that of the front matter, else the first
    heading.

    Raises:
        MissingExtraError: markdown-it-py is not installed.
    """
    blocks: list[Block] = []
    title, lines = "", text.split("\n")
    if lines[0].rstrip() == "---" and "---" in map(str.rstrip, lines[1:]):
        end = [line.rstrip() for line in lines].index("---", 1)
        front_matter = "\n".join(lines[1:end])
        if match := _TITLE.search(front_matter):
            title = match[1].strip().strip("'\"")
        if front_matter.strip():
            blocks.append(Block(front_matter))
        lines = lines[end + 1 :]
    blocks += _blocks(lines)
    headings = (block.heading for block in blocks if block.heading)
    return Document(title or next(headings, ""), blocks)


def _blocks(lines: list[str]) -> list[Block]:
    headings: dict[int, tuple[int, str]] = {}  # first line -> line after the last, text
    code: set[int] = set()
    tokens = _parser().parse("\n".join(lines))
    for position, token in enumerate(tokens):
        if token.map is None:
            continue
        start, end = token.map
        if token.type == "heading_open" and token.level == 0:
            headings[start] = end, " ".join(tokens[position + 1].content.split())
        elif token.type in {"fence", "code_block"}:
            code.update(range(start, end))
    blocks: list[Block] = []
    paragraph: list[str] = []

    def end_paragraph() -> None:
        joined = "\n".join(paragraph).strip("\n")
        if joined.strip():
            blocks.append(Block(joined))
        paragraph.clear()

    heading_end = 0
    for number, line in enumerate(lines):
        if number in headings:
            end_paragraph()
            heading_end, heading = headings[number]
            blocks.append(Block("\n".join(lines[number:heading_end]), heading))
        elif number < heading_end:
            continue
        elif line.strip() or number in code:
            paragraph.append(line)
        else:
            end_paragraph()
    end_paragraph()
    return blocks


@cache
def _parser() -> MarkdownIt:
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise MissingExtraError("evaluation", "reading Markdown") from None
    # Inline markup stays as it is; link definitions are paragraphs.
    return MarkdownIt("commonmark").disable(["inline", "reference"])
