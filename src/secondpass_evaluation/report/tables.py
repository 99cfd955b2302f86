"""The tables of a report. A new table is a function here and a line in :data:`TABLES`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from secondpass.settings import counted
from secondpass_evaluation.report.text import (
    KNOWN,
    NONE,
    SYSTEM,
    Cell,
    Column,
    Row,
    Table,
    Tone,
    degraded_by,
    interval,
    number,
    p_value,
    row,
    timed,
    tone_of,
    too_few,
)
from secondpass_evaluation.results import ComparisonData, Result, percentile
from secondpass_evaluation.significance import Difference, fewest_queries


def tables(comparison: ComparisonData) -> list[Table]:
    """The tables that have any content."""
    built = (build(comparison) for build in TABLES)
    return [table for table in built if table.rows or table.notes]


def _by_system(
    key: str, title: str, heads: Iterable[str | Column], rows: Iterable[Row], *notes: str
) -> Table:
    """A table with a row for each of some systems; without any, it has no notes either."""
    columns = [Column(head) if isinstance(head, str) else head for head in heads]
    listed = tuple(rows)
    return Table(key, title, (SYSTEM, *columns), listed, notes if listed else ())


def overview(comparison: ComparisonData) -> Table:
    """Quality, difference and cost of every measured system."""
    measure = comparison.measures[0]
    means = comparison.means(measure)
    best = max(means.values(), default=0.0) if len(set(means.values())) > 1 else None
    has_prices = any(result.cost.cost is not None for result in comparison.ran)
    rows = []
    for result in comparison.ran:
        if result.name not in means:
            continue
        mean, median = means[result.name], percentile(comparison.end_to_end(result).values(), 0.5)
        cells = [
            Cell(f"{mean:.4f}", best=mean == best),
            *_against(result.differences.get(measure)),
            Cell(timed(median, result.cost.share_known)),
        ]
        if has_prices:
            cells.append(Cell(number(cost_of_1000(result), 2)))
        rows.append(row(result.name, *cells))
    against = comparison.baseline or "its first stage"
    heads = [measure, f"against {against}", "interval", "corrected p", "ms per query"]
    heads += ["cost of 1,000 queries"] if has_prices else []
    note = "ms per query: the median time of search and reranking together."
    return _by_system("overview", "Overview", heads, rows, note, *_known(comparison))


def _known(comparison: ComparisonData) -> list[str]:
    """The note on known passages, if there are some."""
    return [KNOWN] if any(result.cost.known for result in comparison.ran) else []


def cost_of_1000(result: Result) -> float | None:
    """The cost of a thousand queries at the configured prices; None without prices."""
    count = len(result.cost.seconds)
    return None if result.cost.cost is None or not count else result.cost.cost / count * 1000


def _against(difference: Difference | None) -> list[Cell]:
    if difference is None:
        return [Cell(NONE)] * 3
    texts = (
        f"{difference.mean:+.4f}",
        interval(difference.low, difference.high),
        p_value(difference.corrected_p),
    )
    return [Cell(text, tone_of(difference)) for text in texts]


def corrected(comparison: ComparisonData, *, first_only: bool = False) -> Table:
    """Means and differences by the model's judgements, and corrected by a person's."""
    measures = comparison.measures[:1] if first_only else comparison.measures
    items = [item for item in comparison.corrected if item.mean.measure in measures]
    rows = []
    for item in items:
        mean, change = item.mean, item.difference
        cells = [Cell(NONE), Cell(NONE)]
        if change is not None:
            tone: Tone = ""
            if change.low > 0 or change.high < 0:
                tone = "gain" if change.mean > 0 else "loss"
            texts = f"{change.mean:+.4f}", interval(change.low, change.high)
            cells = [Cell(text, tone) for text in texts]
        rows.append(
            row(
                item.name,
                mean.measure,
                f"{mean.uncorrected:.4f}",
                f"{mean.mean:.4f}",
                interval(mean.low, mean.high, sign=""),
                interval(mean.people_low, mean.people_high, sign=""),
                *cells,
            )
        )
    heads = (
        Column("measure", "text"),
        *("by the model", "corrected", "interval", "the person's interval"),
        *("corrected difference", "interval of the difference"),
    )
    notes = [
        f"A model judged all {counted(item.mean.queries, 'query', 'queries')}, and a person judged "
        f"{item.mean.people:,} of them. The person's judgements correct the figures. Intervals "
        f"have a confidence of {item.mean.confidence:.0%}. The person's interval uses the "
        "person's judgements alone."
        for item in items[:1]
    ]
    return _by_system("corrected", "Corrected by a person's judgements", heads, rows, *notes)


def quality(comparison: ComparisonData) -> Table:
    """The means of every measured system."""
    means = {measure: comparison.means(measure) for measure in comparison.measures}
    best = {
        measure: max(values.values())
        for measure, values in means.items()
        if len({*values.values()}) > 1
    }
    rows = []
    for name in means[comparison.measures[0]]:
        values = [(values[name], best.get(measure)) for measure, values in means.items()]
        rows.append(row(name, *(Cell(f"{mean:.4f}", best=mean == most) for mean, most in values)))
    return _by_system("quality", "Quality", comparison.measures, rows)


def differences(comparison: ComparisonData) -> Table:
    """Every system against the baseline, or its own first stage, by every measure."""
    changes = [change for result in comparison.ran for change in result.differences.values()]
    confidence = changes[0].confidence if changes else 0.95
    note = (
        f"Paired {comparison.settings.get('test', '')} test on the same queries. The corrected p "
        "allows for all systems that are compared by the same measure. The interval does not, so "
        "it may exclude 0 where the difference is not significant."
    )
    if changes and (few := too_few(changes[0])):
        fewest = fewest_queries(confidence)
        note += f" {few}: at least {fewest} are needed to tell a difference from chance."
    heads = (
        Column("measure", "text"),
        *("difference", f"{confidence:.0%} interval", "p", "corrected p"),
        *("significant", "won / tied / lost"),
    )
    rows = [
        _difference_row(result.name, change)
        for result in comparison.ran
        for change in result.differences.values()
    ]
    title = f"Against {comparison.baseline or 'the first stage of each'}"
    return _by_system("differences", title, heads, rows, note)


def _difference_row(name: str, difference: Difference) -> Row:
    significant = Cell("yes" if difference.is_significant else "no", tone_of(difference))
    if not difference.enough_queries:
        significant = Cell("too few queries")
    elif difference.corrected_p is None:
        significant = Cell(NONE)
    change, between, corrected_p = _against(difference)
    return row(
        name,
        difference.measure,
        change,
        between,
        p_value(difference.p),
        corrected_p,
        significant,
        f"{difference.wins} / {difference.ties} / {difference.losses}",
    )


def costs(comparison: ComparisonData) -> Table:
    """Times, usage, and the share of rankings that are not ok."""
    rows, more = [], []
    for result in comparison.ran:
        cost, rate = result.cost, result.failure_rate
        rows.append(
            row(
                result.name,
                timed(cost.percentile(0.5), cost.share_known),
                timed(cost.percentile(0.95), cost.share_known),
                timed(percentile(comparison.end_to_end(result).values(), 0.5), cost.share_known),
                number(cost.calls),
                number(cost.pairs),
                number(cost.input_tokens),
                number(cost.output_tokens),
                number(cost.cost, 4),
                NONE if rate is None else Cell(f"{rate:.1%}", "issue" if rate else ""),
            )
        )
        if cost.cached:
            more.append(
                f"{result.name}: {counted(cost.cached, 'answer')} came from a response cache, so "
                "its times, calls, tokens and cost are too low."
            )
        if cost.skipped:
            more.append(
                f"{result.name}: reranking was skipped, or made shorter, for {cost.skipped:,} of "
                f"{counted(len(cost.seconds), 'query', 'queries')}, which saved "
                f"{counted(cost.saved_pairs, 'pair')}."
            )
        if cost.units is not None and cost.units_per_query is not None:
            more.append(
                f"{result.name}: {cost.units:,.10g} billed units, {cost.units_per_query:,.3g} per "
                "query."
            )
    heads = (
        *("p50 ms", "p95 ms", "p50 ms end to end", "calls", "pairs", "tokens in", "tokens out"),
        *("cost", "not ok"),
    )
    note = (
        "For a first stage, times are search times; for a reranker, reranking times; end to end "
        "is both together. Candidates that are part of the suite have no search time. Only "
        "calls of language models and rerank APIs count. A dash: not known, or none."
    )
    return _by_system("cost", "Cost", heads, rows, note, *_known(comparison), *more)


def issues(comparison: ComparisonData) -> Table:
    """Statuses and issues of rankings, for systems with a ranking that is not ok or has issues."""
    heads = SYSTEM, Column("rankings", "text"), Column("issues", "text")
    rows = tuple(
        row(result.name, _statuses(result), _counts(result.issues) or NONE)
        for result in comparison.results
        if result.failure_rate or result.issues
    )
    notes = []
    if rows:
        notes.append(
            "A ranking that is not ok still counts in the figures. partial: only some candidates "
            "were scored. degraded: the order is not the result of the whole method alone, or its "
            "model is doubtful. unchanged: nothing was scored, so the order is the first "
            "stage's. If all rankings of a system are unchanged, it is not measured."
        )
    elif any(result.statuses for result in comparison.ran):
        notes.append("Every ranking was ok.")
    notes += [
        f"{result.name}: {result.truncated:.1%} of the candidates within the depth are longer than "
        "the model reads (text_truncated); with the setting `passages`, all of a text is judged."
        for result in comparison.ran
        if result.truncated
    ]
    return Table("issues", "Issues", heads, rows, tuple(notes))


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
    rows = []
    for result in comparison.ran:
        if (stability := result.stability) is not None:
            means, spread = stability.means, NONE
            if means:
                spread = f"{interval(min(means), max(means), sign='')} ({stability.measure})"
            figures = f"{stability.tau:.3f}", f"{stability.overlap:.3f}", spread
            rows.append(row(result.name, *figures, number(stability.shuffles)))
    heads = "Kendall's tau", "top 10 kept", "measure when shuffled", "shuffles"
    note = (
        "Each query's candidates were shuffled and reranked. Kendall's tau compares the result "
        "with the unshuffled ranking. 1: input order has no effect."
    )
    return _by_system("order", "Sensitivity to input order", heads, rows, note)


def not_measured(comparison: ComparisonData) -> Table:
    """The rerankers that judged nothing, with their issues."""
    note = (
        "These systems judged nothing in any ranking, so they have the figures of the first stage."
    )
    return _reasons("not-measured", "Not measured", comparison.not_measured, note)


def not_run(comparison: ComparisonData) -> Table:
    """The systems that could not run, with the reasons."""
    return _reasons("not-run", "Not run", comparison.not_run)


def _reasons(key: str, title: str, results: tuple[Result, ...], *notes: str) -> Table:
    rows = [row(result.name, result.reason) for result in results]
    return _by_system(key, title, [Column("reason", "text")], rows, *notes)


def settings_table(values: Mapping[str, Any]) -> Table:
    """Settings by name, in the page only; a mapping has a row for each of its settings."""
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
