"""The report as one HTML page without external resources, and as a fragment for notebooks.

The templates escape all text. Only plots, which :mod:`~secondpass_evaluation.report.svg` escapes,
are inserted as they are.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from secondpass.markup import clean
from secondpass.settings import counted
from secondpass.settings.keys import with_hidden_keys
from secondpass_evaluation.report import charts, svg
from secondpass_evaluation.report.tables import settings_table, tables
from secondpass_evaluation.report.text import (
    Cell,
    Column,
    Table,
    Tone,
    calls_per_query,
    interval,
    milliseconds,
    row,
    short_name,
    tone_of,
)
from secondpass_evaluation.report.verdict import Verdict, verdict
from secondpass_evaluation.results import ComparisonData, Result, percentile
from secondpass_evaluation.significance import TIE


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot with its caption."""

    svg: str
    caption: str


def page(comparison: ComparisonData) -> str:
    """One page; the same bytes for the same comparison.

    It has plots if matplotlib (extra ``report``) is installed.
    """
    outcome = verdict(comparison)
    queries = counted(len(comparison.queries), "query", "queries")
    systems = counted(len(comparison.ran), "system", "systems")
    tone: Tone = ""
    if outcome.difference is not None and outcome.best and not outcome.best.only_fallbacks:
        tone = tone_of(outcome.difference)
    figures: dict[str, list[Figure]] = {}
    for number, plot in enumerate(charts.PLOTS if svg.available() else (), 1):
        if drawn := plot.draw(comparison, f"plot-{number}-"):
            figures.setdefault(plot.section, []).append(Figure(drawn, plot.caption))
    return render_page(
        "page.html.j2",
        title=f"{comparison.suite}: {queries}",
        subtitle=f"Comparison of rerankers, {systems} measured, {len(comparison.not_measured)} not "
        f"measured, {len(comparison.not_run)} not run",
        origin=_origin(comparison),
        answer=outcome.answer,
        because=outcome.because,
        verdict_class={"gain": "pays", "loss": "not"}.get(tone, ""),
        notes=comparison.notes,
        tables=tables(comparison),
        figures=figures,
        settings=settings_table(comparison.settings),
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
        tiles=_tiles(outcome),
        queries=queries,
        queries_table=all_queries(comparison),
        sections=[
            _system(comparison, result, number)
            for number, result in enumerate(comparison.ran, 1)
            if result.first_stage is not None
        ],
        measure=comparison.measures[0],
    )


def fragment(comparison: ComparisonData) -> str:
    """The verdict and the tables, for notebooks; styled by attributes only."""
    outcome = verdict(comparison)
    template = _environment().get_template("fragment.html.j2")
    return str(
        template.render(
            answer=outcome.answer,
            because=outcome.because,
            notes=comparison.notes,
            tables=tables(comparison),
        )
    )


def render_page(template: str, **context: Any) -> str:
    """A page by a template that extends ``base.html.j2``, with these values."""
    from markupsafe import Markup  # jinja2 needs it

    environment = _environment()
    script, *_ = environment.loader.get_source(environment, "sort.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rendered = environment.get_template(template).render(
        **context,
        has_plots=svg.available(),
        script=Markup(script),
        script_hash=f"sha256-{digest}",  # by which the content security policy allows it
    )
    return str(rendered)


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


def _system(comparison: ComparisonData, result: Result, number: int) -> dict[str, Any]:
    """The section of one reranker."""
    key = f"system-{number}"
    drawn = charts.per_query(comparison, result, f"{key}-") if svg.available() else None
    return {
        "key": key,
        "result": result,
        "figures": [Figure(drawn, charts.PER_QUERY)] if drawn else [],
        "no_first_stage": not charts.deltas(comparison, result),
    }


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
    between = ""
    if difference.low is not None:
        between = f"{difference.confidence:.0%}: {interval(difference.low, difference.high)}"
    counts = f"{difference.wins:,} : {difference.losses:,}"
    tiles = [
        (difference.measure, f"{best.evaluation.mean[difference.measure]:.4f}", best.name),
        ("gain" if difference.mean >= 0 else "loss", f"{difference.mean:+.4f}", between),
        ("queries better : worse", counts, f"{difference.ties:,} equal"),
    ]
    seconds = best.cost.typical_seconds.values()
    median, slow = (percentile(seconds, share) for share in (0.5, 0.95))
    if median is not None and slow is not None:
        within = f"95% within {milliseconds(slow)}"
        if best.cost.known:
            share = f"{best.cost.share_known:.0%} of the passages"
            is_all = len(seconds) == len(best.cost.seconds)
            within += f"; {share} encoded before" if is_all else ", passages encoded before"
        tiles.append(("reranking a query", milliseconds(median), within))
    if (calls := calls_per_query(best)) is not None:
        tiles.append(("calls per query", calls, f"{best.cost.calls:,} in all"))
    return tiles


def all_queries(comparison: ComparisonData) -> Table:
    """Every query with its values, coloured where a reranker differs from its first stage."""
    measure = comparison.measures[0]
    values = {
        result.name: result.evaluation.per_query.get(measure, {})
        for result in comparison.ran
        if result.evaluation
    }
    first_stages = {result.name: result.first_stage or "" for result in comparison.ran}
    rows = []
    for query, text in comparison.queries.items() if values else ():
        cells = [Cell(text or query), Cell(query)]
        for name, own in values.items():
            value, before = own.get(query), values.get(first_stages[name], {}).get(query)
            number = "" if value is None else f"{value:.3f}"
            tone: Tone = ""
            if value is not None and before is not None and abs(value - before) > TIE:
                tone = "gain" if value > before else "loss"
            cells.append(Cell(number, tone))
        rows.append(row(*cells))
    note = (
        f"{measure} of every query. Coloured: better or worse than the first stage of the reranker."
    )
    columns = Column("query", "text"), Column("id", "text"), *map(Column, values)
    return Table("queries", "All queries", columns, tuple(rows), (note,) if rows else ())
