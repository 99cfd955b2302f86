"""Calls scorers, in any thread, and keeps the scores of interrupted calls."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from secondpass.errors import DeadlineError, MethodError, MissingExtraError, with_article
from secondpass.runtime.commands import (
    CallBatches,
    CallLists,
    CallScorer,
    PartialScores,
    scoring_deadline_error,
)
from secondpass.runtime.ledger import Ledger
from secondpass.runtime.list_scores import LatestLists
from secondpass.runtime.observed_calls import scoring
from secondpass.scoring import is_finite, to_list

EXITS = (KeyboardInterrupt, SystemExit)
"""Exceptions that a scorer call in the caller's thread passes on."""


def score(
    call: CallScorer, reraised: tuple[type[BaseException], ...] = EXITS
) -> list[list[Any]] | MethodError:
    """Return the scores of each request, or the scorer's exception as a MethodError.

    Args:
        call: is not made if its deadline has passed.
        reraised: exceptions that are not caught.
    """
    if call.seconds_left == 0:  # it may have waited for a free thread
        return scoring_deadline_error(call.ledgers)
    with scoring(call) as running:
        return running.ended(_score(call, reraised))


def _score(
    call: CallScorer, reraised: tuple[type[BaseException], ...]
) -> list[list[Any]] | MethodError:
    # Counted before the call, because the scorer may change the lists.
    counts = [len(documents) for _, documents in call.requests]
    try:
        if len(call.requests) == 1:
            ((query, documents),) = call.requests
            scores = call.scorer.score_pairs(query, documents, **call.keywords)
            return [to_list(scores, counts[0])]
        results = to_list(call.scorer.score_many(call.requests, **call.keywords), len(counts))
        return [to_list(scores, count) for scores, count in zip(results, counts, strict=True)]
    except reraised:
        raise
    except BaseException as error:  # CancelledError included: the scorer may run its own loop
        return _to_method_error(error, call.ledgers)


def collect(
    call: CallBatches | CallLists,
    collected: BatchScores | LatestLists,
    reraised: tuple[type[BaseException], ...] = EXITS,
) -> None:
    """Collect what the scorer yields until it ends, or ``collected`` is taken.

    Args:
        call: is not made if its deadline has passed.
        collected: gets the scores, and the scorer's exception as a MethodError.
        reraised: exceptions that are not caught.
    """
    if call.seconds_left == 0 or collected.taken:  # it may have waited for a free thread
        return
    seconds = call.scorer_seconds_left
    deadline = None if seconds is None else time.monotonic() + seconds
    with scoring(call) as running:
        try:
            generate = getattr(call.scorer, call.member)
            results = generate(list(call.requests), deadline, **call.keywords)
            if _add_all(results, collected, call.member):
                late = DeadlineError("the scorer ended without scoring these")
                collected.end(None if deadline is None else late)
        except reraised:
            raise
        except BaseException as error:
            collected.end(running.ended(_to_method_error(error, call.ledgers)))


def _add_all(results: object, collected: BatchScores | LatestLists, member: str) -> bool:
    """Add what a generator of the scorer yields; False if ``collected`` was taken before its end.

    Raises:
        MethodError: it is not a generator.
        BaseException: what the generator raises.
    """
    if not isinstance(results, Iterable):
        message = f"{member} returned {with_article(type(results).__name__)}, not a generator"
        raise MethodError(message, "scores_no_list")
    close = getattr(results, "close", lambda: None)
    try:
        return all(map(collected.add, results))
    finally:
        close()  # here, because its cleanup belongs to this thread and context


class BatchScores:
    """The scores of one request, added by one thread until another one takes them.

    Args:
        count: number of documents.
        late: why documents without a score have none, if the scorer does not say.
    """

    def __init__(self, count: int, late: MethodError | None = None) -> None:
        self.taken = False
        self._late = late or scoring_deadline_error()
        self._count = count
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
        if indices[0] != 0 or not 0 <= indices[1] < self._count:
            message = "score_batches scored a request or document that does not exist"
            raise MethodError(message, "score_index")
        return indices[1], score


def _to_method_error(error: BaseException, ledgers: Sequence[Ledger]) -> MethodError:
    """An exception of a scorer as an error that a report may contain."""
    if isinstance(error, MethodError):
        return error
    if isinstance(error, MissingExtraError):
        return MethodError(str(error), error.code)
    for ledger in ledgers:
        ledger.record_exception(error, "the scorer")
    # The exception's message may contain a passage or a key.
    return MethodError(f"the scorer raised {type(error).__name__}", "scorer_raised")
