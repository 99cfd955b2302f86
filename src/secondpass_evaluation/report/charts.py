"""The plots as SVG, of all systems (:data:`PLOTS`) and of one reranker (:func:`per_query`).

A new plot is a function here and a line in :data:`PLOTS`. It takes the comparison and a prefix for
ids, and returns None if there is nothing to draw. matplotlib is imported on first use, see
:mod:`~secondpass_evaluation.report.svg`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from secondpass_evaluation.report.svg import (
    ACCENT,
    GAIN,
    INK,
    LARGE,
    LOSS,
    MUTED,
    PAPER,
    SMALL,
    figure,
    inline,
    tone,
)
from secondpass_evaluation.report.text import short_name, shortened_name, tone_of
from secondpass_evaluation.results import ComparisonData, Result, percentile
from secondpass_evaluation.significance import TIE, Difference
from secondpass_evaluation.texts import shortened

_LEGEND_ROW = 0.19
"""Inches."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of the page: the key of the table that it stands under, its caption, and its SVG."""

    section: str
    caption: str
    draw: Callable[[ComparisonData, str], str | None]


@dataclass(frozen=True, slots=True)
class _Mark:
    """A system in a plot of quality against time, perhaps with an interval of its quality."""

    name: str
    x: float
    y: float
    is_first_stage: bool
    interval: tuple[float, float] | None = None
    colour: str = MUTED


def latency(comparison: ComparisonData, prefix: str) -> str | None:
    """Quality against the median time of a query, search and reranking together."""
    measure = comparison.measures[0]
    means = comparison.means(measure)
    marks = []
    for result in comparison.ran:
        median = percentile(comparison.end_to_end(result).values(), 0.5)
        if median is None or result.name not in means:
            continue
        change, interval, colour = result.differences.get(measure), None, MUTED
        base = means.get(comparison.base_of(result) or "")
        if base is not None and change and change.low is not None and change.high is not None:
            interval, colour = (base + change.low, base + change.high), _colour(change)
        name = shortened_name(short_name(result), 60)
        if share := result.cost.share_known:
            name += f" ({share:.0%} of the passages known)"
        is_first = result.first_stage is None
        marks.append(_Mark(name, median * 1000, means[result.name], is_first, interval, colour))
    if all(mark.is_first_stage for mark in marks):
        return None
    axis = "median milliseconds per query, end to end"
    level = means.get(comparison.baseline or "")
    return _tradeoff(marks, axis, measure, prefix, level)


