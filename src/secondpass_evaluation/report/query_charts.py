"""The plots of one reranker as SVG. A new plot is a function here and a line in :data:`QUERY_PLOTS`.

Each takes the comparison, the reranker's result and a prefix for ids, and returns None if there is
nothing to draw. matplotlib is imported on first use, see
:mod:`~secondpass_evaluation.report.svg`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from secondpass_evaluation.report.svg import (
    GAIN,
    INK,
    LOSS,
    MUTED,
    PAPER,
    SMALL,
    figure,
    inline,
    tone,
)
from secondpass_evaluation.report.text import counted, shortened
from secondpass_evaluation.results import ComparisonData, Result
from secondpass_evaluation.significance import TIE

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
