"""Batches across concurrent calls: pairs of several short lists run together.

A short list alone makes small batches of different lengths, which need much padding. So concurrent
calls are planned together, in rounds. A round takes from each call the batches that the threads
would run for it alone, sorts all of their pairs by length, and splits them into new batches. A long
list does not delay others, because each call has a part in every round.

A call that runs alone has the batches that it would have without this. If no thread can be started,
a call runs its batches in the thread that made it. If a shared batch fails, each call's pairs are
tried alone, and the error is that of the calls whose own pairs fail. Pairs of a call that has
ended, or whose deadline has passed, are not begun.

Calls with a deadline or a target have no part in rounds. Before each batch, the first of all their
waiting pairs, in the order of :mod:`secondpass.concurrency.admission`, are planned together, and
the batch with the first one is run. While other calls wait, every fourth batch is theirs.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeAlias

from secondpass.concurrency.admission import RESERVE, Admission, Claim, Key
from secondpass.concurrency.locks import fork_lock
from secondpass.concurrency.waiting import received
from secondpass.concurrency.workers import Worker
from secondpass.errors import OverloadedError
from secondpass.scorers.batching.pace import TokenPace

Item: TypeAlias = tuple[int, Sequence[int], Any]
"""(index of the request, indices of the passage in its list, prepared pair)."""
Found: TypeAlias = list[tuple[int, Sequence[int], Any]]
"""The same with the score in place of the pair."""

_SHARE = 0.9
"""Share of the time left that a pair may take by the rate so far, since rates vary."""
_PART = 0.4
"""Share of the time left that one batch may take."""
_LARGEST = 4
"""Batches that are planned together: sorted among more pairs, they need less padding."""
_AHEAD = 3
"""Parts of a call with a deadline or a target that are prepared before they are needed."""
_EARLY = 0.1
"""Share of its time before whose end a call fetches what was scored."""
_TURN = 4
"""One in so many batches is for calls without a deadline or a target, if any wait."""


class _Call:
    """A call of :meth:`JoinedBatches.run`.

    Attributes:
        claim: its deadline and target; None if it has neither.
        waiting: its batches that are in no round yet.
        pairs: those of a call with a claim that are in no batch yet, by rank, in this order.
        over: whether its time does not suffice for further pairs.
        running: number of its batches that have not ended.
        wanted: number of its batches below which its thread adds one, or ends.
        fetched: number of scores that its thread has fetched.
        early: seconds before its time ends at which it fetches what was scored.
        scored: scores that it has not fetched yet.
        error: why it failed.
        left: whether its caller is gone, so that its scores are not fetched.
        progress: has an item if there may be something to fetch.
    """

    def __init__(self, claim: Claim | None = None) -> None:
        self.claim = claim
        self.waiting: deque[_Batch] = deque()
        self.pairs: dict[int, _Entry] = {}
        self.over = False
        self.running = 0
        self.wanted = 1
        self.fetched = 0
        self.early = 0.0 if claim is None else _EARLY * (claim.until - time.monotonic())
        self.scored: Found = []
        self.error: BaseException | None = None
        self.left = False
        self.progress: SimpleQueue[None] = SimpleQueue()

    def wait(self) -> None:
        """Until it is woken, or shortly before its time ends, when its scores are used."""
        seconds = (
            math.inf if self.claim is None else self.claim.until - self.early - time.monotonic()
        )
        with contextlib.suppress(Empty):
            received(self.progress, seconds if seconds > 0 else None)

    @property
    def ready(self) -> bool:
        """Whether its thread is woken.

        It is not for every score: threads that run Python delay the workers.
        """
        if self.error is not None or self.running < self.wanted:
            return True
        return bool(self.scored) and (
            self.claim is not None
            and (
                self.over
                or self.fetched < self.claim.floor
                or time.monotonic() >= self.claim.until - self.early
            )
        )

    def wake(self) -> None:
        """Let its thread check whether it is ready."""
        if self.progress.empty():
            self.progress.put(None)


class _Batch:
    """Pairs that a call passed together; ``open`` is the number of those that have not ended."""

    def __init__(self, call: _Call, items: Sequence[Item], ranks: Sequence[int]) -> None:
        self.call = call
        self.items = items
        self.open = len(items)
        self._ranks = ranks

    def entries(self) -> list[_Entry]:
        """Its pairs as entries of a round."""
        return [
            _Entry(self, item, rank) for item, rank in zip(self.items, self._ranks, strict=True)
        ]


class _Entry(NamedTuple):
    """A pair in a round, and its rank among those of its call."""

    batch: _Batch
    item: Item
    rank: int

    @property
    def length(self) -> int:
        """In tokens."""
        length: int = self.item[2].length
        return length

    @property
    def latest(self) -> float:
        """When it has to be scored."""
        claim = self.batch.call.claim
        return math.inf if claim is None else claim.latest(self.rank)


_Place: TypeAlias = tuple[Key, int, Claim, _Entry, Iterator[_Entry]]
"""What a call's next pair is sorted by, the call's id and claim, the pair, and those after it."""


class JoinedBatches:
    """Runs batches of any number of calls.

    Args:
        run: returns one result per prepared pair. Each has a ``length``.
        threads: number of batches that run concurrently.
        plan: splits pairs of these lengths into batches of indices. It may be given a ``budget`` of
            padded tokens, and the number of ``threads`` among which to split a short list.
        pace: the rate of batches.
        budget: padded tokens of a batch.

    Attributes:
        admission: decides who is next, of the calls with a deadline or a target.
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
        self._threads = threads
        self._plan = plan
        self._pace = pace or TokenPace()
        self._budget = budget
        self.admission = Admission(threads)
        self._turns = 0
        self._lock = fork_lock()
        self._queue: list[_Call] = []
        """Calls with pairs that are in no round yet."""
        self._round: deque[list[_Entry]] = deque()
        self._calls: weakref.WeakSet[_Call] = weakref.WeakSet()
        self._workers = Workers(threads, "secondpass-engine")
        """At least one is busy while a batch waits, unless no thread can be started."""

    @property
    def calls(self) -> int:
        """Number of calls that have not ended."""
        return len(self._calls)

    def run(
        self, batches: Iterator[Sequence[Item]], *, claim: Claim | None = None, pairs: int = 0
    ) -> Iterator[Found]:
        """Run batches in their order, perhaps with pairs of other calls between them.

        Args:
            batches: of pairs; with ``claim``, their pairs are in the order of their ranks, and the
                next batch is taken when few are left.
            claim: the call's deadline and target; None if it has neither.
            pairs: with ``claim``, the number of all pairs.

        Yields:
            Scores as pairs end; without ``claim``, all at the end.

        Raises:
            OverloadedError: the first pairs could not be scored in time.
            BaseException: raised by a batch that has only pairs of this call.
        """
        ahead = math.inf if claim is None else _AHEAD
        call = _Call(claim)
        ended, rank = False, 0
        try:
            self._calls.add(call)
            if claim is not None:
                claim.holder = weakref.ref(call)
                with self._lock:
                    if not self.admission.enter(claim, pairs, time.monotonic()):
                        raise OverloadedError(self.admission.waiting_seconds)
            # The last batches may end while the caller is elsewhere.
            while not ended or call.running or call.scored:
                while not ended and call.running < ahead:
                    batch = None if call.over else next(batches, None)
                    if batch is None:
                        ended = True
                        continue
                    known = [i for i, (_, _, pair) in enumerate(batch) if not pair.length]
                    unknown = [i for i, (_, _, pair) in enumerate(batch) if pair.length]
                    if claim is None and unknown:
                        known, unknown = [], [*range(len(batch))]
                    if known:  # they do not wait
                        items = [batch[i] for i in known]
                        scores = self._run_pairs([pair for _, _, pair in items])
                        if claim is not None:
                            with self._lock:
                                claim.begin([rank + i for i in known], time.monotonic())
                        yield _scored(items, scores)
                    if unknown:
                        ranks = [rank + i for i in unknown]
                        self._add(call, [batch[i] for i in unknown], ranks)
                    rank += len(batch)
                call.wanted = 1 if ended else _AHEAD
                if scored := self._fetch(call):
                    yield scored
        finally:
            # Without the lock: garbage collection may end this while the same thread holds it.
            call.left = True
            self._calls.discard(call)
            if claim is not None:
                self.admission.leave(claim)

    def _add(self, call: _Call, items: Sequence[Item], ranks: Sequence[int]) -> None:
        with self._lock:
            try:
                batch = _Batch(call, items, ranks)
                if call.claim is None:
                    call.waiting.append(batch)
                else:
                    call.pairs.update((entry.rank, entry) for entry in batch.entries())
                call.running += 1
                if call not in self._queue:
                    self._queue.append(call)
                self._workers.start(self._work)
            except BaseException:  # Ctrl-C too
                self._queue = [other for other in self._queue if other is not call]
                raise

    def _fetch(self, call: _Call) -> Found:
        """Wait for scores of a call. Without any worker, its batches run in this thread."""
        while True:
            entries = None
            with self._lock:
                if call.ready:
                    scored, call.scored = call.scored, []
                    call.fetched += len(scored)
                    if scored or call.error is None:
                        return scored
                    error, call.error = call.error, None
                    break
                if call in self._queue and not self._workers.any_busy:
                    entries = self._live(self._withdrawn(call))
            if entries is None:
                call.wait()
            elif entries:
                self._run(entries)
        try:
            raise error
        finally:
            del error  # its traceback has this frame

    def _withdrawn(self, call: _Call) -> list[_Entry]:
        """The next batch of a call, taken out of the queue."""
        if call.claim is not None:
            return self._first_batch([call])
        batch = call.waiting.popleft()
        if not call.waiting:
            self._queue.remove(call)
        return batch.entries()

    # ------------------------------------------------------------------ workers

    def _work(self, worker: Worker) -> None:
        """Run one batch, and submit a job for the next."""
        with self._lock:
            if not self._workers.is_busy(worker):
                return
            entries = self._next_batch()
            if self._round or self._queue:
                with contextlib.suppress(RuntimeError):  # at the exit, which the next job notices
                    self._workers.start(self._work)
        if entries:
            self._run(entries)
        with self._lock:
            if not self._round and not self._queue:
                self._workers.release(worker)
                return
            try:
                # A new job rather than a loop: it is rejected while the process exits.
                self._workers.submit(worker, self._work)
            except BaseException as error:
                in_round = (entry.batch.call for batch in self._round for entry in batch)
                self._fail({*self._queue, *in_round}, error)

    def _next_batch(self) -> list[_Entry]:
        """The next batch, without pairs that are not needed any more; empty if there is none."""
        while self._round or self._queue:
            claiming = [call for call in self._queue if call.claim is not None]
            others = bool(self._round) or len(claiming) < len(self._queue)
            self.admission.share = 1 - others / _TURN
            self._turns += 1
            if claiming and not (others and self._turns % _TURN == 0):
                if entries := self._first_batch(claiming):
                    return entries
            elif not self._round:
                self._begin_round()
            elif entries := self._live(self._round.popleft()):
                return entries
        return []

    def _first_batch(self, calls: Sequence[_Call]) -> list[_Entry]:
        """The batch with the first pair of calls with a claim; empty if none has one left."""
        now, rate = time.monotonic(), self._pace.seconds_per_token
        calls = [call for call in calls if self._in_time(call, now, rate)]
        window = self._window(calls, now, rate)
        is_all = len(window) == sum(len(call.pairs) for call in calls)
        batch = window[:1]
        if window and rate is not None:  # else one pair, to learn the rate
            tokens = _PART * (window[0].latest - RESERVE - now) / rate
            budget = max(1, round(min(self._budget, tokens)))
            try:
                # The last pairs are split among the threads; before, batches are full.
                threads = self._threads if is_all else 1
                lengths = [entry.length for entry in window]
                plan = self._plan(lengths, budget=budget, threads=threads)
                # Those of the first pair: it is in the batch with the lowest index.
                planned = [window[index] for index in sorted(min(plan, key=min))]
            except BaseException as error:
                self._fail(calls, error)
                return []
            seconds = max(entry.length for entry in planned) * len(planned) * rate
            in_time = [entry for entry in planned if now + seconds < entry.latest - RESERVE]
            if window[0] in in_time:
                batch = in_time
        for entry in batch:
            call = entry.batch.call
            del call.pairs[entry.rank]
            assert call.claim is not None
            call.claim.begin((entry.rank,), now)
        self._queue = [call for call in self._queue if call.pairs or call.waiting]
        return batch

    def _in_time(self, call: _Call, now: float, rate: float | None) -> bool:
        """Whether a call's next pair can be scored in time; else all of its pairs are ended."""
        if call.left or call.error is not None:
            call.pairs = {}
        if not call.pairs:
            return False
        assert call.claim is not None
        first = next(iter(call.pairs.values()))
        left = first.latest - RESERVE - now
        # One is tried, or a single slow batch would prevent all further ones.
        needed = first.length * (rate or 0.0) if call.claim.begun else 0.0
        if left > 0 and needed <= left * _SHARE:
            return True
        call.over = True
        dropped, call.pairs = call.pairs, {}
        for entry in dropped.values():
            self._end(entry)
        return False

    def _window(self, calls: Sequence[_Call], now: float, rate: float | None) -> list[_Entry]:
        """The first pairs of all calls, as many as are planned together.

        Floors fill batches of their own, so that longer pairs beyond do not delay them.
        """
        key = self.admission.key(now)
        heap: list[_Place] = []
        for call in calls:
            assert call.claim is not None
            pairs = iter(call.pairs.values())
            entry = next(pairs)
            heap.append((key(call.claim, entry.rank), id(call), call.claim, entry, pairs))
        heapq.heapify(heap)
        window: list[_Entry] = []
        tokens, most = 0, float(_LARGEST * self._budget)
        while heap and tokens < most:
            place, number, claim, entry, pairs = heap[0]
            if place[0] and tokens >= self._budget:
                break
            if not window and rate:  # one that waits for others may not be late for it
                most = min(most, (entry.latest - now) * _PART * self._threads / rate)
            window.append(entry)
            tokens += entry.length
            if following := next(pairs, None):
                place = key(claim, following.rank)
                heapq.heapreplace(heap, (place, number, claim, following, pairs))
            else:
                heapq.heappop(heap)
        return window

    def _live(self, entries: Iterable[_Entry]) -> list[_Entry]:
        """The entries whose calls still wait; those after their time are ended."""
        now = time.monotonic()
        live = []
        for entry in entries:
            call = entry.batch.call
            if call.left or call.error is not None:
                continue
            if now < entry.latest:
                live.append(entry)
            else:
                self._end(entry)
        return live

    def _begin_round(self) -> None:
        others = [call for call in self._queue if call.claim is not None]
        calls = [
            call
            for call in self._queue
            if call.claim is None and not call.left and call.error is None
        ]
        batches = [
            call.waiting.popleft().entries()
            for call in calls
            for _ in range(min(self._threads, len(call.waiting)))
        ]
        self._queue = others + [call for call in calls if call.waiting]
        if len(calls) > 1:
            entries = [entry for batch in batches for entry in batch]
            try:
                plan = self._plan([entry.length for entry in entries])
                batches = [[entries[index] for index in indices] for indices in plan]
            except BaseException as error:
                self._fail(calls, error)
                return
        self._round.extend(batches)

    def _fail(self, calls: Iterable[_Call], error: BaseException) -> None:
        """Raise an error in all of these calls."""
        for call in calls:
            call.error = error
            call.wake()
        self._queue = [call for call in self._queue if call.error is None]

    def _run(self, entries: list[_Entry]) -> None:
        began = time.perf_counter()
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
            # One pair may have failed the whole batch, so the pairs of each call are tried alone.
            for call in calls:
                self._run([entry for entry in entries if entry.batch.call is call])
            return
        with self._lock:
            self.admission.cost.learn(len(entries), time.perf_counter() - began)
            for entry, score in zip(entries, scored, strict=True):
                entry.batch.call.scored.append(score)
                self._end(entry)

    @staticmethod
    def _end(entry: _Entry) -> None:
        """Count a pair as ended, and wake its call if that is ready."""
        batch, call = entry.batch, entry.batch.call
        batch.open -= 1
        call.running -= not batch.open
        if call.ready:
            call.wake()


