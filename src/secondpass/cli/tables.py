"""Tables that fit the terminal: numbers stay whole, and texts are folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

_GAP = 2
"""Spaces between columns."""

_NARROWEST_TEXT = 16
"""Columns that a text has at least, unless it is shorter."""

_LONGEST_NAME = 24
"""Columns of the longest word in the first column that stays whole, such as a preset's name."""


class _Column(NamedTuple):
    heading: Text
    is_number: bool


class FittedTable:
    """A table without lines, for :meth:`rich.console.Console.print`.

    A number is never cut or folded; its heading may be. Texts are folded and share what the numbers
    leave. If that is too little, each row is printed as a paragraph of headings and values. A
    column of numbers in which no row has one is left out.

    Attributes:
        spaced: whether an empty line follows each row.
    """

    def __init__(self, *, spaced: bool = False) -> None:
        self.spaced = spaced
        self._columns: list[_Column] = []
        self._rows: list[tuple[Text, ...]] = []

    def add_column(self, heading: str | Text, *, number: bool = False) -> None:
        self._columns.append(_Column(_as_text(heading), number))

    def add_row(self, *cells: str | Text) -> None:
        """Add a row with a cell for each column; a string has no markup."""
        self._rows.append(tuple(map(_as_text, cells)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self._without_empty()
        widths = shown._widths(options.max_width)
        if widths is None:
            for row in shown._rows:
                yield shown._paragraph(row)
            return
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
        for column, width in zip(shown._columns, widths, strict=True):
            table.add_column(
                column.heading,
                width=width,
                justify="right" if column.is_number else "left",
                overflow="fold",
            )
        for *cells, last in shown._rows:
            table.add_row(*cells, last + Text("\n") if self.spaced else last)
        yield table

    def _without_empty(self) -> FittedTable:
        """The table without columns of numbers in which no row has one."""
        kept: list[int] = []
        for index, column in enumerate(self._columns):
            is_empty = self._rows and not any(row[index].plain for row in self._rows)
            if not (column.is_number and is_empty):
                kept.append(index)
        table = FittedTable(spaced=self.spaced)
        table._columns = [self._columns[index] for index in kept]
        table._rows = [tuple(row[index] for index in kept) for row in self._rows]
        return table

    def _widths(self, available: int) -> Sequence[int] | None:
        """The width of each column; None if the narrowest ones are too wide together."""
        available -= _GAP * (len(self._columns) - 1)
        widths, narrowest = [], []
        for index, column in enumerate(self._columns):
            cells = max((_width(row[index]) for row in self._rows), default=0)
            words = max(map(cell_len, column.heading.plain.split()), default=0)
            widths.append(max(cells, _width(column.heading), 1))
            text = min(_NARROWEST_TEXT if index else self._name_width(), widths[-1])
            narrowest.append(max(cells, words) if column.is_number else max(words, text))
        if sum(widths) <= available:
            return widths
        if sum(narrowest) > available:
            return None
        for index, column in enumerate(self._columns):
            if column.is_number:
                widths[index] = narrowest[index]
        while sum(widths) > available:
            foldable = [index for index, width in enumerate(widths) if width > narrowest[index]]
            widths[max(foldable, key=widths.__getitem__)] -= 1
        return widths

    def _name_width(self) -> int:
        """The columns that the first column has at least: its names are not folded."""
        words = (cell_len(word) for row in self._rows for word in row[0].plain.split())
        longest = max(words, default=0)
        return max(_NARROWEST_TEXT, longest if longest <= _LONGEST_NAME else 0)

    def _paragraph(self, row: Sequence[Text]) -> Text:
        parts = []
        for column, cell in zip(self._columns, row, strict=True):
            if cell.plain:
                heading = f"{column.heading.plain} ".lstrip()
                parts.append(Text.assemble((heading, "bold"), cell))
        return Text(", ").join(parts).append("\n")


def plain_table(*headings: str, numbers: Sequence[str] = ()) -> FittedTable:
    """A table of texts, followed by numbers."""
    table = FittedTable()
    for heading in headings:
        table.add_column(heading)
    for heading in numbers:
        table.add_column(heading, number=True)
    return table


def _as_text(value: str | Text) -> Text:
    return Text(value) if isinstance(value, str) else value


def _width(text: Text) -> int:
    """Columns of the longest line."""
    return max(map(cell_len, text.plain.split("\n")))
