"""Pieces of HTML. Whatever they are given as text is escaped here, and nowhere else."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from secondpass.evaluation.comparison import Result

_UNFIT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef"
    "\ufffe\uffff]"
)
"""Control characters, lone surrogates, and marks that turn the direction of what follows."""

_CUT = "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: plain; it is escaped.
        tone: ``gain`` or ``loss``, which colour it.
        best: whether it is the best of its column.
    """

    text: str
    tone: str = ""
    best: bool = False


def clean(text: object) -> str:
    """The text with a mark in the place of what must not stand in a page or an SVG."""
    return _UNFIT.sub("\ufffd", str(text).replace("\r\n", "\n").replace("\r", "\n"))


def escape(text: object) -> str:
    """The text for a page, or for an attribute in double quotes."""
    return html.escape(clean(text), quote=True)


def shortened(text: object, most: int) -> str:
    """The text on one line, with an ellipsis where it is longer."""
    line = " ".join(clean(text).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + _CUT


def shortened_name(text: object, most: int) -> str:
    """The name with an ellipsis in its middle where it is longer: some differ in their ends."""
    line = shortened(text, 10_000)
    return line if len(line) <= most else line[: most // 2 - 1] + _CUT + line[-((most - 1) // 2) :]


def name(text: object) -> str:
    """A name or id amid other text: its own direction, and broken where it must be."""
    return f"<bdi>{escape(text)}</bdi>"


def short_name(result: Result) -> str:
    """The system's name, without that of its first stage: ``+rerank``."""
    return result.name.removeprefix(result.first_stage or "") or result.name


def section(ident: str, title: str, *parts: str, level: int = 2) -> str:
    """A section with a heading; ``title`` is plain text, the parts are HTML."""
    head = f'<h{level} id="{ident}">{name(title)}</h{level}>'
    return "\n".join([f'<section aria-labelledby="{ident}">', head, *parts, "</section>"])


def told(text: str) -> str:
    """A paragraph of explanation."""
    return f'<p class="told">{escape(text)}</p>'


def table(
    label: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    *,
    words: Sequence[int] = (),
    inline: bool = False,
) -> str:
    """A table whose first column names the rows; one name may be that of several.

    Args:
        label: what it is, for those who do not see it.
        head: of the columns.
        rows: of as many cells.
        words: columns that hold words, which stand to the left, unlike numbers.
        inline: with style attributes in the place of classes, for pages with styles of their own.
    """

    def attributes(at: int, cell: Cell | None = None) -> str:
        left = at == 0 or at in words
        if inline:
            return f' style="text-align: {"left" if left else "right"}"'
        classes = [
            *(["word"] if left else []),
            *([cell.tone] if cell and cell.tone else []),
            *(["best"] if cell and cell.best else []),
        ]
        return f' class="{" ".join(classes)}"' if classes else ""

    def one(at: int, value: str | Cell) -> str:
        cell = value if isinstance(value, Cell) else Cell(value)
        text = name(cell.text) if at in words else escape(cell.text)
        if cell.best:
            text = f"<strong>{text}</strong>"
        return f"<td{attributes(at, cell)}>{text}</td>"

    def group(title: str, count: int) -> str:
        scope = "row" if count == 1 else f'rowgroup" rowspan="{count}'
        return f'<th scope="{scope}"{attributes(0)}>{name(title)}</th>'

    heads = (f'<th scope="col"{attributes(at)}>{escape(text)}</th>' for at, text in enumerate(head))
    lines = [
        f'<table aria-label="{escape(label)}">',
        f"<thead><tr>{''.join(heads)}</tr></thead>",
    ]
    for title, of_title in groupby(rows, key=lambda row: row[0]):
        told = ["".join(one(at, row[at]) for at in range(1, len(row))) for row in of_title]
        cells = [group(str(title), len(told)) + told[0], *told[1:]]
        lines += ["<tbody>", *(f"<tr>{row}</tr>" for row in cells), "</tbody>"]
    lines.append("</table>")
    whole = "\n".join(lines)
    if inline:
        return whole
    # It scrolls by itself where it is too wide, and so must be reached by the keyboard.
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}, '
        f'scrolls">\n{whole}\n</div>'
    )


def figure(svg: str, caption: str) -> str:
    """A plot with its caption, which is plain text."""
    return f"<figure>\n{svg}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"
