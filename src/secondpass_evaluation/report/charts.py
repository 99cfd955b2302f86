"""The plots as SVG, of all systems (:data:`PLOTS`) and of one reranker (:data:`QUERY_PLOTS`).

A new plot is a function here and a line there. Each takes the comparison, a plot of a reranker its
result, and a prefix for ids, and returns None if there is nothing to draw.
matplotlib is imported on first use, see :mod:`~secondpass_evaluation.report.svg`.
"""

from __future__ import annotations

from collections import Counter
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
from secondpass_evaluation.report.tables import cost_of_1000
from secondpass_evaluation.report.text import counted, short_name, shortened, shortened_name
from secondpass_evaluation.report.verdict import tone_of
from secondpass_evaluation.results import ComparisonData, Result, percentile
from secondpass_evaluation.significance import TIE, Difference

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


_MAX_BARS = 1_000
"""With more queries, an area is drawn."""
_CUTOFFS = (1, 3, 5, 10, 20, 50, 100)
_RANGES = ((1, 1), (2, 3), (4, 5), (6, 10), (11, 20), (21, 50), (51, 100), (101, 10**9))


def per_query(comparison: ComparisonData, result: Result, prefix: str) -> str | None:
    """The gain or loss of each query, as bars, largest gain first."""
    changes = deltas(comparison, result)
    ordered = sorted(changes.items(), key=lambda item: -item[1])
    heights = [0.0 if abs(delta) <= TIE else delta for _, delta in ordered]
    if not any(heights):
        return None
    titles = {}
    with figure(*SMALL) as (drawing, axes):
        if len(heights) <= _MAX_BARS:
            indices = [index for index, height in enumerate(heights) if height]
            tones = [tone(heights[index]) for index in indices]
            bars = axes.bar(indices, [heights[index] for index in indices], 0.86, color=tones,
                            linewidth=0)  # fmt: skip
            for index, bar in zip(indices, bars, strict=True):
                bar.set_gid(f"hover-{index}")
                query, delta = ordered[index]
                text = shortened(comparison.queries.get(query, ""), 200)
                titles[f"hover-{index}"] = f"{text} ({query}): {delta:+.3f}"
        else:
            for colour, sign in ((GAIN, 1), (LOSS, -1)):
                part = [height if height * sign > 0 else 0.0 for height in heights]
                axes.fill_between(range(len(part)), part, step="mid", color=colour, linewidth=0)
        axes.axhline(0, color=MUTED, linewidth=0.9)
        axes.set_xlim(-0.7, max(len(heights), 8) - 0.3)
        largest = max(0.1, *(abs(height) for height in heights))
        axes.set_ylim(-largest * 1.08, largest * 1.08)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.grid(axis="y")
        axes.set_ylabel(f"change of {shortened(comparison.measures[0], 20)}")
        axes.set_xlabel("queries, the largest gain first")
        better, worse = (sum(height * sign > 0 for height in heights) for sign in (1, -1))
        equal = len(heights) - better - worse
        axes.text(0.99, 0.97, f"{better} better", color=GAIN, ha="right", va="top",
                  transform=axes.transAxes)  # fmt: skip
        axes.text(0.01, 0.03, f"{worse} worse, {equal} equal", color=LOSS if worse else MUTED,
                  ha="left", va="bottom", transform=axes.transAxes)  # fmt: skip
        label = f"Changes by query: {better} better, {worse} worse, {equal} equal"
        return inline(drawing, prefix, label, titles)


def deltas(comparison: ComparisonData, result: Result) -> Mapping[str, float]:
    """The change of the first measure by query; empty if the first stage was not measured."""
    before = next((stage for stage in comparison.ran if stage.name == result.first_stage), None)
    if before is None or before.evaluation is None or result.evaluation is None:
        return {}
    measure = comparison.measures[0]
    old = before.evaluation.per_query[measure]
    new = result.evaluation.per_query[measure]
    return {query: new[query] - old[query] for query in new if query in old}


