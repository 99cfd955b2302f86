"""Validates and keeps what ``score_batches`` and ``score_lists`` yield, until it is taken."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeGuard, TypeVar

from secondpass.asking.scheduler import PartialList, PartialScores, scoring_deadline_error
from secondpass.errors import MethodError, with_article
from secondpass.questions import ListScores
from secondpass.ranking.scoring import in_range, is_finite, to_float, to_list, to_pieces, to_span
from secondpass.settings import counted
from secondpass.types import Issue

T = TypeVar("T")


class CollectedScores:
    """The scores of one request, added by one thread until another one takes them."""

    def __init__(self, count: int, late: MethodError | None = None) -> None:
        self.taken = False
        # Why documents without a score have none, if the scorer does not say.
        self._error: MethodError = late or scoring_deadline_error()
        self._count = count
        self._scores: dict[int, Any] = {}
        self._lock = threading.Lock()

    def add(self, batch: object) -> bool:
        """Add all scores of a batch; False, without adding them, if scores were taken before.

        A batch has tuples (0, index of the document, score).

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
        self._error = error or self._error

    @property
    def has_scores(self) -> bool:
        """Whether there is a score that can be used."""
        with self._lock:
            return any(map(is_finite, self._scores.values()))

    def take(self) -> PartialScores:
        """Return the scores so far. None is added afterwards."""
        with self._lock:
            self.taken = True
        return PartialScores(self._scores, self._error)

    def _read(self, row: Any) -> tuple[int, Any]:
        """The index of the document, and its score."""
        try:
            request, document, score = row
            request, document = operator.index(request), operator.index(document)
        except (TypeError, ValueError):
            message = "score_batches did not yield (index of request, index of document, score)"
            raise MethodError(message, "score_index") from None
        if request != 0 or not 0 <= document < self._count:
            message = "score_batches scored a request or document that does not exist"
            raise MethodError(message, "score_index")
        return document, score


class LatestLists:
    """The latest lists that one thread has added, until another one takes them."""

    def __init__(
        self, requests: Sequence[tuple[str, list[str]]], late: MethodError | None = None
    ) -> None:
        self.taken = False
        # Read before the call, because the scorer may change the lists.
        self._lengths = [[len(text) for text in documents] for _, documents in requests]
        self._lists: list[ListScores] | None = None
        # Why there are no lists, or documents without a score, if the scorer does not say.
        self._error: MethodError | None = late or scoring_deadline_error()
        self._lock = threading.Lock()

    def add(self, lists: object) -> bool:
        """Replace the lists; False, without replacing them, if they were taken before.

        Raises:
            MethodError: these are not lists of scores for the requests. Nothing is replaced.
        """
        latest = read_lists(lists, self._lengths)
        with self._lock:
            if not self.taken:
                self._lists = latest
            return not self.taken

    def end(self, error: MethodError | None) -> None:
        """Set why some documents have no score; None if the scorer left them out."""
        self._error = error

    @property
    def has_scores(self) -> bool:
        """Whether there is a score that can be used, or the original order is to be kept."""
        with self._lock:
            lists = self._lists or []
        return any(item.original == 1 or any(map(is_finite, item.scores)) for item in lists)

    def take(self) -> list[PartialList] | MethodError:
        """Return the latest lists. They are not replaced afterwards.

        A MethodError if there are none, or if the scorer failed and there are several requests.
        """
        with self._lock:
            self.taken = True
        error = self._error
        if self._lists is None:
            return error or MethodError("score_lists yielded nothing", "scores_no_list")
        if error is not None and len(self._lists) > 1:
            return error
        return [PartialList(result, error) for result in self._lists]


def read_lists(lists: object, lengths: Sequence[Sequence[int]]) -> list[ListScores]:
    """Copy and validate what ``score_lists`` yields, except for the scores.

    Invalid issues, weights and spans are dropped, with an issue. ``lengths`` are the characters of
    each document of each request.

    Raises:
        MethodError: it is not a list with one :class:`ListScores` per request, or one of these does
            not have as many scores as there are documents.
    """
    results = to_list(lists, len(lengths))
    return [_read_list(result, sizes) for result, sizes in zip(results, lengths, strict=True)]


def _read_list(result: object, lengths: Sequence[int]) -> ListScores:
    if not isinstance(result, ListScores):
        message = f"score_lists yielded {with_article(type(result).__name__)}, not ListScores"
        raise MethodError(message, "scores_no_list")
    count = len(lengths)
    scores = to_list(result.scores, count)
    order = None if result.order_scores is None else to_list(result.order_scores, count)
    yielded = result.issues if isinstance(result.issues, list | tuple) else [result.issues]
    issues = [replace(issue, ids=()) for issue in yielded if _is_issue(issue, count)]
    if len(issues) < len(yielded):
        message = "an issue of the scorer is not an Issue with indices of documents"
        issues.append(Issue("issue_invalid", message))
    weight = to_float(result.original)
    original = None if weight is None else in_range(weight, (0.0, 1.0))
    if result.original is not None and original is None:
        message = "the scorer's weight of the original order is not a number from 0 to 1"
        issues.append(Issue("original_invalid", message))
    spans = _read_parts(result.spans, lengths, issues, to_span, name="spans")
    pieces = _read_parts(result.pieces, lengths, issues, to_pieces, name="pieces")
    return ListScores(
        scores,
        issues,
        original,
        spans,
        order,
        known=_count(result.known, count),
        encoded=_count(result.encoded, count),
        pieces=pieces,
    )


def _count(number: object, most: int) -> int:
    """A number of documents; 0 if it cannot be one."""
    return number if isinstance(number, int) and 0 <= number <= most else 0


def _read_parts(
    parts: object,
    lengths: Sequence[int],
    issues: list[Issue],
    read_part: Callable[[Any, int], T | None],
    *,
    name: str,
) -> list[T | None] | None:
    """The spans or pieces of each document; None for one whose value is wrong."""
    if parts is None:
        return None
    try:
        values = to_list(parts, len(lengths))
    except MethodError:
        message = f"the scorer did not return {name} for {counted(len(lengths), 'document')}"
        issues.append(Issue("span_invalid", message))
        return None
    read: list[T | None] = []
    wrong = []
    for index, (value, size) in enumerate(zip(values, lengths, strict=True)):
        part = None if value is None else read_part(value, size)
        if part is None and value is not None:
            wrong.append(index)
        read.append(part)
    if wrong:
        message = f"{name} of these are not parts of the text, in its order"
        issues.append(Issue("span_invalid", message, tuple(wrong)))
    return read


def _is_issue(value: object, count: int) -> TypeGuard[Issue]:
    return (
        isinstance(value, Issue)
        and isinstance(value.code, str)
        and isinstance(value.message, str)
        and (value.method is None or isinstance(value.method, str))
        and isinstance(value.positions, tuple)
        and all(type(index) is int and 0 <= index < count for index in value.positions)
    )
