"""The plots of all systems, each as SVG. A new plot is a function here and a line in :data:`PLOTS`.

Each takes the comparison and a prefix for ids, and returns None if there is nothing to draw.
matplotlib is imported on first use, see :mod:`~secondpass_evaluation.report.svg`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from secondpass_evaluation.costs import percentile
from secondpass_evaluation.report.overview import cost_of_1000
from secondpass_evaluation.report.svg import (
    ACCENT,
    GAIN,
    INK,
    LARGE,
    LOSS,
    MUTED,
    PAPER,
    figure,
    inline,
)
from secondpass_evaluation.report.text import short_name, shortened, shortened_name
from secondpass_evaluation.report.verdict import tone_of
from secondpass_evaluation.results import ComparisonData, Result
from secondpass_evaluation.significance import Difference

_NUMBER_SIZE = 8.5
_LEGEND_ROW = 0.19
"""Inches."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of the page.

    Attributes:
        section: key of the table that it stands under.
        caption: plain text.
        draw: takes the comparison and a prefix for ids; returns SVG.
    """

    section: str
    caption: str
    draw: Callable[[ComparisonData, str], str | None]


def latency(comparison: ComparisonData, prefix: str) -> str | None:
    """Quality against the median time of a query, search and reranking together."""

    def milliseconds(result: Result) -> float | None:
        median = percentile(comparison.end_to_end(result).values(), 0.5)
        return None if median is None else median * 1000

    axis = "median milliseconds per query, end to end"
    return _tradeoff(comparison, prefix, milliseconds, axis)


def price(comparison: ComparisonData, prefix: str) -> str | None:
    """Quality against the cost of a thousand queries."""
    return _tradeoff(comparison, prefix, cost_of_1000, "cost of 1,000 queries")


def _tradeoff(
    comparison: ComparisonData,
    prefix: str,
    price_of: Callable[[Result], float | None],
    axis: str,
) -> str | None:
    """Numbered marks, and a legend of the numbers."""
    measure = comparison.measures[0]
    points = [
        (x, result.evaluation.mean[measure], result)
        for result in comparison.ran
        if result.evaluation is not None and (x := price_of(result)) is not None
    ]
    if all(result.first_stage is None for *_, result in points):
        return None
    means = {
        result.name: result.evaluation.mean[measure]
        for result in comparison.ran
        if result.evaluation
    }
    level = None if comparison.baseline is None else means.get(comparison.baseline)
    titles = {}
    lowest = min(y for _, y, _ in points)
    width, height = LARGE
    with figure(width, height + _LEGEND_ROW * len(points)) as (drawing, axes):
        for index, (x, y, result) in enumerate(points):
            change = result.differences.get(measure)
            base = means.get(comparison.base_of(result) or "")
            if base is not None and change and change.low is not None and change.high is not None:
                ends = base + change.low, base + change.high
                axes.plot([x, x], ends, color=_colour(change), linewidth=1.2, zorder=2)
                lowest = min(lowest, ends[0])
            reranks = result.first_stage is not None
            name = shortened_name(short_name(result), 60)
            (mark,) = axes.plot(
                [x], [y], "o" if reranks else "s", markersize=7, zorder=3,
                color=ACCENT if reranks else MUTED, markerfacecolor=ACCENT if reranks else PAPER,
                label=f"{index + 1}  {name}",
            )  # fmt: skip
            mark.set_gid(f"hover-{index}")
            title = f"{result.name}: {measure} {y:.4f}, {x:,.4g} {axis}"
            titles[f"hover-{index}"] = f"{index + 1} {title}"
        axes.margins(x=0.1, y=0.14)
        if lowest >= 0:
            # No measure is below 0; a mark at 0 needs some room.
            axes.set_ylim(bottom=max(axes.get_ylim()[0], -0.05 * axes.get_ylim()[1]))
        _scale(axes, [x for x, *_ in points])
        if level is not None:
            axes.axhline(level, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.grid(axis="y")
        axes.set_xlabel(axis)
        axes.set_ylabel(shortened(measure, 30))
        drawing.legend(loc="outside lower left", frameon=False, fontsize=8.5, labelcolor=INK,
                      borderaxespad=0, labelspacing=0.3)  # fmt: skip
        _number(axes, [(x, y) for x, y, _ in points])
        label = f"{measure} against {axis}. " + ". ".join(titles.values())
        return inline(drawing, prefix, label, titles)


def _colour(difference: Difference) -> str:
    """As in the tables: a difference that may be chance is grey."""
    return {"gain": GAIN, "loss": LOSS}.get(tone_of(difference), MUTED)


def _number(axes: Any, points: Sequence[tuple[float, float]]) -> None:
    """Write 1, 2, … beside the points, moved up or down to overlap no other number or mark."""
    axes.figure.get_layout_engine().execute(axes.figure)
    wide, high = 7 * len(str(len(points))), _NUMBER_SIZE + 1
    _, bottom, _, top = axes.get_window_extent().extents
    marks = [tuple(map(float, axes.transData.transform(point))) for point in points]
    numbers: list[tuple[float, float]] = []
    for number, (left, middle) in enumerate(marks, 1):
        step = -high if middle > (bottom + top) / 2 else high
        y = middle
        while any(abs(left - x) < wide and abs(y - other) < high for x, other in numbers) or any(
            0 < x - left < wide + 10 and abs(y - other) < high for x, other in marks
        ):
            y += step
        numbers.append((left, y))
        text = axes.annotate(
            str(number),
            points[number - 1],
            (6, y - middle),
            textcoords="offset points",
            va="center_baseline",
            fontsize=_NUMBER_SIZE,
            color=INK,
            annotation_clip=False,
        )
        text.set_in_layout(False)
        text.set_gid(f"number-{number}")


def _scale(axes: Any, values: Sequence[float]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if min(values) <= 0 or max(values) < 8 * min(values):
        axes.set_xlim(0, max(values) * 1.1 or 1)
        return
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if max(values) > 1e3 * min(values)
                                            else (1.0, 3.0)))  # fmt: skip
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def differences(comparison: ComparisonData, prefix: str) -> str | None:
    """Each system's difference by the first measure, with its interval."""
    measure = comparison.measures[0]
    rows = [result for result in comparison.ran if measure in result.differences]
    if not rows:
        return None
    with figure(LARGE[0], 1.0 + 0.32 * len(rows)) as (drawing, axes):
        texts = []
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
        _names(axes, [short_name(result) for result in rows])
        axes.locator_params(axis="x", nbins=6)
        base = "the baseline" if comparison.baseline else "its own first stage"
        axes.set_xlabel(f"difference in {shortened(measure, 30)} from {base}")
        return inline(drawing, prefix, f"Differences from {base}. " + ". ".join(texts))


