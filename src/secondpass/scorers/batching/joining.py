"""Batches across concurrent calls: pairs of several short lists run together.

A short list alone makes small batches of different lengths, which need much padding. So concurrent
calls share batches. Calls without a deadline go in rounds
(:mod:`secondpass.scorers.batching.rounds`), and those with a deadline by the order of
their pairs (:mod:`secondpass.scorers.batching.deadlines`). While both wait, every fourth batch is
one of a round.

If no thread can be started, a call runs its batches in the thread that made it. If a shared batch
fails, each call's pairs are tried alone, and the error is that of the calls whose own pairs fail.
Pairs of a call that has ended, or whose deadline has passed, are not begun.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from secondpass.concurrency.admission import Admission, Claim
from secondpass.concurrency.left_behind import RUNNING
from secondpass.concurrency.locks import fork_lock
from secondpass.concurrency.workers import Worker
from secondpass.errors import OverloadedError
from secondpass.scorers.batching.calls import (
    PARTS_AHEAD,
    BatchedCall,
    Entry,
    Found,
    Item,
    Part,
    TimedCall,
    fail,
)
from secondpass.scorers.batching.deadlines import Deadlines
from secondpass.scorers.batching.pace import TokenPace
from secondpass.scorers.batching.rounds import Rounds
from secondpass.scorers.batching.workers import Workers

_TURN = 4
"""One in so many batches is of a round, if any waits."""


class _Schedule(Protocol):
    """Where pairs of one kind of calls wait: rounds or deadlines."""

    def add(self, part: Part) -> None: ...

    def drop(self, calls: Iterable[Any]) -> None: ...

    def next_of(self, call: Any) -> Sequence[Entry]: ...

    def __contains__(self, call: Any) -> bool: ...


class JoinedBatches:
    """Runs batches of any number of calls.

    Args:
        run: returns one result per prepared pair. Each has a ``length``.
        threads: number of batches that run concurrently.
        plan: splits pairs of these lengths into batches of indices. It may be given a ``budget`` of
            padded tokens, and the number of ``threads`` among which to split a short list.
        pace: the rate of batches.
        budget: padded tokens of a batch.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Any]], Sequence[Any]],
        threads: int,
        plan: Callable[..., Sequence[Sequence[int]]],
        pace: TokenPace | None = None,
        budget: int = 1024,
    ) -> None:
        self._run_pairs = run
        self._lock = fork_lock()
        self._rounds = Rounds(threads, plan)
        self._deadlines = Deadlines(threads, plan, pace or TokenPace(), budget)
        self._turns = 0
        self._calls: weakref.WeakSet[BatchedCall] = weakref.WeakSet()
        self._workers = Workers(threads, "secondpass-engine")
        """At least one is busy while a batch waits, unless no thread can be started."""

    @property
    def admission(self) -> Admission:
        """Decides who is next, of the calls with a deadline."""
        return self._deadlines.admission

    @property
    def calls(self) -> int:
        """Number of calls that have not ended."""
        return len(self._calls)

    def run(self, batches: Iterator[Sequence[Item]]) -> Iterator[Found]:
        """Run batches in their order, perhaps with pairs of other calls between them.

        Yields:
            Scores that are known already; then all others together.

        Raises:
            BaseException: raised by a batch that has only pairs of this call.
        """
        call = BatchedCall()
        try:
            self._calls.add(call)
            self._stop_when_abandoned(call)
            for batch in batches:
                if any(pair.length for _, _, pair in batch):
                    self._add(call, Part(call, batch, range(len(batch))))
                else:
                    yield self._known(batch)
            # The last batches may end while the caller is elsewhere.
            while call.running or call.scored:
                if scored := self._fetch(call):
                    yield scored
        finally:
            self._leave(call)

    def run_in_time(
        self, parts: Iterator[Sequence[Item]], claim: Claim, pairs: int
    ) -> Iterator[Found]:
        """Run pairs before a deadline, perhaps in batches with those of other calls.

        Args:
            parts: pairs in the order of their ranks; the next part is taken when few are left.
            claim: the call's claim, with its deadline.
            pairs: the number of all pairs.

        Yields:
            Scores as pairs end.

        Raises:
            OverloadedError: the first pairs could not be scored in time.
            BaseException: raised by a batch that has only pairs of this call.
        """
        call = TimedCall(claim)
        rank = 0
        try:
            self._calls.add(call)
            self._stop_when_abandoned(call)
            claim.reference = weakref.ref(call)
            with self._lock:
                if not self.admission.enter(claim, pairs, time.monotonic()):
                    raise OverloadedError(self.admission.waiting_seconds)
            while not call.is_added or call.running or call.scored:
                while not call.is_added and call.running < PARTS_AHEAD:
                    part = None if call.is_over else next(parts, None)
                    if part is None:
                        call.is_added = True
                        break
                    ranked = [*enumerate(part, rank)]
                    rank += len(part)
                    if known := [one for one in ranked if not _length(one)]:
                        yield self._known_in_time(claim, known)
                    if unknown := [one for one in ranked if _length(one)]:
                        ranks, items = zip(*unknown, strict=True)
                        self._add(call, Part(call, items, ranks))
                if scored := self._fetch(call):
                    yield scored
        finally:
            self._leave(call)
            self.admission.leave(claim)

    def _stop_when_abandoned(self, call: BatchedCall) -> None:
        if (running := RUNNING.get()) is not None:
            stop = weakref.WeakMethod(call.stop)
            running.stop_with(lambda: (method := stop()) and method())

    def _leave(self, call: BatchedCall) -> None:
        # Without the lock: garbage collection may end a call while the same thread holds it.
        call.left = True
        self._calls.discard(call)

    def _known(self, items: Sequence[Item]) -> Found:
        """The scores of pairs whose scores are known; they do not wait."""
        return _scored(items, self._run_pairs([pair for _, _, pair in items]))

    def _known_in_time(self, claim: Claim, ranked: Sequence[tuple[int, Item]]) -> Found:
        scored = self._known([item for _, item in ranked])
        with self._lock:
            claim.begin([rank for rank, _ in ranked], time.monotonic())
        return scored

    def _schedule_of(self, call: BatchedCall) -> _Schedule:
        """Where the pairs of a call wait."""
        return self._deadlines if isinstance(call, TimedCall) else self._rounds

    def _add(self, call: BatchedCall, part: Part) -> None:
        schedule = self._schedule_of(call)
        with self._lock:
            try:
                schedule.add(part)
                call.running += 1
                self._workers.start(self._work)
            except BaseException:  # Ctrl-C too
                schedule.drop([call])
                raise

    def _fetch(self, call: BatchedCall) -> Found:
        """Wait for scores of a call. Without any worker, its batches run in this thread."""
        schedule = self._schedule_of(call)
        while True:
            entries = None
            with self._lock:
                if call.ready:
                    scored = call.fetch()
                    if scored or call.error is None:
                        return scored
                    error, call.error = call.error, None
                    break
                if call in schedule and not self._workers.any_busy:
                    entries = schedule.next_of(call)
            if entries is None:
                call.wait()
            elif entries:
                self._run(entries)
        try:
            raise error
        finally:
            del error  # its traceback has this frame

    # ------------------------------------------------------------------ workers

    @property
    def _is_waiting(self) -> bool:
        """Whether any pair waits for a worker."""
        return bool(self._rounds or self._deadlines)

    def _work(self, worker: Worker) -> None:
        """Run one batch, and submit a job for the next."""
        with self._lock:
            if not self._workers.is_busy(worker):
                return
            entries = self._next_batch()
            if self._is_waiting:
                with contextlib.suppress(RuntimeError):  # at the exit, which the next job notices
                    self._workers.start(self._work)
        if entries:
            self._run(entries)
        with self._lock:
            if not self._is_waiting:
                self._workers.release(worker)
                return
            try:
                # A new job rather than a loop: it is rejected while the process exits.
                self._workers.submit(worker, self._work)
            except BaseException as error:
                self._rounds.fail(error)
                self._deadlines.fail(error)

    def _next_batch(self) -> Sequence[Entry]:
        """The next batch, without pairs that are not needed any more; empty if there is none."""
        while self._is_waiting:
            self._turns += 1
            self.admission.share = (_TURN - 1) / _TURN if self._rounds else 1.0
            is_turn_of_rounds = not self._deadlines or self._turns % _TURN == 0
            schedule = self._rounds if self._rounds and is_turn_of_rounds else self._deadlines
            if entries := schedule.next_batch():
                return entries
        return []

    def _run(self, entries: Sequence[Entry]) -> None:
        began = time.perf_counter()
        try:
            scored = self._known([entry.item for entry in entries])
        except BaseException as error:
            calls = dict.fromkeys(entry.call for entry in entries)
            if len(calls) == 1:
                with self._lock:
                    fail(calls, error)
                return
            # One pair may have failed the whole batch, so the pairs of each call are tried alone.
            for call in calls:
                self._run([entry for entry in entries if entry.call is call])
            return
        with self._lock:
            self.admission.cost.learn(len(entries), time.perf_counter() - began)
            for entry, score in zip(entries, scored, strict=True):
                entry.call.scored.append(score)
                entry.part.end_one()


def _length(ranked: tuple[int, Item]) -> int:
    """The tokens of a pair; 0 if its score is known."""
    _, (_, _, pair) = ranked
    length: int = pair.length
    return length


def _scored(items: Sequence[Item], scores: Sequence[Any]) -> Found:
    return [(*item[:2], score) for item, score in zip(items, scores, strict=True)]
