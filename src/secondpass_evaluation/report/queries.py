"""The table of all queries, in the page only: the first measure of every system."""

from __future__ import annotations

from secondpass_evaluation.measures import Evaluation
from secondpass_evaluation.report.cells import Cell, Column, Table, Tone, row
from secondpass_evaluation.results import ComparisonData
from secondpass_evaluation.significance import TIE


def all_queries(comparison: ComparisonData) -> Table:
    """Every query with its values, coloured where a reranker differs from its first stage."""
    measure = comparison.measures[0] if comparison.measures else ""
    measured = {result.name: result.evaluation for result in comparison.ran if result.evaluation}
    first_stages = {result.name: result.first_stage or "" for result in comparison.ran}
    rows = []
    for query, text in comparison.queries.items() if measured else ():
        cells = [Cell(text or query), Cell(query)]
        for name, evaluation in measured.items():
            value = _value(evaluation, measure, query)
            before = measured.get(first_stages[name])
            old = None if before is None else _value(before, measure, query)
            number = "" if value is None else f"{value:.3f}"
            cells.append(Cell(number, _tone(old, value)))
        rows.append(row(*cells))
    note = (
        f"{measure} of every query. Coloured: better or worse than the first stage of the reranker."
    )
    columns = Column("query", "text"), Column("id", "text"), *map(Column, measured)
    return Table("queries", "All queries", columns, tuple(rows), (note,) if rows else ())


def _value(evaluation: Evaluation, measure: str, query: str) -> float | None:
    return evaluation.per_query.get(measure, {}).get(query)


def _tone(before: float | None, after: float | None) -> Tone:
    if before is None or after is None or abs(after - before) <= TIE:
        return ""
    return "gain" if after > before else "loss"
