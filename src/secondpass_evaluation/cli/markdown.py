"""Reports in Markdown on a terminal."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement

from secondpass.cli.tables import FittedTable


class _Table(TableElement):
    """A table that fits the terminal; columns that are aligned right are numbers."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = FittedTable()
        if self.header is not None and self.header.row is not None:
            for cell in self.header.row.cells:
                table.add_column(cell.content, number=cell.justify == "right")
        for row in [] if self.body is None else self.body.rows:
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class Report(Markdown):
    """Markdown as rich renders it, except for tables."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "table_open": _Table,
    }
