"""Batches across concurrent calls: pairs of several short lists run together.

A short list alone makes small batches, and its pairs differ in length, so padding wastes more of
them. Calls that wait at the same time are therefore planned as one list. A round takes from each of
them what the threads would run for it alone, and all that is sorted by length and split into
batches. So a long list does not hold up others: each has a part in every round.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias

Item: TypeAlias = tuple[int, Sequence[int], Any]
"""(index of the request, indices of the passage in its list, prepared pair)."""
Found: TypeAlias = list[tuple[int, Sequence[int], Any]]
"""The same with the score in place of the pair."""


class _Call:
    """A call of :meth:`JoinedBatches.run`.

    Attributes:
        until: when its pairs are no longer begun.
        patient: whether it is woken only when all its batches have ended.
        waiting: its batches that are in no round yet.
        running: number of its batches that have not ended.
        scored: what it has not fetched yet.
        error: why it failed.
        left: whether nobody fetches its scores any more.
        progress: has an item if there may be something to fetch.
    """

    def __init__(self, until: float, patient: bool) -> None:
        self.until = until
        self.patient = patient
        self.waiting: deque[_Batch] = deque()
        self.running = 0
        self.scored: Found = []
        self.error: BaseException | None = None
        self.left = False
        # Not a Condition: if Ctrl-C interrupts its wait, it may release a lock that others hold.
        self.progress: SimpleQueue[None] = SimpleQueue()

    @property
    def ready(self) -> bool:
        """Whether there is something to fetch."""
        return self.error is not None or not self.running or bool(self.scored and not self.patient)

    def wake(self) -> None:
        """Let its thread look whether it is ready."""
        if self.progress.empty():
            self.progress.put(None)


class _Batch:
    """A batch as its call planned it; ``open`` is the number of its pairs that have not ended."""

    def __init__(self, call: _Call, items: Sequence[Item]) -> None:
        self.call = call
        self.items = items
        self.open = len(items)


class _Entry(NamedTuple):
    """A pair in a round."""

    batch: _Batch
    item: Item


class JoinedBatches:
    """Runs batches of any number of calls.

    Args:
        run: returns one result per prepared pair. Each has a ``length``.
        threads: batches that run at a time.
        plan: splits pairs of these lengths into batches of indices.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Any]], Sequence[Any]],
        threads: int,
        plan: Callable[[Sequence[int]], Sequence[Sequence[int]]],
    ) -> None:
        self._run_pairs = run
        self._threads = threads
        self._plan = plan
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="secondpass-engine")
        self._lock = threading.Lock()
        self._line: list[_Call] = []
        """Calls with batches that are in no round yet."""
        self._round: deque[list[_Entry]] = deque()
        self._calls: set[_Call] = set()
        self._jobs = 0
        """Jobs of the pool; there is one at least while anything waits."""

    @property
    def calls(self) -> int:
        """Number of calls that have not ended."""
        return len(self._calls)

    def run(
        self, batches: Iterator[Sequence[Item]], *, until: float | None = None
    ) -> Iterator[Found]:
        """Run batches in their order, perhaps with pairs of other calls between them.

        Args:
            batches: of pairs; with ``until``, the next is asked for when a thread is free.
            until: a value of ``time.monotonic()`` after which no batch is begun; None for none.

        Yields:
            Scores as pairs have ended; without ``until``, all at the end.

        Raises:
            BaseException: what a batch with pairs of this call only raises.
        """
        patient = until is None
        ahead = math.inf if patient else self._threads
        call = _Call(math.inf if until is None else until, patient)
        ended = False
        try:
            self._calls.add(call)
            # The last batches may end while the caller is elsewhere.
            while not ended or call.running or call.scored:
                while not ended and call.running < ahead:
                    batch = next(batches, None)
                    if batch is None:
                        ended = True
                    elif any(pair.length for _, _, pair in batch):
                        self._add(call, batch)
                    else:  # what takes no time does not wait
                        scores = self._run_pairs([pair for _, _, pair in batch])
                        yield _scored(batch, scores)
                if scored := self._fetch(call):
                    yield scored
        finally:
            # Without the lock: garbage collection may end this while the same thread holds it.
            call.left = True
            self._calls.discard(call)

    def _add(self, call: _Call, items: Sequence[Item]) -> None:
        with self._lock:
            call.waiting.append(_Batch(call, items))
            call.running += 1
            if call not in self._line:
                self._line.append(call)
            if self._jobs < self._threads:
                self._start_job()

    def _fetch(self, call: _Call) -> Found:
        """Wait for scores of a call."""
        while True:
            with self._lock:
                if call.ready:
                    scored, call.scored = call.scored, []
                    if scored or call.error is None:
                        return scored
                    error, call.error = call.error, None
                    break
            call.progress.get()
        try:
            raise error
        finally:
            del error  # its traceback has this frame

    # ------------------------------------------------------------------ in the pool

    def _start_job(self) -> None:
        """Let the pool run a batch. If that fails, jobs are too few rather than too many."""
        try:
            self._jobs += 1
            self._pool.submit(self._work)
        except BaseException:
            self._jobs -= 1
            raise

    def _work(self) -> None:
        """Run one batch, and see that the next is run."""
        with self._lock:
            batch = self._next_batch()
        if batch:
            self._run(batch)
        with self._lock:
            self._jobs = max(0, self._jobs - 1)
            if not self._round and not self._line:
                return
            try:
                self._start_job()
            except RuntimeError as error:  # the interpreter is being shut down
                for call in {*self._line, *(entry.batch.call for b in self._round for entry in b)}:
                    call.error = error
                    call.wake()

    def _next_batch(self) -> list[_Entry]:
        """The next batch without the pairs that nobody waits for; empty if there is none."""
        while self._round or self._line:
            if not self._round:
                self._begin_round()
                continue
            now = time.monotonic()
            batch = []
            for entry in self._round.popleft():
                call = entry.batch.call
                if call.left or call.error is not None:
                    continue
                if now < call.until:
                    batch.append(entry)
                else:
                    self._end(entry)
            if batch:
                return batch
        return []

    def _begin_round(self) -> None:
        batches = []
        self._line = [call for call in self._line if not call.left]
        for call in self._line:
            for _ in range(min(self._threads, len(call.waiting))):
                batches.append([_Entry(call.waiting[0], item) for item in call.waiting[0].items])
                call.waiting.popleft()
        single = len(self._line) == 1
        self._line = [call for call in self._line if call.waiting]
        if not single:
            entries = [entry for batch in batches for entry in batch]
            plan = self._plan([entry.item[2].length for entry in entries])
            batches = [[entries[index] for index in indices] for indices in plan]
        self._round.extend(batches)

    def _run(self, entries: list[_Entry]) -> None:
        try:
            scores = self._run_pairs([entry.item[2] for entry in entries])
            scored = _scored([entry.item for entry in entries], scores)
        except BaseException as error:
            calls = dict.fromkeys(entry.batch.call for entry in entries)
            if len(calls) == 1:
                with self._lock:
                    for call in calls:
                        call.error = error
                        call.wake()
                return
            # One pair may have failed the others', so each call's are tried alone.
            for call in calls:
                self._run([entry for entry in entries if entry.batch.call is call])
            return
        with self._lock:
            for entry, score in zip(entries, scored, strict=True):
                entry.batch.call.scored.append(score)
                self._end(entry)

    @staticmethod
    def _end(entry: _Entry) -> None:
        """Count a pair as ended, and wake its call if it waits for that."""
        batch, call = entry.batch, entry.batch.call
        batch.open -= 1
        call.running -= not batch.open
        if call.ready:
            call.wake()


def _scored(items: Sequence[Item], scores: Sequence[Any]) -> Found:
    return [(*item[:2], score) for item, score in zip(items, scores, strict=True)]
