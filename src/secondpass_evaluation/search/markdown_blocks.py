"""Splits Markdown into blocks: at headings and blank lines, except in code."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from secondpass_evaluation.search.passages import Block, Document

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_TITLE = re.compile(r"^title *[:=](.*)$", re.M)
_FRONT_MATTER = {
    "---": re.compile(r"[ \t].*|-( .*)?|#.*|[\w.\"'-]+ *:( .*)?|[\]}].*|"),
    "+++": re.compile(r"[ \t].*|#.*|\[.*|[\w.\"'-]+ *=.*|[\]}].*|"),
}
"""The line around front matter, in YAML or TOML, and what each of its lines looks like. If one
between two rules looks otherwise, all are text."""


def parse_markdown(text: str) -> Document:
    """Split a file at headings and blank lines, except in code. The markup stays in the blocks.

    Front matter (YAML or TOML) is left out, as it describes the file and is not shown. The title is
    that of the front matter, else the first heading.
    """
    lines = text.split("\n")
    front_matter, lines = _without_front_matter(lines)
    match = _TITLE.search("\n".join(front_matter))
    title = match[1].strip().strip("'\"") if match else ""
    blocks = _markdown_blocks(lines)
    headings = (block.heading for block in blocks if block.heading)
    return Document(title or next(headings, ""), blocks)


def _without_front_matter(lines: list[str]) -> tuple[list[str], list[str]]:
    """The lines of the front matter, without those around it, and the other lines."""
    mark = lines[0].rstrip()
    looks_like_it = _FRONT_MATTER.get(mark)
    if looks_like_it is None:
        return [], lines
    ends = {"---", "..."} if mark == "---" else {mark}
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in ends:
            return lines[1:number], lines[number + 1 :]
        if not looks_like_it.fullmatch(line):
            break
    return [], lines


def _markdown_blocks(lines: list[str]) -> list[Block]:
    headings, code = _headings_and_code(lines)
    blocks: list[Block] = []
    paragraph: list[str] = []

    def end_paragraph() -> None:
        joined = "\n".join(paragraph).strip("\n")
        if joined.strip():
            blocks.append(Block(joined))
        paragraph.clear()

    heading_end = 0  # the line after the last heading
    for number, line in enumerate(lines):
        if number in headings:
            end_paragraph()
            heading_end, heading = headings[number]
            blocks.append(Block("\n".join(lines[number:heading_end]), heading))
        elif number < heading_end:
            pass  # the heading is a block already
        elif line.strip() or number in code:
            paragraph.append(line)
        else:
            end_paragraph()
    end_paragraph()
    return blocks


def _headings_and_code(lines: list[str]) -> tuple[dict[int, tuple[int, str]], set[int]]:
    """By its first line, each heading: the line after its last, and its text. The lines of code."""
    headings: dict[int, tuple[int, str]] = {}
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
    return headings, code


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Inline markup stays as it is; link definitions are paragraphs.
    return MarkdownIt("commonmark").disable(["inline", "reference"])
