"""Fusion of the result lists of several retrievers.

Unlike in a ranking, candidates are identified by id: the same id in two lists is one document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real

from secondpass import Candidate, CandidateLike, InputError
from secondpass.ranking.shared import kind_of, to_candidates
from secondpass.settings import describe


def reciprocal_rank_fusion(
    lists: Sequence[Sequence[CandidateLike]], *, rrf_k: float = 60
) -> list[Candidate]:
    """Fuse by ranks: each list adds ``1 / (rrf_k + rank)``.

    Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank
    learning methods", SIGIR 2009.

    Args:
        lists: result lists, best first; every candidate has an id.
        rrf_k: constant of at least 0, in ranks; the larger, the less the first ranks stand out.

    Returns:
        Each document once, best first, with the fused score. Text and metadata are those of the
        first list that contains it; metadata keys of later lists are added. Equal scores keep the
        order of first appearance.

    Raises:
        InputError: a candidate has no id, or an argument is out of range.
    """
    if not isinstance(rrf_k, Real) or not 0 <= rrf_k < float("inf"):
        raise InputError(f"rrf_k: must be a number, 0 or more, not {describe(rrf_k)}")
    if isinstance(lists, str | Mapping) or not isinstance(lists, Iterable):
        raise InputError(f"lists: give a sequence of result lists, not {kind_of(lists)}")
    total: dict[str, float] = {}
    merged: dict[str, Candidate] = {}
    for number, results in enumerate(lists):
        try:
            candidates = to_candidates(results, text_needed=False)
        except InputError as error:
            raise InputError(f"lists[{number}]: {error}") from None
        seen: set[str] = set()  # an id that is repeated in a list counts once, at its first rank
        for position, candidate in enumerate(candidates):
            if candidate.id is None:
                raise InputError(f"lists[{number}][{position}].id: fusion needs an id")
            key = str(candidate.id)
            first = merged.setdefault(key, candidate)
            if first is not candidate:
                metadata = {**(candidate.metadata or {}), **(first.metadata or {})}
                merged[key] = replace(first, metadata=metadata)
            if key not in seen:
                seen.add(key)
                total[key] = total.get(key, 0.0) + 1 / (rrf_k + position + 1)
    by_score = sorted(total, key=total.__getitem__, reverse=True)
    return [replace(merged[key], score=total[key]) for key in by_score]
