"""Fusion of the result lists of several retrievers.

Unlike in a ranking, candidates are identified by id: the same id in two lists is one document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Literal

from secondpass import Candidate, CandidateLike, InputError
from secondpass.ranking.shared import first_stage_scores, kind_of, minmax, to_candidates, zscore
from secondpass.settings import describe


def reciprocal_rank_fusion(
    lists: Sequence[Sequence[CandidateLike]],
    *,
    rrf_k: float = 60,
    weights: Sequence[float] | None = None,
) -> list[Candidate]:
    """Fuse by ranks: each list adds ``weight / (rrf_k + rank)``.

    Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank
    learning methods", SIGIR 2009.

    Args:
        lists: result lists, best first; every candidate has an id.
        rrf_k: constant of at least 0, in ranks; the larger, the less the first ranks stand out.
        weights: one per list, at least 0; default 1.

    Returns:
        Each document once, best first, with the fused score. Text and metadata are those of the
        first list that contains it; metadata keys of later lists are added. Equal scores keep the
        order of first appearance.

    Raises:
        InputError: a candidate has no id, or an argument is out of range.
    """
    if not isinstance(rrf_k, Real) or not 0 <= rrf_k < float("inf"):
        raise InputError(f"rrf_k: must be a number, 0 or more, not {describe(rrf_k)}")
    checked = _checked(lists)
    scores = [
        [1 / (rrf_k + rank) for rank in range(1, len(candidates) + 1)] for candidates in checked
    ]
    return _fuse(checked, scores, weights)


def weighted_score_fusion(
    lists: Sequence[Sequence[CandidateLike]],
    *,
    weights: Sequence[float] | None = None,
    normalize: Literal["none", "minmax", "zscore"] = "minmax",
) -> list[Candidate]:
    """Fuse by scores: each list adds ``weight * score``, with its scores normalised.

    Fox and Shaw, "Combination of multiple searches", TREC-2, 1994 (CombSUM). A list adds 0 to
    documents that it does not contain.

    Args:
        lists: result lists; every candidate has an id and a finite score.
        weights: one per list, 0 or more; all 1 when absent.
        normalize: ``minmax`` maps each list to 0 to 1, ``zscore`` to mean 0 and standard deviation
            1; ``none`` uses scores as they are. Of distances, which never fall along a list of
            three or more and rise, ranks are used (``1 - rank / n``); ``none`` refuses them.

    Returns:
        As :func:`reciprocal_rank_fusion`.

    Raises:
        InputError: a candidate has no id or score, an argument is out of range, or ``none`` is
            given for distances.
    """
    if normalize not in {"none", "minmax", "zscore"}:
        raise InputError(f"normalize: must be none, minmax or zscore, not {normalize!r}")
    checked = _checked(lists)
    scores = []
    for number, candidates in enumerate(checked):
        list_scores: list[float] = []
        found, distances = first_stage_scores(candidates)
        for position, score in enumerate(found):
            if score is None:
                raise InputError(f"lists[{number}][{position}].score: a finite number is needed")
            list_scores.append(score)
        if distances and normalize == "none":
            message = "scores rise along the list, so they are distances; normalize them"
            raise InputError(f"lists[{number}]: {message}")
        if normalize != "none":
            list_scores = (minmax if normalize == "minmax" else zscore)(list_scores)
        scores.append(list_scores)
    return _fuse(checked, scores, weights)


def _checked(lists: Sequence[Sequence[CandidateLike]]) -> list[list[Candidate]]:
    if isinstance(lists, str | Mapping) or not isinstance(lists, Iterable):
        raise InputError(f"lists: give a sequence of result lists, not {kind_of(lists)}")
    checked = []
    for number, results in enumerate(lists):
        try:
            candidates = to_candidates(results, text_needed=False)
        except InputError as error:
            raise InputError(f"lists[{number}]: {error}") from None
        for position, candidate in enumerate(candidates):
            if candidate.id is None:
                raise InputError(f"lists[{number}][{position}].id: fusion needs an id")
        checked.append(candidates)
    return checked


def _fuse(
    lists: list[list[Candidate]], scores: list[list[float]], weights: Sequence[float] | None
) -> list[Candidate]:
    if weights is None:
        weights = [1.0] * len(lists)
    if len(weights) != len(lists):
        raise InputError(f"weights: {len(lists)} lists need as many weights, not {len(weights)}")
    for number, weight in enumerate(weights):
        if not isinstance(weight, Real) or not 0 <= weight < float("inf"):
            message = f"must be finite and 0 or more, not {describe(weight)}"
            raise InputError(f"weights[{number}]: {message}")
    total: dict[str, float] = {}
    merged: dict[str, Candidate] = {}
    for candidates, list_scores, weight in zip(lists, scores, weights, strict=True):
        # An id that is repeated in a list counts once, with its best score.
        best: dict[str, float] = {}
        for candidate, score in zip(candidates, list_scores, strict=True):
            key = str(candidate.id)
            best[key] = max(score, best.get(key, score))
            first = merged.setdefault(key, candidate)
            if first is not candidate:
                metadata = {**(candidate.metadata or {}), **(first.metadata or {})}
                merged[key] = replace(first, metadata=metadata)
        for key, score in best.items():
            total[key] = total.get(key, 0.0) + weight * score
    by_score = sorted(total, key=total.__getitem__, reverse=True)
    return [replace(merged[key], score=total[key]) for key in by_score]
