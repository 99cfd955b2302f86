"""Computes rankings with another depth or blend from one set of rankings.

A blend is applied after scoring, so every blend can be computed from one ranking. A smaller depth
can be, too, if the score of a candidate does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from secondpass import Candidate, Ranked, Ranking
from secondpass.formats.shared import Run
from secondpass.ranking.shared import (
    Blend,
    completed,
    first_stage_scores,
    retrieval_score,
    with_weight,
)


def can_replay(ranking: Ranking, method: str) -> bool:
    """Whether the scores of a ranking come from the method, not from a fallback."""
    return ranking.report.method in {method, None}


def replayed(
    ranking: Ranking,
    blend: Blend | None,
    *,
    depth: int | None = None,
    scale: tuple[float, float] | None = None,
) -> list[int]:
    """The input positions in the order of a blend, computed from a ranking without one.

    Args:
        ranking: made without blend, threshold, ordering and ``top_k``.
        blend: None: rank by the method's scores.
        depth: at most the depth of the ranking. None: the same.
        scale: lowest and highest grade, if the scores are grades.
    """
    items = sorted(ranking, key=lambda item: item.position)
    head, tail = items[:depth], items[depth:] if depth is not None else []
    scored = [item for item in head if item.rerank_score is not None]
    if not scored:
        return [item.position for item in items]
    reranked = [_score(item, ranking) for item in scored]
    originals = [retrieval_score(item.candidate) for item in scored]
    # Some methods weight the original order themselves; such rankings are never journaled.
    own = ranking.trace.blend if ranking.trace is not None else None
    weighted = with_weight(blend, None if own is None else own.original, originals)
    if weighted is not None and weighted.by_scale:
        retrieved, _ = first_stage_scores([item.candidate for item in items])
        found = {item.position: score for item, score in zip(items, retrieved, strict=True)}
        originals = [found[item.position] for item in scored]
    final = reranked if weighted is None else weighted.mix(originals, reranked, scale).final
    order = sorted(range(len(scored)), key=final.__getitem__, reverse=True)
    ranked = completed(
        [scored[index].position for index in order],
        [item.position for item in head],
        {item.position: item.status for item in head},
        ranking.report.issues,
    )
    return ranked + [item.position for item in tail]


def replayed_run(
    rankings: Mapping[str, Ranking],
    candidates: Mapping[str, Sequence[Candidate]],
    method: str,
    blend: Blend | None,
    *,
    depth: int | None = None,
    scale: tuple[float, float] | None = None,
    top_k: int | None = None,
) -> Run:
    """A run of rankings with another blend or depth; see :func:`replayed`.

    Rankings of a fallback are used unchanged, as their scores are not the method's.

    Args:
        rankings: query id -> ranking.
        candidates: query id -> candidates of the ranking.
        method: name of the method.
        blend: as for :func:`replayed`.
        depth: as for :func:`replayed`.
        scale: as for :func:`replayed`.
        top_k: number of items to keep; None: all.
    """
    run: Run = {}
    for query, ranking in rankings.items():
        order: Sequence[int] = ranking.order
        if can_replay(ranking, method):
            order = replayed(ranking, blend, depth=depth, scale=scale)
        scores = run[query] = {}
        for index, position in enumerate(order[:top_k]):
            scores.setdefault(str(candidates[query][position].id), float(len(order) - index))
    return run


def _score(item: Ranked, ranking: Ranking) -> float:
    """What the method ordered an item by: without a blend, its final score."""
    trace = ranking.trace
    score = item.final_score
    if trace is not None:
        score = (trace.order_scores or trace.rerank_score)[item.position]
    assert score is not None
    return score
