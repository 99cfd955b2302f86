"""Fusion of the result lists of several retrievers into one list of candidates.

Unlike in a ranking, candidates are identified: the same id in two lists is one document.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from secondpass.errors import InputError
from secondpass.ranking.blending import minmax
from secondpass.ranking.candidates import (
    comparable_id,
    first_stage_scores,
    kind_of,
    retrieval_score,
    to_candidates,
    unreadable_scores,
)
from secondpass.ranking.options import finite_number
from secondpass.settings import counted, describe, suggestion
from secondpass.settings.arguments import explained
from secondpass.types import Candidate, CandidateLike

_Hit: TypeAlias = tuple[str, int, Candidate]
"""The name of a list, a rank from 1, and the candidate there."""


@explained()
def fuse(
    lists: Mapping[str, Iterable[CandidateLike] | None],
    *,
    weights: Mapping[str, float] | None = None,
    by: Literal["ranks", "scores"] = "ranks",
    rrf_k: float = 60,
) -> list[Candidate]:
    """Fuse the lists of several retrievers into one, best first.

    ``ranks``: each list adds ``weight / (rrf_k + rank)``; the sum is divided by its highest
    possible value (Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and
    individual rank learning methods", SIGIR 2009). ``scores``: the weighted mean of the scores,
    each list mapped to 0 to 1 by its own lowest and highest score; of a list whose scores are all
    equal, 0.5. If scores rise along a list, be they only two, they are distances, and ranks take
    their place. A
    missing score counts as 0, and so does a candidate that a list does not have.

    Args:
        lists: results by the name of their retriever, each best first. None: the retriever gave no
            answer, and the weight of its list does not count. An empty list does.
        weights: of the lists, 0 or more; 1 for those that are not named.
        by: what is fused.
        rrf_k: constant of ``ranks``, 0 or more; the larger, the less the first ranks stand out.

    Returns:
        Each document once, with a score of 0 to 1. Candidates with the same id are one document,
        without an id those with the same text. Of one list, the first of them counts. Text and
        metadata are those of the first list; later ones add what is missing. The metadata also has
        ``retrieval_ranks`` and ``retrieval_scores``: by name of the list, the rank from 1 and the
        score as it came in. Equal scores keep the order of first appearance.

    Raises:
        InputError: an argument is wrong, an id cannot be read, or to fuse by ``scores``, a score is
            not a finite number or no candidate of a list has one.

    Example:
        >>> from secondpass import fuse
        >>> words = [{"id": 1, "text": "Cats sleep."}, {"id": 2, "text": "Owls hunt."}]
        >>> vectors = [{"id": 2, "text": "Owls hunt."}]
        >>> [candidate.id for candidate in fuse({"words": words, "vectors": vectors})]
        [2, 1]
    """
    if not isinstance(lists, Mapping):
        hint = ", such as {'words': …, 'vectors': …}"
        raise InputError(f"lists: give a mapping of lists by name, not {kind_of(lists)}{hint}")
    if weights is not None and not isinstance(weights, Mapping):
        message = f"give a mapping of numbers by name of the list, not {kind_of(weights)}"
        raise InputError(f"weights: {message}")
    if by not in ("ranks", "scores"):
        raise InputError(f"by: must be ranks or scores, not {describe(by)}")
    rrf_k = _not_negative("rrf_k", rrf_k)
    if wrong := [name for name in lists if not isinstance(name, str)]:
        raise InputError(f"lists: names must be strings, not {describe(wrong[0])}")
    weight_of: dict[str, float] = {}
    for name, weight in (weights or {}).items():
        if name not in lists:
            hint = suggestion(str(name), [*lists])
            raise InputError(f"weights: no list is named {describe(name)}{hint}")
        weight_of[name] = _not_negative(f"weights[{name!r}]", weight)
    # Each weight as a share of the largest, so that no sum overflows.
    largest = max((weight_of.get(name, 1.0) for name in lists), default=1.0) or 1.0
    weights_used: list[float] = []
    shares_of: dict[object, list[float]] = {}
    hits: dict[object, list[_Hit]] = {}
    for name, results in lists.items():
        if results is None:
            continue
        weight = weight_of.get(name, 1.0) / largest
        weights_used.append(weight)
        found = _distinct(name, results)
        if by == "ranks":
            shares = [(rrf_k + 1) / (rrf_k + rank) for rank in range(1, len(found) + 1)]
        else:
            shares = _scaled(name, [*found.values()])
        for rank, (key, share) in enumerate(zip(found, shares, strict=True), 1):
            shares_of.setdefault(key, []).append(weight * share)
            hits.setdefault(key, []).append((name, rank, found[key]))
    whole = math.fsum(weights_used) or 1.0
    # Sums of equal numbers are equal, in whatever order the lists have them.
    scores = {key: math.fsum(parts) / whole for key, parts in shares_of.items()}
    best_first = sorted(scores, key=scores.__getitem__, reverse=True)
    return [_merged(hits[key], scores[key]) for key in best_first]


def _not_negative(name: str, value: object) -> float:
    number = finite_number(name, value)
    if number < 0:
        raise InputError(f"{name}: must be 0 or more, not {describe(value)}")
    return number


def _distinct(name: str, results: Iterable[CandidateLike]) -> dict[object, Candidate]:
    """The candidates of a list by what identifies them, in order; the first of each."""
    found: dict[object, Candidate] = {}
    where = f"lists[{name!r}]"
    candidates = to_candidates(results, text_needed=False, name=where)
    for position, candidate in enumerate(candidates):
        key: object
        if candidate.id is not None:
            try:
                key = comparable_id(candidate.id)
            except InputError as error:
                raise InputError(f"{where}[{position}].{error}") from None
        elif isinstance(candidate.text, str):
            key = ("text", candidate.text)
        else:  # nothing identifies it, so it equals no other
            key = object()
        found.setdefault(key, candidate)
    return found


def _scaled(name: str, candidates: Sequence[Candidate]) -> list[float]:
    """The retrieval scores of a list, from 0 to 1."""
    unreadable, example = unreadable_scores(candidates)
    if unreadable:
        amount = f"{len(unreadable):,} of {counted(len(candidates), 'score')}"
        message = f"{amount} cannot be read, because they must be finite numbers, not {example}"
        raise InputError(f"lists[{name!r}]: {message}; convert them, or fuse by='ranks'")
    scores, _ = first_stage_scores(candidates, fewest=2)  # a list is best first, by its contract
    known = [score for score in scores if score is not None]
    if candidates and not known:
        raise InputError(f"lists[{name!r}]: no candidate has a score; fuse by='ranks'")
    scaled = iter(minmax(known))
    return [0.0 if score is None else next(scaled) for score in scores]


def _merged(hits: Sequence[_Hit], score: float) -> Candidate:
    """One candidate of a document, from the candidates of all lists that have it."""
    first = hits[0][2]
    metadata: dict[str, Any] = {}
    for _, _, candidate in hits:
        metadata = {**(candidate.metadata or {}), **metadata}
    metadata["retrieval_ranks"] = {name: rank for name, rank, _ in hits}
    metadata["retrieval_scores"] = {
        name: known
        for name, _, candidate in hits
        if (known := retrieval_score(candidate)) is not None
    }
    texts = (candidate.text for _, _, candidate in hits if isinstance(candidate.text, str))
    return Candidate(next(texts, first.text), first.id, score, metadata)
