"""Pieces of HTML for notebooks. All text is escaped, and styled by attributes only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef"
    "\ufffe\uffff]"
)
"""Control characters, lone surrogates, noncharacters, and overrides of the text direction."""

_CUT_WORD = re.compile(r".*\S(?=\s+\S+\S\Z)", re.DOTALL)
"""The words before the last one, of a text and the character after it, if that is cut."""


class Markup(str):
    """HTML that is inserted as it is. Any other text is escaped."""

    __slots__ = ()


def clean(text: object) -> str:
    """The text with U+FFFD for each character that HTML or SVG cannot hold."""
    return _UNPRINTABLE.sub("\ufffd", str(text).replace("\r\n", "\n").replace("\r", "\n"))


def escaped(text: object) -> Markup:
    """The text as HTML; markup stays as it is."""
    return text if isinstance(text, Markup) else Markup(escape(clean(text)))


def excerpt(text: str, span: tuple[int, int] | None, length: int) -> Markup:
    """The first ``length`` characters of a text as HTML, with the span highlighted.

    If the span begins beyond them, the characters from its start on. A word at the end is left out
    rather than cut, unless it is as long as half of them, as in a language without spaces.
    """
    start = span[0] if span is not None and span[0] >= length else 0
    stop = start + length
    if stop < len(text) and (words := _CUT_WORD.match(text[start : stop + 1], length // 2)):
        stop = start + words.end()
    parts = [(text[start:stop], False)]
    if span is not None:
        first, last = max(span[0], start), min(span[1], stop)
        parts = [(text[start:first], False), (text[first:last], True), (text[last:stop], False)]
    marked = (
        f"<mark>{escaped(part)}</mark>" if is_marked and part else escaped(part)
        for part, is_marked in parts
    )
    before = _ELLIPSIS if start else ""
    after = _ELLIPSIS if stop < len(text) else ""
    return Markup(f"{before}{''.join(marked)}{after}")


def paragraph(*lines: object) -> Markup:
    """A paragraph of several lines."""
    return Markup(f"<p>{'<br>'.join(map(escaped, lines))}</p>")


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, texts: int = 1) -> Markup:
    """A table, of whose columns those at the right, as many as ``texts``, are not numbers."""
    numbers = len(headings) - texts

    def line(tag: str, cells: Sequence[object]) -> str:
        aligned = (
            f'<{tag} style="text-align:{"right" if index < numbers else "left"};'
            f'vertical-align:top" dir="auto">{escaped(cell)}</{tag}>'
            for index, cell in enumerate(cells)
        )
        return f"<tr>{''.join(aligned)}</tr>"

    head = line("th", headings)
    body = "".join(line("td", row) for row in rows)
    return Markup(f"<table><thead>{head}</thead><tbody>{body}</tbody></table>")


def block(kind: str, *parts: Markup) -> str:
    """A division with the class ``secondpass-KIND``."""
    return f'<div class="secondpass-{kind}">{"".join(parts)}</div>'