def sensitivity(comparison: ComparisonData, prefix: str) -> str | None:
    """The measure for each shuffle of the candidates, and for their original order."""
    rows = [
        (result, result.stability)
        for result in comparison.ran
        if result.stability is not None and result.stability.means
    ]
    if not rows:
        return None
    texts = []
    with figure(LARGE[0], 1.0 + 0.36 * len(rows)) as (drawing, axes):
        for y, (result, stability) in enumerate(rows):
            low, high = min(stability.means), max(stability.means)
            axes.plot([low, high], [y, y], color=ACCENT, linewidth=1.2)
            axes.plot(stability.means, [y] * len(stability.means), "o", color=ACCENT, markersize=6,
                      alpha=0.55)  # fmt: skip
            text = f"{result.name}: {low:.4f} to {high:.4f} when shuffled"
            if result.evaluation is not None and stability.measure in result.evaluation.mean:
                original = result.evaluation.mean[stability.measure]
                axes.plot([original], [y], "|", color=INK, markersize=17, markeredgewidth=2)
                text += f", {original:.4f} in the original order"
            texts.append(text)
        _names(axes, [short_name(result) for result, _ in rows])
        axes.margins(x=0.12)
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel(shortened(comparison.measures[0], 30))
        return inline(drawing, prefix, "Sensitivity to input order. " + ". ".join(texts))


def _names(axes: Any, names: Sequence[str]) -> None:
    """Label the rows, from the top."""
    axes.set_yticks(range(len(names)), [shortened_name(name, 28) for name in names], color=INK)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")


_INTERVALS = (
    "Circles are rerankers, squares first stages, and the dashed line is the baseline. Upright "
    "lines are confidence intervals of the difference from it; without a baseline, from a "
    "reranker's own first stage. Grey ones may be chance."
)
PLOTS = (
    Plot("quality", f"{_INTERVALS} A reranker's time includes its first stage's.", latency),
    Plot("quality", "Differences with their confidence intervals.", differences),
    Plot("quality", f"{_INTERVALS} Only systems with prices are shown.", price),
    Plot("order", "Dots: the mean of each shuffle. Upright mark: the original order.", sensitivity),
)
"""In the order of the page."""
