"""Keeps the scores of one interrupted call of ``score_batches``."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from secondpass.asking.scheduler import PartialScores, scoring_deadline_error
from secondpass.errors import MethodError, with_article
from secondpass.ranking.scoring import is_finite


class BatchScores:
    """The scores of one request, added by one thread until another one takes them.

    Args:
        count: number of documents.
        late: why documents without a score have none, if the scorer does not say.
    """

    def __init__(self, count: int, late: MethodError | None = None) -> None:
        self.taken = False
        self._late = late or scoring_deadline_error()
        self._documents: Sequence[int] = range(count)
        self._scores: dict[int, Any] = {}
        self._error: MethodError | None = None
        self._lock = threading.Lock()

    def add(self, batch: object) -> bool:
        """Add all scores of a batch; False, without adding them, if scores were taken before.

        Args:
            batch: tuples of the index of the request, which is 0, the index of the document, and
                its score.

        Raises:
            MethodError: the batch has another form, or a document that is unknown or was scored
                before. Nothing is added, and documents with two scores have none.
        """
        if not isinstance(batch, Iterable):
            message = f"score_batches yielded {with_article(type(batch).__name__)}, not a list"
            raise MethodError(message, "scores_no_list")
        added: dict[int, Any] = {}
        for row in batch:
            index, score = self._read(row)
            if index in added or index in self._scores:
                with self._lock:
                    if not self.taken:
                        self._scores.pop(index, None)
                raise MethodError("score_batches scored a document twice", "score_repeated")
            added[index] = score
        with self._lock:
            if not self.taken:
                self._scores.update(added)
            return not self.taken

    def missing(self, depth: int) -> list[int]:
        """The indices of those of the first documents that have no score."""
        with self._lock:
            return [index for index in self._documents[:depth] if index not in self._scores]

    def only(self, documents: Sequence[int]) -> None:
        """Batches that are added from now on are of these documents; they have indices from 0."""
        self._documents = documents

    def end(self, error: MethodError | None) -> None:
        """Set why some documents have no score."""
        self._error = error

    @property
    def has_scores(self) -> bool:
        """Whether there is a score that can be used."""
        with self._lock:
            return any(map(is_finite, self._scores.values()))

    def take(self) -> PartialScores:
        """Return the scores so far. None is added afterwards."""
        with self._lock:
            self.taken = True
        return PartialScores(self._scores, self._error or self._late)

    def _read(self, row: Any) -> tuple[int, Any]:
        """The index of the document, and its score."""
        try:
            request, document, score = row
            indices = operator.index(request), operator.index(document)
        except (TypeError, ValueError):
            message = "score_batches did not yield (index of request, index of document, score)"
            raise MethodError(message, "score_index") from None
        if indices[0] != 0 or not 0 <= indices[1] < len(self._documents):
            message = "score_batches scored a request or document that does not exist"
            raise MethodError(message, "score_index")
        return self._documents[indices[1]], score
