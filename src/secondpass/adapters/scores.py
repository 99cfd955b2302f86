"""Scores and metadata that a ranking adds to a framework's documents."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from types import NoneType
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from secondpass.ranking.blending import sigmoid
from secondpass.ranking.candidates import retrieval_score
from secondpass.ranking.result import Ranking
from secondpass.types import Issue, ItemStatus, Ranked

T = TypeVar("T")

KEYS = ("rerank_score", "rerank_final_score", "retrieval_score", "rerank_rank", "rerank_status")
SPAN_KEY = "rerank_span"
PROBABILITY_KEY = "rerank_probability"
TERMS_KEY = "rerank_terms"
_STEP = 1e-7
"""Difference of served scores that keeps two documents in order, also in single precision; for
scores of 1 and beyond, twice as much of the score."""
_STATUSES = frozenset(get_args(ItemStatus))


def results(
    documents: Sequence[T],
    ranking: Ranking,
    metadata: Callable[[T], Mapping[str, Any] | None],
    prefix: str = "",
) -> Iterator[tuple[T, float, dict[str, Any]]]:
    """The documents in the order of their ranking, with scores and metadata to add.

    Args:
        documents: those that were ranked.
        ranking: their ranking.
        metadata: returns a document's metadata.
        prefix: of the added metadata keys.

    Yields:
        A document, its score (see `falling_scores`) and its new metadata (see `provenance`).
    """
    for item, score in zip(ranking.items, falling_scores(ranking), strict=True):
        document = documents[item.position]
        yield document, score, provenance(item, metadata(document) or {}, prefix)


def falling_scores(ranking: Ranking) -> list[float]:
    """One score per item that never rises along the list.

    The final scores, if every item has one and they do not rise; otherwise ``(n - i) / n`` for the
    i-th of n. Components that follow often sort by score and must not change the order.
    """
    finals = [item.final_score for item in ranking if item.final_score is not None]
    if len(finals) == len(ranking) and all(a >= b for a, b in pairwise(finals)):
        return finals
    return _ranks(len(ranking))


ScoreRule: TypeAlias = Literal["rerank", "sigmoid", "rank"]
"""What a server's scores are. ``rerank``: the method's own for query and document; a grade, where 0
to 1 is promised, by its place on the scale. ``sigmoid``: the same, of logits, as
1 / (1 + exp(-score)). ``rank``: they tell the order and nothing else."""


def served_scores(ranking: Ranking, *, unit: bool = False) -> tuple[list[float], ScoreRule]:
    """The scores of a server's response, which clients compare with thresholds, and what they are.

    They are rerank scores, and not final ones, which may depend on the other candidates. Where the
    order is another than by these, each is the highest of its item and those below it, so that they
    never rise along the list; it is higher by ``_STEP`` where equal scores would lose the order,
    and at the end of the range the lower one is lower by as much. An item without a score counts as
    one of 0, or the lowest below 0.

    With ``unit``, they are within 0 to 1. They are ``(n - i) / n`` for the i-th of n if nothing was
    scored, or ``unit`` is demanded of a kind of score without a range.
    """
    kind = ranking.report.score_kind
    known = [item.rerank_score for item in ranking if item.rerank_score is not None]
    scale = None if ranking.trace is None else ranking.trace.scale
    if kind is None or (unit and (kind == "unbounded" or (kind == "grade" and scale is None))):
        return _ranks(len(ranking)), "rank"
    own = [item.rerank_score for item in ranking]
    rule: ScoreRule = "rank" if kind == "rank" else "rerank"
    lowest = min([0.0, *known])
    if unit:
        lowest = 0.0
        if kind == "logit":
            own, rule = [score if score is None else sigmoid(score) for score in own], "sigmoid"
        elif kind == "grade" and scale is not None:
            low, high = scale
            own = [score if score is None else (score - low) / (high - low) for score in own]
        elif kind == "similarity":
            own = [score if score is None else _positive(score) for score in own]
    values = [lowest if score is None else score for score in own]
    return _in_order(values, ranking.items, 1.0 if unit else sys.float_info.max), rule


def _in_order(values: list[float], items: Sequence[Ranked], highest: float) -> list[float]:
    """Values that sort the items into their order, the best first, and stay where they do already.

    Clients that sort the request's documents by score keep the order of equal ones.
    """
    ordered = list(values)
    for index in reversed(range(len(ordered) - 1)):
        below = ordered[index + 1]
        if ordered[index] <= below:
            ordered[index] = below + _gap(items[index], items[index + 1], below)
    limit = highest
    for index, value in enumerate(ordered):
        if value <= limit:
            break
        ordered[index] = limit
        if index + 1 < len(ordered):
            limit -= _gap(items[index], items[index + 1], limit)
    return ordered


def _gap(item: Ranked, below: Ranked, value: float) -> float:
    """By how much two scores near a value must differ for the order of two items."""
    if item.position < below.position:
        return 0.0
    return _STEP if abs(value) < 1 else 2 * _STEP * abs(value)


def _ranks(count: int) -> list[float]:
    return [(count - index) / count for index in range(count)]


def _positive(similarity: float) -> float:
    """A similarity as it is, but those from -1 to 0.001 within 0 to 0.001, in their order."""
    least = 0.001
    return similarity if similarity >= least else least * (1 + similarity) / (1 + least)


def provenance(item: Ranked, metadata: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The metadata keys to add to a document, with their values.

    Keys that another program wrote are kept, so they are absent from the result. Keys of an earlier
    pass are overwritten, except ``retrieval_score``, which remains that of the first retriever. A
    valid rerank status marks an earlier pass; if ``rerank_status`` has another value, nothing is
    added.

    Args:
        item: the document's item in the ranking.
        metadata: the document's metadata.
        prefix: of each key.

    Returns:
        Some of ``rerank_score``, ``rerank_final_score`` and ``retrieval_score`` (each a float or
        None), ``rerank_rank`` (1-based), ``rerank_status``, ``rerank_span`` (``[start, stop]`` in
        characters of the text), ``rerank_probability`` (a float), and ``rerank_terms`` (by field,
        floats). The last three are absent if there is none, and None if
        only an earlier pass had one.
    """
    score, final, retrieved, rank, status, span, probability, terms = _names(prefix)
    added: dict[str, Any] = {
        score: item.rerank_score,
        final: item.final_score,
        retrieved: retrieval_score(item.candidate),
        rank: item.rank,
        status: item.status,
    }
    if item.span is not None or span in metadata:
        added[span] = item.span and list(item.span)
    if item.probability is not None or probability in metadata:
        added[probability] = item.probability
    if item.terms is not None or terms in metadata:
        added[terms] = item.terms and {**item.terms}
    if added.keys().isdisjoint(metadata):
        return added
    if status not in metadata:
        return {name: value for name, value in added.items() if name not in metadata}
    before = metadata[status]
    if not (isinstance(before, str) and before in _STATUSES):
        return {}
    was_scored = before == "scored"
    # Values of other types cannot be of an earlier pass, so they belong to another program. Items
    # that are not scored have the retriever's score as final score if none is scored.
    types: dict[str, tuple[type, ...]] = {
        status: (str,),
        rank: (int,),
        score: (float,) if was_scored else (NoneType,),
        final: (float,) if was_scored else (float, NoneType),
        span: (list, NoneType),
        probability: (float, NoneType),
        terms: (dict, NoneType),
    }
    return {
        name: value
        for name, value in added.items()
        if name not in metadata or type(metadata[name]) in types.get(name, ())
    }


