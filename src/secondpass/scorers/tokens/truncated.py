"""Which texts a model could not read whole, for the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from secondpass.questions import text_key
from secondpass.storage.lru import LRU

_KEPT = 20_000


class Truncated(Protocol):
    """What a model remembers of the texts that it truncated."""

    def passages(self, query: str, passages: Sequence[str]) -> list[int]:
        """The indices of passages that were truncated beside this query."""

    def queries(self, query: str, passages: Sequence[str]) -> list[int]:
        """The indices of passages beside which this query was truncated."""


class TruncatedPairs:
    """Of a model that reads query and passage together: which is truncated depends on both.

    Remembers the last pairs by hashes of their texts.
    """

    def __init__(self) -> None:
        self._passages: LRU[int, bool] = LRU(_KEPT)
        self._queries: LRU[int, bool] = LRU(_KEPT)

    def add(self, query: str, *, passages: Iterable[str], beside: Iterable[str]) -> None:
        """Remember truncated passages, and the passages beside which the query was truncated."""
        _add(self._passages, query, passages)
        _add(self._queries, query, beside)

    def passages(self, query: str, passages: Sequence[str]) -> list[int]:
        return _indices(self._passages, query, passages)

    def queries(self, query: str, passages: Sequence[str]) -> list[int]:
        return _indices(self._queries, query, passages)


class TruncatedTexts:
    """Of a model that reads each text by itself. Remembers the last texts by their hashes."""

    def __init__(self) -> None:
        self._passages: LRU[int, bool] = LRU(_KEPT)
        self._queries: LRU[int, bool] = LRU(_KEPT)

    def add_passage(self, passage: str) -> None:
        _add(self._passages, "", [passage])

    def add_query(self, query: str) -> None:
        _add(self._queries, "", [query])

    def passages(self, query: str, passages: Sequence[str]) -> list[int]:  # noqa: ARG002
        return _indices(self._passages, "", passages)

    def queries(self, query: str, passages: Sequence[str]) -> list[int]:
        return [*range(len(passages))] if _indices(self._queries, "", [query]) else []


def _add(known: LRU[int, bool], query: str, passages: Iterable[str]) -> None:
    start = hash(text_key(query))
    if pairs := [(hash((start, text_key(passage))), True) for passage in passages]:
        known.put_many(pairs)


def _indices(known: LRU[int, bool], query: str, passages: Sequence[str]) -> list[int]:
    if not len(known):
        return []
    start = hash(text_key(query))
    truncated = known.get_many(hash((start, text_key(passage))) for passage in passages)
    return [index for index, is_truncated in enumerate(truncated) if is_truncated]
