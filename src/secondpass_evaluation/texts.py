"""Texts of documents as reports and tables show them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from secondpass.markup import clean

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

_HEADING = re.compile(
    r"(?:#{1,6}[ \t](?P<marked>.*)(?:\n|$)"
    r"|(?P<underlined>.+)\n(?:=+|-+)[ \t]*(?:\n|$)|(?P<plain>.+)\n[ \t]*\n)\s*"
)
"""A heading of Markdown, or a line of its own, as a heading of HTML is."""


def shortened(text: object, length: int) -> str:
    """The text on one line of at most ``length`` characters, cut after a word."""
    line = " ".join(clean(text).split())
    if len(line) <= length:
        return line
    kept = line[: length - 1]
    if not line[length - 1].isspace() and len(words := kept.rsplit(" ", 1)[0]) > length // 2:
        kept = words  # a word as long as half the line, such as an address, is cut
    return kept.rstrip() + ELLIPSIS


def with_plain_headings(text: str) -> str:
    """The text with the headings that it begins with as plain words, each once.

    The first line may be the title, which is put before the text of a passage.
    """
    title, _, rest = text.partition("\n")
    headings, end = leading_headings(rest, title.split(" > "))
    if end:
        return " ".join([title, *headings, rest[end:]])
    headings, end = leading_headings(text, ())
    return " ".join([*headings, text[end:]])


def leading_headings(text: str, shown: Sequence[str]) -> tuple[list[str], int]:
    """The headings that a passage begins with, without marks and the ones shown; and their end."""
    headings, end = [], 0
    for heading, found in _headings(text):
        if heading not in shown:
            if found["plain"]:
                break
            headings.append(heading)
        end = found.end()
    return headings, end


def below_headings(text: str, shown: Sequence[str]) -> str:
    """A passage without the headings that it begins with, up to the first that is not shown."""
    end = 0
    for heading, found in _headings(text):
        if heading not in shown:
            break
        end = found.end()
    return text[end:]


def _headings(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """The headings that a passage begins with, without marks."""
    end = 0
    while found := _HEADING.match(text, end):
        words = next(filter(None, found.groups()), "").split()
        if found["marked"] and words and not words[-1].strip("#"):  # marks at the end
            words.pop()
        yield " ".join(words), found
        end = found.end()
