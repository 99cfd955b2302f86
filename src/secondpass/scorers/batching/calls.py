"""Calls whose pairs share batches: what of a call waits or runs, and when its thread is woken."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeAlias

from secondpass.concurrency.admission import Claim
from secondpass.concurrency.left_behind import AbandonedError
from secondpass.concurrency.waiting import received

Item: TypeAlias = tuple[int, Sequence[int], Any]
"""(index of the request, indices of the passage in its list, prepared pair)."""
Found: TypeAlias = list[tuple[int, Sequence[int], Any]]
"""The same with the score in place of the pair."""

EARLY = 0.1
"""Share of its time before whose end a call fetches what was scored."""
PARTS_AHEAD = 3
"""Parts of a call with a deadline that are prepared before they are needed."""


class BatchedCall:
    """A call without a deadline. Its thread waits until all of its pairs are scored.

    Attributes:
        running: number of its parts that have not ended.
        scored: scores that its thread has not fetched yet.
        error: why it failed.
        left: whether its caller is gone, so that its scores are not fetched.
        deadline: when its pairs have to be scored, as a value of ``time.monotonic()``.
    """

    def __init__(self) -> None:
        self.running = 0
        self.scored: Found = []
        self.error: BaseException | None = None
        self.left = False
        self.deadline = math.inf
        self._progress: SimpleQueue[None] = SimpleQueue()
        """Has an item if there may be something to fetch."""

    @property
    def is_waiting(self) -> bool:
        """Whether there is still somebody to score pairs for."""
        return not self.left and self.error is None

    @property
    def ready(self) -> bool:
        """Whether its thread is woken.

        It is not for every score: threads that run Python delay the workers.
        """
        return self.error is not None or not self.running

    def stop(self) -> None:
        """Fail, because nobody waits for its scores: its pairs are not begun any more."""
        self.error = AbandonedError()
        self.wake()

    def wait(self) -> None:
        """Wait until it is woken."""
        received(self._progress)

    def wake(self) -> None:
        """Let its thread check whether it is ready."""
        if self._progress.empty():
            self._progress.put(None)

    def fetch(self) -> Found:
        """The scores since the last time."""
        scored, self.scored = self.scored, []
        return scored


class TimedCall(BatchedCall):
    """A call with a deadline. Its thread fetches scores on the way.

    It prepares a few parts ahead. It is woken to add another part; for each score of its core,
    with which its ranking may end at once; and shortly before its time ends, when what was scored
    is used.

    Attributes:
        claim: what it claims of the model.
        is_added: whether all of its parts are, so that the last one to end wakes it.
        is_over: whether its time does not suffice for further pairs.
    """

    def __init__(self, claim: Claim) -> None:
        super().__init__()
        self.claim = claim
        self.deadline = claim.deadline
        self.is_added = False
        self.is_over = False
        self._fetched = 0
        now = time.monotonic()
        self._early = claim.deadline - EARLY * (claim.deadline - now)
        """When it fetches what was scored."""

    @property
    def ready(self) -> bool:
        needs_parts = not self.is_added and self.running < PARTS_AHEAD
        if super().ready or needs_parts:
            return True
        if not self.scored:
            return False
        in_core = self._fetched < self.claim.core
        return self.is_over or in_core or time.monotonic() >= self._early

    def wait(self) -> None:
        """Wait until it is woken, or shortly before its time ends.

        From then on there is no limit, because every score wakes it.
        """
        seconds = self._early - time.monotonic()
        with contextlib.suppress(Empty):
            received(self._progress, seconds if seconds > 0 else None)

    def fetch(self) -> Found:
        scored = super().fetch()
        self._fetched += len(scored)
        return scored


class Part:
    """Pairs that a call passed together.

    Attributes:
        items: the pairs.
        ranks: of the pairs in their call, from 0.
    """

    def __init__(self, call: BatchedCall, items: Sequence[Item], ranks: Sequence[int]) -> None:
        self.call = call
        self.items = items
        self.ranks = ranks
        self._open = len(items)
        """Number of its pairs that have not ended."""

    def entries(self) -> list[Entry]:
        """Its pairs, to be put into batches."""
        return [Entry(self, item, rank) for item, rank in zip(self.items, self.ranks, strict=True)]

    def end_one(self) -> None:
        """Count one of its pairs as ended, and wake its call if that is ready."""
        self._open -= 1
        if self._open == 0:
            self.call.running -= 1
        if self.call.ready:
            self.call.wake()


class Entry(NamedTuple):
    """A pair that is or will be in a batch, and its rank among those of its call."""

    part: Part
    item: Item
    rank: int

    @property
    def call(self) -> BatchedCall:
        return self.part.call

    @property
    def length(self) -> int:
        """In tokens."""
        length: int = self.item[2].length
        return length

    @property
    def deadline(self) -> float:
        """When it has to be scored."""
        return self.part.call.deadline


def fail(calls: Iterable[BatchedCall], error: BaseException) -> None:
    """Raise an error in all of these calls."""
    for call in calls:
        call.error = error
        call.wake()