def naming_kept_keys(ranking: Ranking, prefix: str, parameter: str) -> Ranking:
    """The ranking, with an issue if `provenance` keeps keys of other programs in place of ours.

    Args:
        ranking: of candidates with the metadata of the documents.
        prefix: of the keys.
        parameter: the adapter's parameter for the prefix.
    """
    names, items = _names(prefix), []
    kept: set[str] = set()
    for item in ranking:
        metadata = item.candidate.metadata or {}
        if not metadata or metadata.keys().isdisjoint(names):
            continue
        ours = provenance(item, {}, prefix).keys() - {prefix + "retrieval_score"}
        if not_written := ours - provenance(item, metadata, prefix).keys():
            kept |= not_written
            items.append(item)
    if not kept:
        return ranking
    items.sort(key=lambda item: item.position)
    about = ", ".join(sorted(kept))
    issue = Issue(
        "metadata_kept",
        f"metadata that another program wrote was kept, so this was not written: {about}; "
        f"to write it under other names, set {parameter}=",
        tuple(item.position for item in items),
        tuple(item.id for item in items),
    )
    report = replace(ranking.report, issues=(*ranking.report.issues, issue))
    return replace(ranking, report=report)


@cache
def _names(prefix: str) -> tuple[str, ...]:
    return tuple(prefix + key for key in (*KEYS, SPAN_KEY, PROBABILITY_KEY, TERMS_KEY))
