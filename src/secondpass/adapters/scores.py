"""What a framework's documents carry away from a ranking: one score each, and five metadata keys.

Shared by the adapters, so that Haystack and LlamaIndex tell the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any, get_args

from secondpass.candidates import retrieval_score
from secondpass.types import ItemStatus, Ranked, Ranking

KEYS = ("rerank_score", "rerank_final_score", "retrieval_score", "rerank_rank", "rerank_status")
_STATUSES = frozenset(get_args(ItemStatus))


@cache
def _names(prefix: str) -> tuple[str, ...]:
    return tuple(prefix + key for key in KEYS)


def falling_scores(ranking: Ranking) -> list[float]:
    """One score per item that never rises along the list.

    The final scores, where every item has one and they do not rise; else ``(n - i) / n`` for the
    i-th of n. Components behind often sort by score, and must find the order as it is.
    """
    scores = [item.final_score for item in ranking.items]
    own = [score for score in scores if score is not None]
    if len(own) == len(scores) and all(a >= b for a, b in pairwise(own)):
        return own
    count = len(scores)
    return [(count - index) / count for index in range(count)]


def provenance(item: Ranked, metadata: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The metadata keys to add to a document, with their values.

    Args:
        item: the document in its place.
        metadata: what the document has already. Keys of ours that something else wrote are left
            alone (so they are absent from the result); those of an earlier pass are overwritten,
            but for ``retrieval_score``, which stays what the first retriever said. A status of
            ours marks an earlier pass, so where something else wrote a status, nothing is added.
        prefix: stands before each key.

    Returns:
        Some of ``rerank_score``, ``rerank_final_score`` and ``retrieval_score`` (each a float or
        None), ``rerank_rank`` (1-based) and ``rerank_status``.
    """
    score, final, retrieved, rank, status = _names(prefix)
    added = {
        score: item.rerank_score,
        final: item.final_score,
        retrieved: retrieval_score(item.candidate),
        rank: item.rank,
        status: item.status,
    }
    if added.keys().isdisjoint(metadata):
        return added
    before = metadata.get(status)
    if status in metadata and not (isinstance(before, str) and before in _STATUSES):
        return {}
    ours = set()
    if status in metadata:
        ours = {status}
        # What an earlier pass cannot have written is not its, whatever the status says.
        if type(metadata.get(rank)) is int:
            ours.add(rank)
        if type(metadata.get(score)) is (float if before == "scored" else type(None)):
            ours.add(score)
        # Items that are not scored may have a final score too: the retriever's, if none is scored.
        before_final = metadata.get(final)
        if type(before_final) is float or (before_final is None and before != "scored"):
            ours.add(final)
    return {name: value for name, value in added.items() if name not in metadata or name in ours}