def within(_comparison: ComparisonData, result: Result, prefix: str) -> str | None:
    """The share of relevant documents in the top 1, 3, 5, …, before and after."""
    moves = result.moves
    deepest = _deepest(result)
    if not deepest:
        return None
    cutoffs = [k for k in _CUTOFFS if k < deepest]
    cutoffs.append(next((k for k in _CUTOFFS if k >= deepest), deepest))
    texts = []
    with figure(*SMALL) as (drawing, axes):
        for y, k in enumerate(cutoffs):
            old, new = (
                100 * sum(rank is not None and rank <= k for rank in ranks) / len(moves)
                for ranks in zip(*moves, strict=True)
            )
            colour = tone(new - old)
            axes.plot([old, new], [y, y], color=colour, linewidth=2, zorder=2)
            axes.plot([old], [y], "o", color=MUTED, markerfacecolor=PAPER, markersize=7, zorder=3)
            axes.plot([new], [y], "o", color=colour, markersize=7, zorder=4)
            axes.annotate(f"{new:.0f}%", (max(old, new), y), (9, 0), color=colour, fontsize=8.5,
                          textcoords="offset points", va="center_baseline")  # fmt: skip
            texts.append(f"top {k}: {old:.1f}% before, {new:.1f}% after")
        axes.set_yticks(range(len(cutoffs)), [f"top {k}" for k in cutoffs])
        axes.set_ylim(len(cutoffs) - 0.5, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(-4, 116)
        axes.set_xticks(range(0, 101, 20))
        axes.grid(axis="x")
        axes.set_xlabel(f"% of {counted(len(moves), 'relevant document', 'relevant documents')}")
        return inline(drawing, prefix, "Relevant documents in the " + "; ".join(texts))


def moves(_comparison: ComparisonData, result: Result, prefix: str) -> str | None:
    """Numbers of relevant documents by range of rank, before and after."""
    deepest = _deepest(result)
    if deepest < 2:
        return None
    ranges = [each for each in _RANGES if each[0] <= deepest]
    names = ["1", *(f"{a}\N{EN DASH}{b}" if b < 10**9 else "> 100" for a, b in ranges[1:])]
    if any(None in move for move in result.moves):
        names.append("out")
    counts = Counter((_range_of(old, ranges), _range_of(new, ranges)) for old, new in result.moves)
    largest = max(counts.values())
    with figure(*SMALL) as (drawing, axes):
        cells = sorted(counts.items())
        tones = [(tone(x - y), 0.14 + 0.41 * (count / largest) ** 0.5) for (x, y), count in cells]
        axes.bar(
            [x for (x, _), _ in cells], 0.96, 0.96, [y - 0.48 for (_, y), _ in cells],
            color=tones, linewidth=0,
        )  # fmt: skip
        for (x, y), count in cells:
            text = axes.text(x, y, f"{count:,}", ha="center", va="center_baseline", color=INK,
                             fontsize=8.5)  # fmt: skip
            if x == y:
                text.set_gid(f"number-{x}")  # page.css separates it from the diagonal
        axes.plot([-0.5, len(names) - 0.5], [-0.5, len(names) - 0.5], color=MUTED, linewidth=0.7,
                  zorder=0)  # fmt: skip
        axes.set_xlim(-0.5, len(names) - 0.5)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xticks(range(len(names)), names, fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.tick_params(length=0)
        axes.set_xlabel("rank before")
        axes.set_ylabel("rank after")
        up, down = (sum(n for (x, y), n in counts.items() if (x - y) * s > 0) for s in (1, -1))
        label = f"Ranks of relevant documents before and after, in steps: {up} up, {down} down"
        return inline(drawing, prefix, label)


def _deepest(result: Result) -> int:
    return max((rank for move in result.moves for rank in move if rank is not None), default=0)


def _range_of(rank: int | None, ranges: Sequence[tuple[int, int]]) -> int:
    if rank is None:
        return len(ranges)
    return next(index for index, (_, last) in enumerate(ranges) if rank <= last)


QUERY_PLOTS = (
    (per_query, "Each bar is a query; hold the pointer over it to read it."),
    (within, "Share of the relevant documents in the top ranks, before (ring) and after (dot)."),
    (
        moves,
        "Relevant documents by rank before and after: above the diagonal they rose. Out: not in "
        "the list.",
    ),
)
"""Plots with their captions, in the order of the page."""
