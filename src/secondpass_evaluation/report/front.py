"""The plot of tuning: quality against time, and the Pareto front."""

from __future__ import annotations

from secondpass_evaluation.report.svg import ACCENT, LARGE, MUTED, PAPER, figure, inline
from secondpass_evaluation.report.text import shortened, shortened_name
from secondpass_evaluation.tuning.records import TuningData

_LEGEND_ROW = 0.19
"""Inches."""


def front_plot(tuning: TuningData) -> str | None:
    """The front as SVG; None if it is the first stage alone."""
    points = tuning.front
    if len(points) < 2:
        return None
    width, height = LARGE
    titles = {}
    with figure(width, height + _LEGEND_ROW * len(points)) as (drawing, axes):
        seconds = [point.seconds * 1000 for point in points]
        upper = [max(point.mean for point in points[: index + 1]) for index in range(len(points))]
        axes.step(seconds, upper, where="post", color=MUTED, linewidth=0.9, zorder=1)
        for index, (x, point) in enumerate(zip(seconds, points, strict=True)):
            is_first = point.config is None
            name = f"{shortened_name(point.name, 30)}, {point.setting}"
            (mark,) = axes.plot(
                [x], [point.mean], "s" if is_first else "o", markersize=7, zorder=3,
                color=MUTED if is_first else ACCENT,
                markerfacecolor=PAPER if is_first else ACCENT, label=f"{index + 1}  {name}",
            )  # fmt: skip
            mark.set_gid(f"hover-{index}")
            cost = "" if not point.cost else f", {point.cost * 1000:,.2f} per 1,000 queries"
            text = f"{index + 1} {point.name}, {point.setting}: {point.mean:.4f}, {x:,.4g} ms{cost}"
            titles[f"hover-{index}"] = text
            axes.annotate(str(index + 1), (x, point.mean), (6, -3), textcoords="offset points",
                          fontsize=8.5)  # fmt: skip
        axes.margins(x=0.1, y=0.14)
        axes.grid(axis="y")
        axes.set_xlabel("milliseconds of the second pass, 95th percentile")
        axes.set_ylabel(shortened(tuning.measure, 30))
        drawing.legend(loc="outside lower left", frameon=False, fontsize=8.5, borderaxespad=0,
                       labelspacing=0.3)  # fmt: skip
        return inline(drawing, "front-", ". ".join(titles.values()), titles)