def _tradeoff(
    marks: Sequence[_Mark], axis: str, measure: str, prefix: str, level: float | None
) -> str:
    """Numbered marks, a legend of the numbers, and a line at the baseline's level."""
    width, height = LARGE
    with figure(width, height + _LEGEND_ROW * len(marks)) as (drawing, axes):
        for number, mark in enumerate(marks, 1):
            if mark.interval:
                axes.plot([mark.x] * 2, mark.interval, color=mark.colour, linewidth=1.2, zorder=2)
            axes.plot(
                [mark.x],
                [mark.y],
                "s" if mark.is_first_stage else "o",
                color=MUTED if mark.is_first_stage else ACCENT,
                markerfacecolor=PAPER if mark.is_first_stage else ACCENT,
                markersize=7,
                label=f"{number}  {mark.name}",
                zorder=3,
            )
            place = {"xytext": (6, -3), "textcoords": "offset points"}
            axes.annotate(str(number), (mark.x, mark.y), fontsize=8.5, color=INK, **place)
        times = [mark.x for mark in marks]
        axes.margins(x=0.1, y=0.14)
        if min(mark.interval[0] if mark.interval else mark.y for mark in marks) >= 0:
            # No measure is below 0; a mark at 0 needs some room.
            axes.set_ylim(bottom=max(axes.get_ylim()[0], -0.05 * axes.get_ylim()[1]))
        _scale(axes, times)
        if level is not None:
            axes.axhline(level, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.grid(axis="y")
        axes.set_xlabel(axis)
        axes.set_ylabel(shortened(measure, 30))
        drawing.legend(
            loc="outside lower left", frameon=False, fontsize=8.5, labelcolor=INK, borderaxespad=0,
            labelspacing=0.3,
        )  # fmt: skip
        texts = [f"{mark.name}: {mark.y:.4f}, {mark.x:,.4g}" for mark in marks]
        return inline(drawing, prefix, f"{measure} against {axis}. " + ". ".join(texts))


def _colour(difference: Difference) -> str:
    """As in the tables: a difference that may be chance is grey."""
    return {"gain": GAIN, "loss": LOSS}.get(tone_of(difference), MUTED)


def _scale(axes: Any, values: Sequence[float]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if min(values) <= 0 or max(values) < 8 * min(values):
        axes.set_xlim(0, max(values) * 1.1 or 1)
        return
    axes.set_xscale("log")
    steps = (1.0,) if max(values) > 1e3 * min(values) else (1.0, 3.0)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def differences(comparison: ComparisonData, prefix: str) -> str | None:
    """Each system's difference by the first measure, with its interval."""
    measure = comparison.measures[0]
    rows = [result for result in comparison.ran if measure in result.differences]
    if not rows:
        return None
    texts = []
    with figure(LARGE[0], 1.0 + 0.32 * len(rows)) as (drawing, axes):
        for y, result in enumerate(rows):
            change = result.differences[measure]
            colour = _colour(change)
            text = f"{result.name}: {change.mean:+.4f}"
            if change.low is not None and change.high is not None:
                axes.plot([change.low, change.high], [y, y], color=colour, linewidth=1.6)
                text += f" ({change.low:+.4f} to {change.high:+.4f})"
            axes.plot([change.mean], [y], "o", color=colour, markersize=6)
            texts.append(text)
        axes.axvline(0, color=MUTED, linewidth=0.9)
        names = [shortened_name(short_name(result), 28) for result in rows]
        axes.set_yticks(range(len(names)), names, color=INK)
        axes.set_ylim(len(names) - 0.4, -0.6)  # the rows from the top
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        axes.locator_params(axis="x", nbins=6)
        base = "the baseline" if comparison.baseline else "its own first stage"
        axes.set_xlabel(f"difference in {shortened(measure, 30)} from {base}")
        return inline(drawing, prefix, f"Differences from {base}. " + ". ".join(texts))


PLOTS = (
    Plot(
        "quality",
        "Circles are rerankers, squares first stages, and the dashed line is the baseline. Upright "
        "lines are confidence intervals of the difference from it; without a baseline, from a "
        "reranker's own first stage. Grey ones may be chance. A reranker's time includes its first "
        "stage's.",
        latency,
    ),
    Plot("quality", "Differences with their confidence intervals.", differences),
)
"""In the order of the page."""

PER_QUERY = "Each bar is a query, the largest gain first."
_MAX_BARS = 1_000
"""With more queries, an area is drawn."""


def per_query(comparison: ComparisonData, result: Result, prefix: str) -> str | None:
    """The gain or loss of each query, largest gain first."""
    changes = sorted(deltas(comparison, result).values(), reverse=True)
    heights = [0.0 if abs(change) <= TIE else change for change in changes]
    if not any(heights):
        return None
    with figure(*SMALL) as (drawing, axes):
        if len(heights) <= _MAX_BARS:
            tones = [tone(height) for height in heights]
            axes.bar(range(len(heights)), heights, 0.86, color=tones, linewidth=0)
        else:
            gains = [max(height, 0.0) for height in heights]
            losses = [min(height, 0.0) for height in heights]
            axes.fill_between(range(len(gains)), gains, step="mid", color=GAIN, linewidth=0)
            axes.fill_between(range(len(losses)), losses, step="mid", color=LOSS, linewidth=0)
        axes.axhline(0, color=MUTED, linewidth=0.9)
        axes.set_xlim(-0.7, max(len(heights), 8) - 0.3)
        largest = max(0.1, *map(abs, heights))
        axes.set_ylim(-largest * 1.08, largest * 1.08)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.grid(axis="y")
        axes.set_ylabel(f"change of {shortened(comparison.measures[0], 20)}")
        better = sum(height > 0 for height in heights)
        worse = sum(height < 0 for height in heights)
        counts = f"{better} better, {worse} worse, {len(heights) - better - worse} equal"
        axes.set_xlabel(f"queries: {counts}")
        return inline(drawing, prefix, f"Changes by query: {counts}")


def deltas(comparison: ComparisonData, result: Result) -> Mapping[str, float]:
    """The change of the first measure by query; empty if the first stage was not measured."""
    before = next((stage for stage in comparison.ran if stage.name == result.first_stage), None)
    if before is None or before.evaluation is None or result.evaluation is None:
        return {}
    measure = comparison.measures[0]
    old = before.evaluation.per_query[measure]
    new = result.evaluation.per_query[measure]
    return {query: new[query] - old[query] for query in new if query in old}