def _scored(items: Sequence[Item], scores: Sequence[Any]) -> Found:
    return [(*item[:2], score) for item, score in zip(items, scores, strict=True)]


class Workers:
    """Workers with and without a job. Not safe for use from several threads at once.

    Args:
        count: maximum number of workers with a job.
        name: of the threads.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()

    @property
    def any_busy(self) -> bool:
        """Whether any worker has a job."""
        return bool(self._busy)

    def is_busy(self, worker: Worker) -> bool:
        """Whether a worker should run its job; see :meth:`submit`."""
        return worker in self._busy

    def start(self, job: Callable[[Worker], None]) -> bool:
        """Give a worker a job, unless all have one.

        Returns:
            False if none was idle and none could be started.

        Raises:
            RuntimeError: the process ends.
        """
        if len(self._busy) >= self._count:
            return True
        if self._idle:
            self.submit(self._idle.pop(), job)
            return True
        try:
            self.submit(Worker(self._name), job)
        except RuntimeError:
            return False
        return True

    def submit(self, worker: Worker, job: Callable[[Worker], None]) -> None:
        """Give a worker a job. After an error it is not busy, even if its thread was started.

        So a job must first ask :meth:`is_busy`, as soon as this has returned or raised.

        Raises:
            RuntimeError: see :meth:`Worker.submit`; of a worker that had a job, the process ends.
        """
        # In this order, so that Ctrl-C in between leaves no worker busy that has no job.
        self._busy.discard(worker)
        worker.submit(partial(job, worker))
        self._busy.add(worker)

    def release(self, worker: Worker) -> None:
        """Let a worker be idle."""
        self._busy.discard(worker)
        self._idle.append(worker)
