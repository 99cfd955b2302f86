"""Numbers, names and tables as text for reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from secondpass.markup import clean
from secondpass.types import DEGRADED_WORDS
from secondpass_evaluation.results import Result
from secondpass_evaluation.significance import Difference
from secondpass_evaluation.texts import ELLIPSIS

NONE = "\N{EN DASH}"
ZERO = 5e-5
"""Differences below this are printed as 0.0000."""


def shortened_name(text: object, length: int) -> str:
    """The name on one line, cut in its middle: many names differ only at their end."""
    line = " ".join(clean(text).split())
    if len(line) <= length:
        return line
    return line[: length // 2 - 1] + ELLIPSIS + line[-((length - 1) // 2) :]


def short_name(result: Result) -> str:
    """The system's name without the name of its first stage: ``+rerank``."""
    return result.name.removeprefix(result.first_stage or "") or result.name


def number(value: float | int | None, places: int = 0) -> str:
    """A number with thousands separators; a dash for None."""
    return NONE if value is None else f"{value:,.{places}f}"


def in_milliseconds(seconds: float | None) -> str:
    """Milliseconds without the unit; times below 1 ms get more digits."""
    if seconds is None:
        return NONE
    return number(seconds * 1000, 1 if seconds >= 0.001 else 3)


def milliseconds(seconds: float) -> str:
    """Milliseconds with the unit, two significant digits or more."""
    value = seconds * 1000
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2g} ms"


def timed(seconds: float | None, share_known: float) -> str:
    """Milliseconds, with the share of the passages that were encoded before, if some were."""
    text = in_milliseconds(seconds)
    if seconds is None or not share_known:
        return text
    share = f"{share_known:.0%}" if share_known >= 0.005 else "< 1%"
    return f"{text} ({share} known)"


KNOWN = (
    "Known passages had been encoded before, for another query or system or in a store, so they "
    "take much less time: compare times only where about the same share was known."
)
"""A note below times of :func:`timed`."""


def p_value(value: float | None) -> str:
    """A p-value; a dash for None."""
    if value is None:
        return NONE
    return "< 0.001" if value < 0.001 else _rounded_p(value)


def p_phrase(value: float) -> str:
    """A p-value in a sentence."""
    text = p_value(value)
    return f"p {text}" if text.startswith(("<", "just")) else f"p = {text}"


_LEVELS = (0.001, 0.01, 0.05, 0.1)
"""Levels of significance that a p-value is compared with."""

_MOST_PLACES = 6


def _rounded_p(value: float) -> str:
    """Three decimals; more if the rounded value would be on another side of a usual level."""
    for places in range(3, _MOST_PLACES):
        text = f"{value:.{places}f}"
        if all((float(text) < level) is (value < level) for level in _LEVELS):
            return text
    below = [level for level in _LEVELS if value < level]
    return f"just below {below[0]:g}" if below else f"{value:.3f}"


def interval(low: float | None, high: float | None, sign: str = "+") -> str:
    """The ends of an interval, with their signs or without; a dash if they are not known."""
    return NONE if low is None or high is None else f"{low:{sign}.4f} to {high:{sign}.4f}"


def too_few(difference: Difference) -> str:
    """A phrase that there are too few queries; empty if there are enough."""
    if difference.enough_queries:
        return ""
    are = "query is" if difference.queries == 1 else "queries are"
    return f"{difference.queries} {are} too few to say"


def calls_per_query(result: Result) -> str | None:
    """Calls per query as text; None if not known, and if no service is asked."""
    count = len(result.cost.seconds)
    if not count or not result.cost.calls:
        return None
    return f"{result.cost.calls / count:,.1f}".removesuffix(".0")


def degraded_by(result: Result) -> str:
    """Why rankings are degraded, in words, with the names of fallbacks."""
    words = {**DEGRADED_WORDS}
    if names := sorted(result.fallbacks):
        plural = "s" if len(names) > 1 else ""
        words["fallback"] = f"ranked by the fallback{plural} {listed(names)}"
    return "; ".join(words[reason] for reason in words if result.degraded_by.get(reason))


def listed(items: list[str]) -> str:
    """The items as ``a, b and c``."""
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


Tone: TypeAlias = Literal["", "gain", "loss", "issue"]
"""The colour of a cell: better or worse than the system it is compared with, or an issue."""


def tone_of(difference: Difference) -> Tone:
    """The colour of a difference: none if it is not significant."""
    if not difference.is_significant or abs(difference.mean) < ZERO:
        return ""
    return "gain" if difference.mean > 0 else "loss"


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
