"""The table below the verdict: one line for each system, by the first measure."""

from __future__ import annotations

from secondpass_evaluation.costs import percentile
from secondpass_evaluation.report.cells import SYSTEM, Cell, Column, Table, row
from secondpass_evaluation.report.text import NONE, in_milliseconds, number, p_value
from secondpass_evaluation.report.verdict import tone_of
from secondpass_evaluation.results import ComparisonData, Result


def overview(comparison: ComparisonData) -> Table:
    """Quality, difference and cost of every measured system."""
    if not comparison.ran:
        return Table("overview", "Overview", (), ())
    measure = comparison.measures[0]
    means = {
        result.name: result.evaluation.mean[measure]
        for result in comparison.ran
        if result.evaluation
    }
    best = max(means.values(), default=0.0) if len(set(means.values())) > 1 else None
    has_prices = any(result.cost.cost is not None for result in comparison.ran)
    rows = []
    for result in comparison.ran:
        if result.name not in means:
            continue
        median = percentile(comparison.end_to_end(result).values(), 0.5)
        cells: list[str | Cell] = [
            result.name,
            Cell(f"{means[result.name]:.4f}", best=means[result.name] == best),
            *_against(result, measure),
            in_milliseconds(median),
        ]
        if has_prices:
            cells.append(number(cost_of_1000(result), 2))
        rows.append(row(*cells))
    against = comparison.baseline or "its first stage"
    heads = [measure, f"against {against}", "interval", "corrected p", "ms per query"]
    heads += ["cost of 1,000 queries"] if has_prices else []
    note = "Milliseconds are the median of search and reranking together."
    return Table(
        "overview", "Overview", (SYSTEM, *map(Column, heads)), tuple(rows), (note,) if rows else ()
    )


def cost_of_1000(result: Result) -> float | None:
    """The cost of a thousand queries at the configured prices; None without prices."""
    count = len(result.cost.seconds)
    return None if result.cost.cost is None or not count else result.cost.cost / count * 1000


def _against(result: Result, measure: str) -> list[str | Cell]:
    difference = result.differences.get(measure)
    if difference is None:
        return [NONE] * 3
    tone = tone_of(difference)
    interval = NONE
    if difference.low is not None and difference.high is not None:
        interval = f"{difference.low:+.4f} to {difference.high:+.4f}"
    return [
        Cell(f"{difference.mean:+.4f}", tone),
        Cell(interval, tone),
        Cell(p_value(difference.corrected_p), tone),
    ]
