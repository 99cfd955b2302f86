"""The report as one HTML page without external resources, and as a fragment for notebooks.

The templates escape all text. Only plots, which :mod:`~secondpass_evaluation.report.svg` escapes,
are inserted as they are.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from secondpass.markup import clean
from secondpass.settings.shared import with_hidden_keys
from secondpass_evaluation.measures import Evaluation
from secondpass_evaluation.report import charts, svg
from secondpass_evaluation.report.tables import settings, tables
from secondpass_evaluation.report.text import (
    Cell,
    Column,
    Table,
    Tone,
    counted,
    milliseconds,
    row,
    short_name,
)
from secondpass_evaluation.report.verdict import (
    Verdict,
    calls_per_query,
    tone_of,
    verdict,
)
from secondpass_evaluation.results import TEXT_LENGTH, ComparisonData, Result
from secondpass_evaluation.significance import TIE


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot with its caption."""

    svg: str
    caption: str


@dataclass(frozen=True, slots=True)
class _System:
    """The section of one reranker."""

    key: str
    title: str
    result: Result
    figures: Sequence[Figure]
    no_first_stage: bool


def page(comparison: ComparisonData) -> str:
    """One page; the same bytes for the same comparison.

    It has plots if matplotlib (extra ``report``) is installed.
    """
    outcome = verdict(comparison)
    has_plots = svg.available()
    report_tables = tables(comparison)
    script = sort_script()
    figures = {
        table.key: list(_figures(table, comparison)) if has_plots else [] for table in report_tables
    }
    return render(
        "page.html.j2",
        comparison=comparison,
        queries=counted(len(comparison.queries), "query", "queries"),
        systems=counted(len(comparison.ran), "system", "systems"),
        verdict=outcome,
        verdict_class=_verdict_class(outcome),
        tiles=_tiles(outcome),
        origin=_origin(comparison),
        queries_table=all_queries(comparison),
        script=script,
        script_hash=csp_hash(script),
        has_plots=has_plots,
        tables=report_tables,
        figures=figures,
        sections=[
            _system(comparison, result, number, has_plots)
            for number, result in enumerate(comparison.ran, 1)
            if result.first_stage is not None
        ],
        settings=settings(comparison),
        configs={
            result.name: json.dumps(
                with_hidden_keys(result.config),
                ensure_ascii=False,
                indent=2,
                default=str,
                skipkeys=True,
            )
            for result in comparison.results
            if result.config is not None
        },
        text_length=TEXT_LENGTH,
    )


def fragment(comparison: ComparisonData) -> str:
    """The verdict and the tables; styled by attributes only, so that nothing else is affected."""
    return render(
        "fragment.html.j2",
        comparison=comparison,
        verdict=verdict(comparison),
        tables=tables(comparison),
    )


def sort_script() -> Any:
    """The script that sorts tables, not to be escaped."""
    from markupsafe import Markup  # jinja2 needs it

    environment = _environment()
    source, *_ = environment.loader.get_source(environment, "sort.js")
    return Markup(source)


def csp_hash(script: str) -> str:
    """A script's hash, by which a content security policy allows it."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def render(template: str, **context: Any) -> str:
    """A template with these values."""
    return str(_environment().get_template(template).render(context))


@cache
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("secondpass_evaluation.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: value if hasattr(value, "__html__") else clean(value),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["short_name"] = short_name
    return environment


def _figures(table: Table, comparison: ComparisonData) -> Iterator[Figure]:
    for number, plot in enumerate(charts.PLOTS, 1):
        if plot.section == table.key and (drawn := plot.draw(comparison, f"plot-{number}-")):
            yield Figure(drawn, plot.caption)


def _system(comparison: ComparisonData, result: Result, number: int, has_plots: bool) -> _System:
    figures = []
    for index, (draw, caption) in enumerate(charts.QUERY_PLOTS if has_plots else ()):
        if drawn := draw(comparison, result, f"system-{number}-{index}-"):
            figures.append(Figure(drawn, caption))
    no_first_stage = not charts.deltas(comparison, result)
    title = f"What {result.name} changes"
    return _System(f"system-{number}", title, result, figures, no_first_stage)


def _verdict_class(outcome: Verdict) -> str:
    tone = "" if outcome.difference is None else tone_of(outcome.difference)
    return {"gain": "pays", "loss": "not"}.get(tone, "")


def _origin(comparison: ComparisonData) -> str:
    """When, with what and where the comparison was made, in one line."""
    settings = comparison.settings
    machine, versions = settings.get("machine", {}), settings.get("versions", {})
    parts = [
        settings.get("date", ""),
        f"secondpass {versions['secondpass']}" if "secondpass" in versions else "",
        f"Python {versions['python']}" if "python" in versions else "",
        machine.get("processor", ""),
        counted(machine["cores"], "core", "cores") if "cores" in machine else "",
        settings.get("command", ""),
    ]
    return " \N{MIDDLE DOT} ".join(filter(None, parts))


def _tiles(outcome: Verdict) -> list[tuple[str, str, str]]:
    """The figures of the verdict: term, value, remark."""
    best, difference = outcome.best, outcome.difference
    if best is None or difference is None or best.evaluation is None:
        return []
    interval = ""
    if difference.low is not None and difference.high is not None:
        interval = f"{difference.confidence:.0%}: {difference.low:+.4f} to {difference.high:+.4f}"
    tiles = [
        (difference.measure, f"{best.evaluation.mean[difference.measure]:.4f}", best.name),
        ("gain" if difference.mean >= 0 else "loss", f"{difference.mean:+.4f}", interval),
        (
            "queries better : worse",
            f"{difference.wins:,} : {difference.losses:,}",
            f"{difference.ties:,} equal",
        ),
    ]
    median, slow = (best.cost.percentile(share) for share in (0.5, 0.95))
    if median is not None and slow is not None:
        tiles.append(
            ("reranking a query", milliseconds(median), f"95% within {milliseconds(slow)}")
        )
    if (calls := calls_per_query(best)) is not None:
        tiles.append(("calls per query", calls, f"{best.cost.calls:,} in all"))
    return tiles


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
