"""The table of figures that are corrected by a person's judgements."""

from __future__ import annotations

from secondpass_evaluation.judging.inference import Corrected
from secondpass_evaluation.report.cells import SYSTEM, Cell, Column, Table, Tone, row
from secondpass_evaluation.report.text import NONE
from secondpass_evaluation.results import ComparisonData


def corrected(comparison: ComparisonData, *, first_only: bool = False) -> Table:
    """Means and differences: by the model's judgements, and corrected.

    Args:
        comparison: what was measured.
        first_only: only the first measure.
    """
    measures = comparison.measures[:1] if first_only else comparison.measures
    items = [item for item in comparison.corrected if item.mean.measure in measures]
    title = "Corrected by a person's judgements"
    if not items:
        return Table("corrected", title, (), ())
    first = items[0].mean
    note = (
        f"A model has judged all {first.queries:,} queries, and a person {first.people:,} of "
        "them, by which the figures are corrected. Intervals are of "
        f"{first.confidence:.0%}; the person's is that of the person's judgements alone."
    )
    heads = ("by the model", "corrected", "interval", "the person's interval")
    columns = (
        SYSTEM,
        Column("measure", "text"),
        *map(Column, (*heads, "corrected difference", "interval of the difference")),
    )
    rows = tuple(
        row(
            item.name,
            item.mean.measure,
            f"{item.mean.uncorrected:.4f}",
            f"{item.mean.mean:.4f}",
            f"{item.mean.low:.4f} to {item.mean.high:.4f}",
            f"{item.mean.people_low:.4f} to {item.mean.people_high:.4f}",
            *_difference(item.difference),
        )
        for item in items
    )
    return Table("corrected", title, columns, rows, (note,))


def _difference(difference: Corrected | None) -> tuple[Cell, Cell]:
    if difference is None:
        return Cell(NONE), Cell(NONE)
    tone: Tone = ""
    if difference.low > 0 or difference.high < 0:
        tone = "gain" if difference.mean > 0 else "loss"
    interval = f"{difference.low:+.4f} to {difference.high:+.4f}"
    return Cell(f"{difference.mean:+.4f}", tone), Cell(interval, tone)
