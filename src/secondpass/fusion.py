"""Joining the result lists of several retrievers into one.

Here, and only here, candidates are told apart by id: the same id in two lists is one document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Literal

from secondpass.blending import minmax, zscore
from secondpass.candidates import kind_of, retrieval_score, to_candidates
from secondpass.errors import InputError
from secondpass.settings import describe
from secondpass.types import Candidate, CandidateLike


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
        rrf_k: how little the first ranks stand out; 0 or more, in ranks.
        weights: one per list, 0 or more; all 1 when absent.

    Returns:
        Each document once, best first, with the fused score. Text and metadata are those of the
        first list that has it, with metadata keys of later lists added. Ties keep first-seen order.

    Raises:
        InputError: a candidate without an id, or arguments out of range.
    """
    if not isinstance(rrf_k, Real) or not 0 <= rrf_k < float("inf"):
        raise InputError(f"rrf_k: must be a number, 0 or more, not {describe(rrf_k)}")
    read = _read(lists)
    return _fuse(
        read, [[1 / (rrf_k + rank) for rank in range(1, len(one) + 1)] for one in read], weights
    )


def weighted_score_fusion(
    lists: Sequence[Sequence[CandidateLike]],
    *,
    weights: Sequence[float] | None = None,
    normalize: Literal["none", "minmax", "zscore"] = "minmax",
) -> list[Candidate]:
    """Fuse by scores: each list adds ``weight * score``, after its scores are normalised.

    Fox and Shaw, "Combination of multiple searches", TREC-2, 1994 (CombSUM). A document that a list
    does not hold gets nothing from it.

    Args:
        lists: result lists; every candidate has an id and a finite score.
        weights: one per list, 0 or more; all 1 when absent.
        normalize: ``minmax`` maps each list to 0 to 1; ``zscore`` to mean 0 and deviation 1;
            ``none`` takes scores as they are.

    Returns:
        As :func:`reciprocal_rank_fusion`.

    Raises:
        InputError: a candidate without an id or score, or arguments out of range.
    """
    if normalize not in {"none", "minmax", "zscore"}:
        raise InputError(f"normalize: must be none, minmax or zscore, not {normalize!r}")
    read = _read(lists)
    scores = []
    for number, one in enumerate(read):
        own: list[float] = []
        for position, candidate in enumerate(one):
            score = retrieval_score(candidate)
            if score is None:
                raise InputError(f"lists[{number}][{position}].score: a finite number is needed")
            own.append(score)
        if normalize != "none":
            own = minmax(own) if normalize == "minmax" else zscore(own)
        scores.append(own)
    return _fuse(read, scores, weights)


def _read(lists: Sequence[Sequence[CandidateLike]]) -> list[list[Candidate]]:
    if isinstance(lists, str | Mapping) or not isinstance(lists, Iterable):
        raise InputError(f"lists: give a sequence of result lists, not {kind_of(lists)}")
    read = []
    for number, one in enumerate(lists):
        try:
            candidates = to_candidates(one, text_needed=False)
        except InputError as error:
            raise InputError(f"lists[{number}]: {error}") from None
        for position, candidate in enumerate(candidates):
            if candidate.id is None:
                raise InputError(f"lists[{number}][{position}].id: fusion needs an id")
        read.append(candidates)
    return read


def _fuse(
    lists: list[list[Candidate]], scores: list[list[float]], weights: Sequence[float] | None
) -> list[Candidate]:
    if weights is None:
        weights = [1.0] * len(lists)
    if len(weights) != len(lists):
        raise InputError(f"weights: {len(lists)} lists need as many weights, not {len(weights)}")
    for number, weight in enumerate(weights):
        if not isinstance(weight, Real) or not 0 <= weight < float("inf"):
            told = f"must be finite and 0 or more, not {describe(weight)}"
            raise InputError(f"weights[{number}]: {told}")
    total: dict[str, float] = {}
    merged: dict[str, Candidate] = {}
    for candidates, own, weight in zip(lists, scores, weights, strict=True):
        # A list that repeats an id speaks for it once, by its best score.
        best: dict[str, float] = {}
        for candidate, score in zip(candidates, own, strict=True):
            name = str(candidate.id)
            best[name] = max(score, best.get(name, score))
            first = merged.setdefault(name, candidate)
            if first is not candidate:
                metadata = {**(candidate.metadata or {}), **(first.metadata or {})}
                merged[name] = Candidate(first.text, first.id, first.score, metadata)
        for name, score in best.items():
            total[name] = total.get(name, 0.0) + weight * score
    by_score = sorted(total, key=total.__getitem__, reverse=True)
    return [
        Candidate(merged[name].text, merged[name].id, total[name], merged[name].metadata)
        for name in by_score
    ]
