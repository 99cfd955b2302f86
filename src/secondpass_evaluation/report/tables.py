"""The tables of a report. A new table is a function here and a line in :data:`TABLES`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from secondpass_evaluation.judging.inference import Corrected
from secondpass_evaluation.report.text import (
    NONE,
    SYSTEM,
    Cell,
    Column,
    Row,
    Table,
    Tone,
    in_milliseconds,
    number,
    p_value,
    row,
)
from secondpass_evaluation.report.verdict import degraded_by, is_significant, tone_of, too_few
from secondpass_evaluation.results import ComparisonData, Cost, Result, Stability, percentile
from secondpass_evaluation.significance import Difference, fewest_queries


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


def tables(comparison: ComparisonData) -> list[Table]:
    """The tables that have any content."""
    built = (build(comparison) for build in TABLES)
    return [table for table in built if table.rows or table.notes]


def quality(comparison: ComparisonData) -> Table:
    """The means of every measured system."""
    means = [
        (result.name, result.evaluation.mean)
        for result in comparison.ran
        if result.evaluation is not None
    ]
    best = {}
    for measure in comparison.measures:
        values = {mean[measure] for _, mean in means}
        if len(values) > 1:
            best[measure] = max(values)
    rows = [
        row(
            name,
            *(
                Cell(f"{mean[measure]:.4f}", best=mean[measure] == best.get(measure))
                for measure in comparison.measures
            ),
        )
        for name, mean in means
    ]
    return Table("quality", "Quality", (SYSTEM, *map(Column, comparison.measures)), tuple(rows))


def not_measured(comparison: ComparisonData) -> Table:
    """The rerankers that judged nothing, with their issues."""
    note = "These judged nothing in any ranking. Their figures would be those of the first stage."
    return _reasons("not-measured", "Not measured", comparison.not_measured, note)


def differences(comparison: ComparisonData) -> Table:
    """Every system against the baseline, or its own first stage, by every measure."""
    items = [
        (result.name, difference)
        for result in comparison.ran
        for difference in result.differences.values()
    ]
    title = f"Against {comparison.baseline or 'the first stage of each'}"
    if not items:
        return Table("differences", title, (), ())
    _, first = items[0]
    note = (
        f"Paired {comparison.settings.get('test', '')} test on the same queries; p is corrected "
        "for all systems that are compared by a measure."
    )
    if few := too_few(first):
        fewest = fewest_queries(first.confidence)
        note += f" {few}: a difference can be told from chance with {fewest} or more."
    columns = (
        SYSTEM,
        Column("measure", "text"),
        *map(Column, ("difference", f"{first.confidence:.0%} interval", "p", "corrected p")),
        *map(Column, ("significant", "won / tied / lost")),
    )
    rows = tuple(_difference_row(name, difference) for name, difference in items)
    return Table("differences", title, columns, rows, (note,))


def _difference_row(name: str, difference: Difference) -> Row:
    tone = tone_of(difference)
    interval = NONE
    if difference.low is not None and difference.high is not None:
        interval = f"{difference.low:+.4f} to {difference.high:+.4f}"
    significant = Cell("yes" if is_significant(difference) else "no", tone)
    if not difference.enough_queries:
        significant = Cell("too few queries")
    elif difference.corrected_p is None:
        significant = Cell(NONE)
    return row(
        name,
        difference.measure,
        Cell(f"{difference.mean:+.4f}", tone),
        Cell(interval, tone),
        p_value(difference.p),
        Cell(p_value(difference.corrected_p), tone),
        significant,
        f"{difference.wins} / {difference.ties} / {difference.losses}",
    )


def costs(comparison: ComparisonData) -> Table:
    """Times, usage, and the share of rankings that are not ok."""
    heads = (
        "p50 ms",
        "p95 ms",
        "p50 ms end to end",
        "calls",
        "pairs",
        "tokens in",
        "tokens out",
        "cost",
        "not ok",
    )
    rows = []
    for result in comparison.ran:
        cost, rate = result.cost, result.failure_rate
        rows.append(
            row(
                result.name,
                in_milliseconds(cost.percentile(0.5)),
                in_milliseconds(cost.percentile(0.95)),
                in_milliseconds(percentile(comparison.end_to_end(result).values(), 0.5)),
                number(cost.calls),
                number(cost.pairs),
                number(cost.input_tokens),
                number(cost.output_tokens),
                number(cost.cost, 4),
                NONE if rate is None else Cell(f"{rate:.1%}", "issue" if rate else ""),
            )
        )
    note = (
        "Times are those of the search for a first stage, of the reranking alone for a reranker; "
        "end to end is both. Candidates that are part of the suite have no search time. "
        "A dash: not known."
    )
    cached = [
        f"{result.name}: {result.cost.cached:,} answers came from a response cache, so its times, "
        "calls, tokens and cost are too low."
        for result in comparison.ran
        if result.cost.cached
    ]
    skipped = [_skipped(result) for result in comparison.ran if result.cost.skipped]
    billed = [_billed(result.name, result.cost) for result in comparison.ran]
    notes = (note, *cached, *skipped, *filter(None, billed)) if rows else ()
    return Table("cost", "Cost", (SYSTEM, *map(Column, heads)), tuple(rows), notes)


def _billed(name: str, cost: Cost) -> str:
    """The billed units of a system; empty if it has none."""
    if cost.units is None or cost.units_per_query is None:
        return ""
    return f"{name}: {cost.units:,.10g} billed units, {cost.units_per_query:,.3g} per query."


def _skipped(result: Result) -> str:
    cost = result.cost
    saved = f"{cost.saved_pairs:,} pairs"
    if cost.saved_seconds is not None:
        saved += f" and, by the times of the other queries, {cost.saved_seconds:.1f} s"
    return (
        f"{result.name}: the pass was skipped, or made shorter, for {cost.skipped:,} of "
        f"{len(cost.seconds):,} queries, which saved {saved}."
    )


def issues(comparison: ComparisonData) -> Table:
    """Statuses and issues of rankings, for systems with a ranking that is not ok or has issues."""
    columns = (SYSTEM, Column("rankings", "text"), Column("issues", "text"))
    rows = tuple(
        row(result.name, _statuses(result), _counts(result.issues) or NONE)
        for result in comparison.results
        if result.failure_rate or result.issues
    )
    notes: tuple[str, ...] = ()
    if rows:
        notes = (
            "A ranking that is not ok still counts in the figures: a partial one is judged in "
            "part, a degraded one comes from a fallback, and an unchanged one has the first "
            "stage's order. A system all of whose rankings are unchanged is not measured.",
        )
    elif any(result.statuses for result in comparison.ran):
        notes = ("Every ranking was ok.",)
    notes += tuple(
        f"{result.name}: {result.truncated:.1%} of the candidates within the depth are longer than "
        "the model reads (text_truncated); `passages` has all of a text judged."
        for result in comparison.ran
        if result.truncated
    )
    return Table("issues", "Issues", columns, rows, notes)


def _statuses(result: Result) -> str:
    cause = {"degraded": f" ({degraded_by(result)})"}
    return ", ".join(
        f"{count:,} {status}{cause.get(status, '')}"
        for status, count in sorted(result.statuses.items())
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))


def input_order(comparison: ComparisonData) -> Table:
    """The effect of input order, where candidates were shuffled."""
    heads = ("Kendall's tau", "top 10 kept", "measure when shuffled", "shuffles")
    rows = tuple(
        row(
            result.name,
            f"{stability.tau:.3f}",
            f"{stability.overlap:.3f}",
            _spread(stability),
            number(stability.shuffles),
        )
        for result in comparison.ran
        if (stability := result.stability) is not None
    )
    note = (
        "Each query's candidates were shuffled and reranked; tau is the rank correlation with the "
        "unshuffled ranking. 1: input order has no effect."
    )
    title = "Sensitivity to input order"
    return Table("order", title, (SYSTEM, *map(Column, heads)), rows, (note,) if rows else ())


def _spread(stability: Stability) -> str:
    if not stability.means:
        return NONE
    return f"{min(stability.means):.4f} to {max(stability.means):.4f} ({stability.measure})"


def not_run(comparison: ComparisonData) -> Table:
    """The systems that could not run, with the reasons."""
    return _reasons("not-run", "Not run", comparison.not_run)


def settings(comparison: ComparisonData) -> Table:
    """The settings of the comparison; in the page only."""
    return settings_table(comparison.settings)


def settings_table(values: Mapping[str, Any]) -> Table:
    """Settings by name; a mapping has a row for each of its settings."""
    rows = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            rows += [row(f"{key}: {inner}", _as_text(item)) for inner, item in value.items()]
        else:
            rows.append(row(str(key), _as_text(value)))
    columns = Column("setting", "text"), Column("value", "text")
    return Table("settings", "Settings and versions", columns, tuple(rows))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _reasons(key: str, title: str, results: tuple[Result, ...], *notes: str) -> Table:
    rows = tuple(row(result.name, result.reason) for result in results)
    return Table(key, title, (SYSTEM, Column("reason", "text")), rows, notes if rows else ())


def corrected(comparison: ComparisonData, *, first_only: bool = False) -> Table:
    """Means and differences: by the model's judgements, and corrected."""
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
            *_corrected_difference(item.difference),
        )
        for item in items
    )
    return Table("corrected", title, columns, rows, (note,))


def _corrected_difference(difference: Corrected | None) -> tuple[Cell, Cell]:
    if difference is None:
        return Cell(NONE), Cell(NONE)
    tone: Tone = ""
    if difference.low > 0 or difference.high < 0:
        tone = "gain" if difference.mean > 0 else "loss"
    interval = f"{difference.low:+.4f} to {difference.high:+.4f}"
    return Cell(f"{difference.mean:+.4f}", tone), Cell(interval, tone)


TABLES: tuple[Callable[[ComparisonData], Table], ...] = (
    overview,
    corrected,
    quality,
    not_measured,
    differences,
    costs,
    issues,
    input_order,
    not_run,
)
"""In the order of the report, in Markdown and HTML alike."""
