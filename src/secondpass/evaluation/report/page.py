"""A comparison as one page of HTML that needs nothing else, and as tables for notebooks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from secondpass.evaluation.report import changes as page_changes
from secondpass.evaluation.report import charts, page_tables, svg
from secondpass.evaluation.report import query_charts as charts_of_one
from secondpass.evaluation.report import summary as page_summary
from secondpass.evaluation.report.parts import (
    Cell,
    escape,
    figure,
    name,
    section,
    short_name,
    table,
    told,
)
from secondpass.evaluation.report.style import STYLE
from secondpass.evaluation.report.tables import NOT_MEASURED, counted
from secondpass.evaluation.report.verdict import verdict

if TYPE_CHECKING:
    from secondpass.evaluation.comparison import Comparison, Result

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Nothing is loaded, no script is run: not even one that slipped in."""


def html(comparison: Comparison) -> str:
    """One page, the same bytes for the same comparison.

    It has plots where matplotlib (extra ``report``) is installed.
    """
    plots = _Plots(svg.available())
    found = verdict(comparison)
    sections = [*_sections(comparison, plots)]
    of_systems = {f"system-{at}": short_name(one) for at, one in enumerate(comparison.ran, 1)}
    links = "".join(
        f'<li><a href="#{ident}">{name(of_systems.get(ident, heading))}</a></li>'
        for ident, heading, _ in sections
    )
    title = f"{comparison.suite}: {counted(len(comparison.queries), 'query', 'queries')}"
    counts = (
        f"{counted(len(comparison.ran), 'system', 'systems')} measured, "
        f"{len(comparison.not_measured)} not measured, {len(comparison.skipped)} skipped"
    )
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
    ]
    body = [
        "<header>",
        f"<h1>{name(title)}</h1>",
        f'<p class="of">Comparison of rerankers, {escape(counts)}</p>',
        "</header>",
        "<main>",
        *page_summary.summary(found),
        *(f'<p class="told"><b>Note:</b> {name(note)}</p>' for note in comparison.notes),
        plots.missing(),
        f'<nav aria-label="Contents"><ul>{links}</ul></nav>',
        *(section(ident, heading, *parts) for ident, heading, parts in sections),
        "</main>",
    ]
    inside = "\n".join(filter(None, ["<head>", *head, "</head>", "<body>", *body, "</body>"]))
    return f'<!DOCTYPE html>\n<html lang="en">\n{inside}\n</html>\n'


def fragment(comparison: Comparison) -> str:
    """The verdict and the tables, with no style that reaches beyond them."""
    found = verdict(comparison)
    parts = [
        f"<p><strong>{escape(found.answer)}</strong> {escape(found.because)}</p>",
        *(f"<p>Note: {name(note)}</p>" for note in comparison.notes),
    ]
    for heading, made in (
        ("Quality", page_tables.quality),
        ("Not measured", page_tables.not_measured),
        (f"Against {comparison.baseline}", page_tables.differences),
        ("Cost", page_tables.costs),
        ("Faults", page_tables.faults),
        ("Sensitivity to the order that came in", page_tables.stability),
        ("Skipped", page_tables.skipped),
    ):
        if shown := made(comparison, inline=True):
            parts += [f"<h4>{name(heading)}</h4>", shown]
    inside = "\n".join(parts)
    return f'<div class="secondpass-comparison">\n{inside}\n</div>\n'


class _Plots:
    """Draws what can be drawn, and numbers it, for ids that occur once."""

    def __init__(self, available: bool) -> None:
        self.available = available
        self.count = 0

    def missing(self) -> str:
        if self.available:
            return ""
        return (
            '<p class="told">Plots need matplotlib: '
            "<code>pip install &quot;secondpass[report]&quot;</code> brings it.</p>"
        )

    def group(self, *drawn: tuple[Callable[[str], str | None], str], large: bool = False) -> str:
        """Those of the plots that there are, side by side where there is room."""
        made = []
        for draw, caption in drawn if self.available else ():
            self.count += 1
            if plot := draw(f"plot-{self.count}-"):
                made.append(figure(plot, caption))
        kind = "charts large" if large else "charts"
        return f'<div class="{kind}">\n' + "\n".join(made) + "\n</div>" if made else ""


def _sections(comparison: Comparison, plots: _Plots) -> Iterator[tuple[str, str, list[str]]]:
    """Id, heading and content of each section that has any."""
    made = [
        ("quality", "Quality", _quality(comparison, plots)),
        ("not-measured", "Not measured", _not_measured(comparison)),
        ("differences", f"Against {comparison.baseline}", _differences(comparison)),
        ("cost", "Cost", _cost(comparison)),
        ("faults", "Faults", _faults(comparison)),
        ("order", "Sensitivity to the order that came in", _order(comparison, plots)),
        *(
            (f"system-{at}", f"What {one.name} changes", _system(comparison, one, plots))
            for at, one in enumerate(comparison.ran, 1)
            if one.first_stage is not None
        ),
        ("skipped", "Skipped", page_tables.skipped(comparison)),
        ("settings", "Settings and versions", _settings(comparison)),
    ]
    for ident, heading, content in made:
        parts = [content] if isinstance(content, str) else content
        if parts := [part for part in parts if part]:
            yield ident, heading, parts


