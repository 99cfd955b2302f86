"""Rankings with another depth or blend, computed from one set of rankings.

The blend is applied after the method has scored, so every blend follows from one ranking. A
smaller depth does too if the score of a candidate does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from secondpass.blending import Blend, with_weight
from secondpass.candidates import retrieval_score
from secondpass.formats.runs import Run
from secondpass.scoring import ScorerMethod, member
from secondpass.types import Candidate, Ranked, Ranking

_BEHIND = ("backfilled", "unjudged", "tail")
"""The statuses of items without a score, in the order in which they are ranked."""


def scores_alone(method: object) -> bool:
    """Whether the score of a candidate does not depend on the other candidates of its list.

    Those of ``lexical`` do, and of ``embedded`` with its defaults, and of every method that a
    language model answers about several candidates at once.
    """
    isolated = getattr(method, "isolated", getattr(method, "windows", "one") == "each")
    if isinstance(method, ScorerMethod):
        isolated = bool(member(method.scorer, "pointwise", True))
    return isolated and getattr(method, "score_kind", "rank") != "rank"


def can_replay(ranking: Ranking, method: str) -> bool:
    """Whether the scores of a ranking are those of the method; else a fallback gave the order."""
    return ranking.report.method in {method, None}


def replayed(
    ranking: Ranking,
    blend: Blend | None,
    *,
    depth: int | None = None,
    scale: tuple[float, float] | None = None,
) -> list[int]:
    """The input positions as they are ranked with a blend, from a ranking without one.

    Args:
        ranking: made without blend, floor, ordering and ``top_k``.
        blend: None ranks by the method's scores.
        depth: at most that of the ranking. None: the same.
        scale: lowest and highest grade, if the scores are grades.
    """
    items = sorted(ranking, key=lambda item: item.position)
    head, tail = items[:depth], items[depth:] if depth is not None else []
    scored = [item for item in head if item.rerank_score is not None]
    if not scored:
        return [item.position for item in items]
    reranked = [_score(item) for item in scored]
    originals = [retrieval_score(item.candidate) for item in scored]
    # The method itself gave the original order a weight; such rankings are never journaled.
    own = ranking.trace.blend if ranking.trace is not None else None
    weighted = with_weight(blend, None if own is None else own.original, originals)
    final = reranked if weighted is None else weighted.mix(originals, reranked, scale).final
    order = sorted(range(len(scored)), key=final.__getitem__, reverse=True)
    rest = [item for status in _BEHIND for item in head if item.status == status]
    return [item.position for item in (*(scored[index] for index in order), *rest, *tail)]


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

    Rankings that a fallback made are used as they are: its scores mean something else.

    Args:
        rankings: query id -> ranking.
        candidates: query id -> what was ranked.
        method: the name of the method.
        blend: as above.
        depth: likewise.
        scale: likewise.
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


def replayed_rankings(
    rankings: Mapping[str, Ranking],
    method: str,
    blend: Blend | None,
    *,
    depth: int | None = None,
    scale: tuple[float, float] | None = None,
) -> dict[str, Ranking]:
    """The rankings in the order of another blend or depth; final scores are not computed anew."""
    result = dict(rankings)
    for query, ranking in rankings.items():
        if can_replay(ranking, method):
            items = {item.position: item for item in ranking}
            order = replayed(ranking, blend, depth=depth, scale=scale)
            ranks = [replace(items[position], rank=i) for i, position in enumerate(order, 1)]
            result[query] = replace(ranking, items=tuple(ranks))
    return result


def _score(item: Ranked) -> float:
    assert item.rerank_score is not None
    return item.rerank_score
