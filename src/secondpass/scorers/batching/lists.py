"""Scores lists with a loaded model that reads all passages of a list together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from secondpass.concurrency.lazy import Lazy
from secondpass.questions import text_key
from secondpass.scorers.batching.copies import distinct
from secondpass.scorers.batching.pairs import Requests, Scored, doubt_of
from secondpass.storage.lru import LRU
from secondpass.types import EngineInfo

_KEPT = 1_000
"""Lists whose number of passes is remembered, for the report."""


class ListEngine:
    """Runs a model for any number of threads and rerankers, one list at a time.

    The model's ``score_list`` returns the scores of a list, and the number of passes that it took.
    Copies of a passage in a list are read once, so that they have the same score.

    A list is scored whole, since the score of a passage depends on the others. So the claim of a
    call (:data:`~secondpass.concurrency.admission.CLAIM`) is not read: no call is
    refused, and the wait for other lists counts as calling.
    """

    def __init__(self, model: Any, reason: str = "") -> None:
        self.model = model
        rule = "one list at a time"
        self.info = EngineInfo("", model.backend, model.precision, model.threads, rule, reason)
        self._check = Lazy[tuple[str | None]]()
        self._blocks: LRU[int, int] = LRU(_KEPT)

    def doubt(self) -> str | None:
        """Why the model is doubtful, by its scores of known answers; None if it is not."""
        return self._check.get(lambda: (doubt_of(self.score, self.model.knows),))[0]

    def score(self, requests: Requests, instruction: str | None = None) -> list[list[Any]]:
        """One score per passage of each list."""
        return [self._score(query, passages, instruction) for query, passages in requests]

    def score_until(
        self, requests: Requests, deadline: float | None, instruction: str | None = None
    ) -> Iterator[Scored]:
        """Score list by list; none is begun after the deadline."""
        for index, (query, passages) in enumerate(requests):
            if deadline is not None and time.monotonic() >= deadline:
                return
            scores = self._score(query, passages, instruction)
            yield [(index, passage, score) for passage, score in enumerate(scores)]

    def blocks(self, query: str, passages: Sequence[str]) -> int:
        """The number of passes that a list took when it was last scored; 1 if it is not known."""
        return self._blocks.get_many([_key(query, passages)])[0] or 1

    def _score(self, query: str, passages: Sequence[str], instruction: str | None) -> list[Any]:
        if not passages:
            return []
        [(_, texts, copies)] = distinct([(query, passages)])
        found, blocks = self.model.score_list(query, texts, instruction)
        self._blocks.put_many([(_key(query, passages), blocks)])
        scores: list[Any] = [None] * len(passages)
        for indices, score in zip(copies, found, strict=True):
            for index in indices:
                scores[index] = score
        return scores


def _key(query: str, passages: Sequence[str]) -> int:
    return hash((text_key(query), tuple(map(text_key, passages))))