def _quality(comparison: Comparison, plots: _Plots) -> list[str]:
    interval = (
        "Circles are rerankers, squares first stages, and the dashed line is the baseline. Upright "
        "lines are confidence intervals of the difference from it. "
    )
    return [
        page_tables.quality(comparison),
        plots.group(
            (
                lambda at: charts.latency(comparison, at),
                f"{interval}A reranker's time is without that of its first stage.",
            ),
            (
                lambda at: charts.differences(comparison, at),
                "Differences from the baseline with their confidence intervals.",
            ),
            (
                lambda at: charts.price(comparison, at),
                f"{interval}Only systems with prices are shown.",
            ),
            large=True,
        ),
    ]


def _not_measured(comparison: Comparison) -> list[str]:
    shown = page_tables.not_measured(comparison)
    return [told(NOT_MEASURED), shown] if shown else []


def _differences(comparison: Comparison) -> list[str]:
    shown = page_tables.differences(comparison)
    if not shown:
        return []
    test = comparison.settings.get("test", "")
    text = (
        f"Paired {test} test on the same queries; p is corrected by Holm's procedure for all "
        "systems that are compared by a measure. What is beyond chance is in colour."
    )
    return [told(text), shown]


def _cost(comparison: Comparison) -> list[str]:
    shown = page_tables.costs(comparison)
    text = (
        "Times are of the reranking alone where a system reranks, of the search where it does not. "
        "A dash stands for what is not known."
    )
    return [told(text), shown] if shown else []


def _faults(comparison: Comparison) -> list[str]:
    if shown := page_tables.faults(comparison):
        text = (
            "A ranking that is not ok still counts above: a partial one is judged in part, a "
            "degraded one by a fallback, and an unchanged one has the first stage's order. "
            "A system all of whose rankings are unchanged is not measured."
        )
        return [told(text), shown]
    ranked = any(one.statuses for one in comparison.ran)
    return [told("Every ranking was ok.")] if ranked else []


def _order(comparison: Comparison, plots: _Plots) -> list[str]:
    shown = page_tables.stability(comparison)
    if not shown:
        return []
    text = "Each query's candidates were shuffled and ranked again; 1 means that it matters not."
    caption = "Dots: the mean of each shuffle. Upright mark: the order that came in."
    plot = plots.group((lambda at: charts.sensitivity(comparison, at), caption), large=True)
    return [told(text), shown, plot]


def _system(comparison: Comparison, result: Result, plots: _Plots) -> list[str]:
    relevant = counted(len(result.moves), "relevant document", "relevant documents")
    parts = [
        plots.group(
            (
                lambda at: charts_of_one.per_query(comparison, result, at),
                "Each bar is a query; hold the pointer over it to read it.",
            ),
            (
                lambda at: charts_of_one.within(result, at),
                f"Where the {relevant} of the lists stand: before (ring) and after (dot).",
            ),
            (
                lambda at: charts_of_one.moves(result, at),
                "Relevant documents by rank before and after: above the diagonal they rose. "
                "Out: not in the list.",
            ),
        )
    ]
    if not charts_of_one.deltas(comparison, result):
        text = f"Its first stage, {result.first_stage}, is not among the measured systems."
        parts.append(told(text))
    for word, changes in (("better", result.gains), ("worse", result.losses)):
        if changes:
            parts.append(f"<h3>Queries that it makes {word}</h3>")
            parts += [page_changes.change(comparison.measures[0], one) for one in changes]
    if not result.gains and not result.losses:
        parts.append(told("It makes no query better and none worse."))
    return parts


def _settings(comparison: Comparison) -> list[str]:
    rows: list[list[str | Cell]] = []
    for key, value in comparison.settings.items():
        if isinstance(value, Mapping):
            rows += [[f"{key}: {inner}", _plain(of)] for inner, of in value.items()]
        else:
            rows.append([str(key), _plain(value)])
    parts = [table("Settings and versions", ["setting", "value"], rows, words=(1,))] if rows else []
    for result in comparison.results:
        if result.config is not None:
            text = json.dumps(
                result.config, ensure_ascii=False, indent=2, default=str, skipkeys=True
            )
            parts.append(
                f"<details><summary>Configuration of {name(result.name)}</summary>\n"
                f'<pre dir="auto">{escape(text)}</pre></details>'
            )
    return parts


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
