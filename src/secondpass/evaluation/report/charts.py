"""The plots that have all systems, each as SVG for a page; None where there is nothing to see.

matplotlib is imported where it is used: see :mod:`~secondpass.evaluation.report.svg`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from secondpass.evaluation.report.labels import put_labels
from secondpass.evaluation.report.parts import short_name, shortened, shortened_name
from secondpass.evaluation.report.svg import ACCENT, INK, LARGE, MUTED, PAPER, figure, inline, tone

if TYPE_CHECKING:
    from secondpass.evaluation.comparison import Comparison, Result


def latency(comparison: Comparison, prefix: str) -> str | None:
    """Quality against the median time of a query."""

    def milliseconds(result: Result) -> float | None:
        median = result.cost.percentile(0.5)
        return None if median is None else median * 1000

    return _tradeoff(comparison, prefix, milliseconds, "median milliseconds per query")


def price(comparison: Comparison, prefix: str) -> str | None:
    """Quality against what a thousand queries cost."""

    def of_thousand(result: Result) -> float | None:
        count = len(result.cost.seconds)
        return None if result.cost.cost is None or not count else result.cost.cost / count * 1000

    return _tradeoff(comparison, prefix, of_thousand, "cost of 1,000 queries")


def _tradeoff(
    comparison: Comparison,
    prefix: str,
    of: Callable[[Result], float | None],
    axis: str,
) -> str | None:
    measure = comparison.measures[0]
    values = comparison.ran
    points = [
        (x, one.evaluation.mean[measure], one)
        for one in values
        if one.evaluation is not None and (x := of(one)) is not None
    ]
    if not points or all(one.first_stage is None for *_, one in points):
        return None
    base = next((one.evaluation for one in values if one.name == comparison.baseline), None)
    with figure(*LARGE) as (made, axes):
        lines = []
        titles = {}
        for at, (x, y, one) in enumerate(points):
            found = one.differences.get(measure)
            told = f"{one.name}: {measure} {y:.4f}, {x:,.4g} {axis}"
            if base is not None and found and found.low is not None and found.high is not None:
                ends = base.mean[measure] + found.low, base.mean[measure] + found.high
                axes.plot([x, x], ends, color=tone(found.mean), linewidth=1.2, zorder=2)
                lines.append((x, *ends))
            reranks = one.first_stage is not None
            (mark,) = axes.plot(
                [x], [y], "o" if reranks else "s", markersize=7, zorder=3,
                color=ACCENT if reranks else MUTED, markerfacecolor=ACCENT if reranks else PAPER,
            )  # fmt: skip
            mark.set_gid(f"hover-{at}")
            titles[f"hover-{at}"] = told
        axes.margins(x=0.22, y=0.14)
        if min([y for _, y, _ in points] + [low for _, low, _ in lines]) >= 0:
            # No measure is below 0; the mark of one that is 0 needs some room.
            axes.set_ylim(bottom=max(axes.get_ylim()[0], -0.05 * axes.get_ylim()[1]))
        _scale(axes, [x for x, *_ in points])
        if base is not None:
            axes.axhline(base.mean[measure], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.grid(axis="y")
        axes.set_xlabel(axis)
        axes.set_ylabel(shortened(measure, 30))
        names = [(x, y, shortened_name(short_name(one), 28)) for x, y, one in points]
        put_labels(axes, names,
                   lines=lines, level=None if base is None else base.mean[measure])  # fmt: skip
        label = f"{measure} against {axis}. " + ". ".join(titles.values())
        return inline(made, prefix, label, titles)


def _scale(axes: Any, values: Sequence[float]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if min(values) <= 0 or max(values) < 8 * min(values):
        axes.set_xlim(0, max(values) * 1.35 or 1)
        return
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if max(values) > 1e3 * min(values)
                                            else (1.0, 3.0)))  # fmt: skip
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def differences(comparison: Comparison, prefix: str) -> str | None:
    """Each system's difference from the baseline by the first measure, with its interval."""
    measure = comparison.measures[0]
    rows = [one for one in comparison.ran if measure in one.differences]
    if not rows:
        return None
    with figure(LARGE[0], 1.0 + 0.32 * len(rows)) as (made, axes):
        told = []
        for y, one in enumerate(rows):
            found = one.differences[measure]
            colour = tone(found.mean)
            text = f"{one.name}: {found.mean:+.4f}"
            if found.low is not None and found.high is not None:
                axes.plot([found.low, found.high], [y, y], color=colour, linewidth=1.6)
                text += f" ({found.low:+.4f} to {found.high:+.4f})"
            axes.plot([found.mean], [y], "o", color=colour, markersize=6)
            told.append(text)
        axes.axvline(0, color=MUTED, linewidth=0.9)
        _names(axes, [short_name(one) for one in rows])
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel(f"difference in {shortened(measure, 30)} from the baseline")
        return inline(made, prefix, "Differences from the baseline. " + ". ".join(told))


def sensitivity(comparison: Comparison, prefix: str) -> str | None:
    """The measure for each shuffle of the candidates, and for the order that came in."""
    rows = [one for one in comparison.ran if one.stability is not None and one.stability.means]
    if not rows:
        return None
    told = []
    with figure(LARGE[0], 1.0 + 0.36 * len(rows)) as (made, axes):
        for y, one in enumerate(rows):
            means = one.stability.means if one.stability is not None else ()
            axes.plot([min(means), max(means)], [y, y], color=ACCENT, linewidth=1.2)
            axes.plot(means, [y] * len(means), "o", color=ACCENT, markersize=6, alpha=0.55)
            text = f"{one.name}: {min(means):.4f} to {max(means):.4f} when shuffled"
            measure = one.stability.measure if one.stability is not None else ""
            if one.evaluation is not None and measure in one.evaluation.mean:
                usual = one.evaluation.mean[measure]
                axes.plot([usual], [y], "|", color=INK, markersize=17, markeredgewidth=2)
                text += f", {usual:.4f} as they came"
            told.append(text)
        _names(axes, [short_name(one) for one in rows])
        axes.margins(x=0.12)
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel(shortened(comparison.measures[0], 30))
        return inline(made, prefix, "Order sensitivity. " + ". ".join(told))


def _names(axes: Any, names: Sequence[str]) -> None:
    """Names as rows, from the top."""
    axes.set_yticks(range(len(names)), [shortened_name(name, 28) for name in names], color=INK)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
