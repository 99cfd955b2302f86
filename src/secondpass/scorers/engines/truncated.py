"""Which pairs a model could not read whole, for the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from secondpass.questions import text_key
from secondpass.scorers.engines.lru import LRU

_KEPT = 20_000


class TruncatedPairs:
    """Remembers the last pairs that were truncated, by hashes of their texts."""

    def __init__(self) -> None:
        self._pairs: LRU[int, bool] = LRU(_KEPT)

    def add(self, query: str, passages: Iterable[str]) -> None:
        """Remember that these passages, or the query beside them, were truncated."""
        start = hash(text_key(query))
        pairs = [(hash((start, text_key(passage))), True) for passage in passages]
        if pairs:
            self._pairs.put_many(pairs)

    def indices(self, query: str, passages: Sequence[str]) -> list[int]:
        """The indices of passages that were truncated beside this query."""
        if not len(self._pairs):
            return []
        start = hash(text_key(query))
        known = self._pairs.get_many(hash((start, text_key(passage))) for passage in passages)
        return [index for index, truncated in enumerate(known) if truncated]
