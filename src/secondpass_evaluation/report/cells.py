"""The parts of a table of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Tone: TypeAlias = Literal["", "gain", "loss", "issue"]
"""The colour of a cell: better or worse than the system it is compared with, or an issue."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, and whether it holds numbers, which are aligned right."""

    title: str
    kind: Literal["number", "text"] = "number"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: plain text, its colour, and whether it is the best of its column."""

    text: str
    tone: Tone = ""
    best: bool = False


Row: TypeAlias = tuple[Cell, ...]
SYSTEM = Column("system", "text")


@dataclass(frozen=True, slots=True)
class Table:
    """A section of the report. All text is plain; the renderers escape it.

    Attributes:
        key: id of the section in the page.
        title: heading of the section.
        columns: the first column names the system, the query or the setting of the row.
        rows: none if the section has only notes.
        notes: paragraphs before the table.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def row(*cells: str | Cell) -> Row:
    """A row of cells; a string is a cell without colour."""
    return tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)
