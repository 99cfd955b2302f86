"""Statistics of one ranking, without queries, texts and ids.

The candidates of one query depend on each other, so statistical tests need one number per ranking.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import mul
from typing import cast

from secondpass.ranking.trace import Trace

STATISTICS = {
    "rerank.highest": "highest rerank score",
    "rerank.median": "median rerank score",
    "rerank.lowest": "lowest rerank score",
    "rerank.deviation": "standard deviation of the rerank scores",
    "rerank.lead": "highest rerank score minus the second highest",
    "rerank.ties": "share of candidates with the same rerank score as another one",
    "final.highest": "highest final score",
    "final.median": "median final score",
    "moves.correlation": "rank correlation between the order before and after reranking",
    "moves.replaced": "share of the first ten that were not among the first ten before reranking",
    "moves.first": "rank before reranking of the candidate that is now first",
    "candidates.count": "number of candidates",
    "candidates.scored": "number of candidates with a rerank score",
    "candidates.highest": "highest retrieval score",
    "candidates.median": "median retrieval score",
    "candidates.lowest": "lowest retrieval score",
    "candidates.lead": "highest retrieval score minus the second highest",
}
"""The statistics of a ranking. A cascade has rerank scores that are ranks; its stages add
``stage1.highest``, ``stage1.median`` and so on."""

_FIRST = 10
"""Ranks that count as the top of a list."""


def ranking_statistics(trace: Trace) -> dict[str, float]:
    """The statistics of a ranking; absent where there is nothing to compute them from.

    All candidates count, also those that ``top_k`` or a threshold leaves out. Scores are those of
    the candidates that the method scored; ``candidates.*`` those of all with a retrieval score, as
    it is. A median is the upper of the two middle values. Moves are those of the order by final
    scores, before an ordering and without a threshold.
    """
    scored = [position for position, status in enumerate(trace.status) if status == "scored"]
    values: dict[str, float] = {"candidates.count": len(trace.status)}
    retrieved = _retrieval_scores(trace)
    if retrieved:
        _summarize(values, "candidates", sorted(retrieved), with_ends=True)
    if not scored:
        return values
    values["candidates.scored"] = count = len(scored)
    # Scored candidates have both.
    rerank = cast("Sequence[float]", trace.rerank_score)
    final = cast("Sequence[float]", trace.final_score)
    order = sorted(scored, key=final.__getitem__, reverse=True)
    # By final score first, which often is the order of the rerank scores: sorting is faster then.
    reranked = sorted([rerank[position] for position in order])
    _summarize(values, "rerank", reranked, with_ends=True)
    if count > 1:
        mean = sum(reranked) / count
        values["rerank.deviation"] = math.dist(reranked, [mean] * count) / math.sqrt(count)
        values["rerank.ties"] = _tied(reranked) / count if len(set(reranked)) < count else 0.0
        _add_moves(values, scored, order, len(trace.status))
    if trace.blend is not None or trace.terms is not None:
        _summarize(values, "final", sorted([final[position] for position in order]))
    _add_stages(values, trace, scored)
    return values


def _retrieval_scores(trace: Trace) -> list[float]:
    scores = trace.scores
    if set(map(type, scores)) != {float}:
        numbers = map(trace.original, range(len(scores)))
        scores = [number for number in numbers if number is not None]
    return list(filter(math.isfinite, scores))


def _summarize(
    values: dict[str, float], name: str, ascending: Sequence[float], *, with_ends: bool = False
) -> None:
    values[f"{name}.highest"] = ascending[-1]
    values[f"{name}.median"] = ascending[len(ascending) // 2]
    if with_ends:
        values[f"{name}.lowest"] = ascending[0]
        if len(ascending) > 1:
            values[f"{name}.lead"] = ascending[-1] - ascending[-2]


def _tied(ascending: Sequence[float]) -> int:
    same = [a == b for a, b in pairwise(ascending)]
    return sum(a or b for a, b in zip([False, *same], [*same, False], strict=True))


def _add_moves(
    values: dict[str, float], scored: Sequence[int], order: Sequence[int], candidates: int
) -> None:
    """Add how far the order of the scored positions, at least two, is from that of the input."""
    count = len(scored)
    ranks = order
    if count < candidates:
        before = dict(zip(scored, range(count), strict=True))
        ranks = [before[position] for position in order]
    # Spearman's: without ties among ranks, 1 - 6 * sum of squared differences / (n³ - n). That
    # sum is twice that of the squares less twice that of the products.
    products = sum(map(mul, ranks, range(count)))
    squares = (count - 1) * count * (2 * count - 1) // 3 - 2 * products
    values["moves.correlation"] = 1 - 6 * squares / (count**3 - count)
    first = min(_FIRST, count)
    values["moves.replaced"] = sum([old >= first for old in ranks[:first]]) / first
    values["moves.first"] = ranks[0] + 1


def _add_stages(values: dict[str, float], trace: Trace, scored: Sequence[int]) -> None:
    if not trace.stage_scores:
        return
    stages = [trace.stage_scores.get(position, ()) for position in scored]
    for number in range(max(map(len, stages))):
        scores = sorted(stage[number] for stage in stages if len(stage) > number)
        _summarize(values, f"stage{number + 1}", scores)
