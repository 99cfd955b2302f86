"""Batches of calls that have a deadline: the pairs that are next come first."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from secondpass.concurrency.admission import RESERVE, Admission, Key, is_after_cores
from secondpass.scorers.batching.calls import Entry, Part, TimedCall, fail
from secondpass.scorers.batching.pace import TokenPace

_PAIR_TIME_SHARE = 0.9
"""Share of the time left that a pair may take by the rate so far, since rates vary."""
_BATCH_TIME_SHARE = 0.4
"""Share of the time left that one batch may take."""
_PLANNED_BATCHES = 4
"""Batches that are planned together: sorted among more pairs, they need less padding."""

_Next: TypeAlias = tuple[Key, int, TimedCall, Entry, Iterator[Entry]]
"""What a call's next pair is sorted by, the call's id, the call, the pair, and those after it."""


class Deadlines:
    """The pairs of calls with a deadline that are in no batch yet.

    Before each batch, the first of all waiting pairs, in the order of the admission, are planned
    together, and the batch with the first one is run. Pairs that cannot be scored in time are ended
    without a score.

    Not safe for use from several threads at once.

    Args:
        threads: number of batches that run concurrently.
        plan: splits pairs of these lengths into batches of indices, by a ``budget`` of padded
            tokens, a short list among a number of ``threads``.
        pace: the rate of batches.
        budget: padded tokens of a batch.

    Attributes:
        admission: decides whose pairs are next.
    """

    def __init__(
        self,
        threads: int,
        plan: Callable[..., Sequence[Sequence[int]]],
        pace: TokenPace,
        budget: int,
    ) -> None:
        self.admission = Admission(threads)
        self._threads = threads
        self._plan = plan
        self._pace = pace
        self._budget = budget
        self._waiting: dict[TimedCall, dict[int, Entry]] = {}
        """Pairs of each call by rank, in this order."""

    def __bool__(self) -> bool:
        """Whether any pair waits."""
        return bool(self._waiting)

    def __contains__(self, call: TimedCall) -> bool:
        """Whether a pair of the call waits."""
        return call in self._waiting

    def add(self, part: Part) -> None:
        """Let the pairs of a part wait."""
        call = part.call
        assert isinstance(call, TimedCall)
        waiting = self._waiting.setdefault(call, {})
        waiting.update((entry.rank, entry) for entry in part.entries())

    def drop(self, calls: Iterable[TimedCall]) -> None:
        """Forget the pairs of calls."""
        for call in calls:
            self._waiting.pop(call, None)

    def fail(self, error: BaseException) -> None:
        """Raise an error in the calls of all pairs that wait."""
        calls = [*self._waiting]
        self.drop(calls)
        fail(calls, error)

    def next_of(self, call: TimedCall) -> Sequence[Entry]:
        """The next batch of a call, for its own thread; empty if no pair can be scored in time."""
        return self._next_batch([call])

    def next_batch(self) -> Sequence[Entry]:
        """The batch with the first of all pairs; empty if none can be scored in time."""
        return self._next_batch([*self._waiting])

    def _next_batch(self, calls: Sequence[TimedCall]) -> Sequence[Entry]:
        now, rate = time.monotonic(), self._pace.seconds_per_token
        calls = [call for call in calls if self._is_in_time(call, now, rate)]
        if not calls:
            return []
        window = self._window(calls, now, rate)
        if rate is None:
            batch: Sequence[Entry] = window[:1]  # one pair, to learn the rate
        else:
            # The last pairs are split among the threads; before, batches are full.
            is_all = len(window) == sum(len(self._waiting[call]) for call in calls)
            try:
                batch = self._batch(window, now, rate, self._threads if is_all else 1)
            except BaseException as error:
                self.drop(calls)
                fail(calls, error)
                return []
        self.admission.served()
        for entry in batch:
            self._begin(entry, now)
        return batch

    def _is_in_time(self, call: TimedCall, now: float, rate: float | None) -> bool:
        """Whether a call's next pair can be scored in time; else none of its pairs waits longer."""
        pairs = self._waiting[call]
        if not call.is_waiting or not pairs:  # Ctrl-C may have come before an empty one was dropped
            self.drop([call])
            return False
        first = next(iter(pairs.values()))
        left = first.deadline - RESERVE - now
        # One is tried, or a single slow batch would prevent all further ones.
        needed = first.length * (rate or 0.0) if call.claim.begun else 0.0
        if left > 0 and needed <= left * _PAIR_TIME_SHARE:
            return True
        call.is_over = True
        self.drop([call])
        for entry in pairs.values():
            entry.part.end_one()
        return False

    def _window(self, calls: Sequence[TimedCall], now: float, rate: float | None) -> list[Entry]:
        """The first pairs of all calls, as many as are planned together.

        Cores fill batches of their own, so that longer pairs beyond do not delay them.
        """
        key = self.admission.order(now).key
        heap: list[_Next] = []
        for call in calls:
            pairs = iter(self._waiting[call].values())
            entry = next(pairs)
            heap.append((key(call.claim, entry.rank), id(call), call, entry, pairs))
        heapq.heapify(heap)
        window: list[Entry] = []
        tokens, most = 0, float(_PLANNED_BATCHES * self._budget)
        while heap and tokens < most:
            place, number, call, entry, pairs = heap[0]
            if tokens >= self._budget and is_after_cores(place):
                break
            if not window and rate:  # one that waits for others may not be late for it
                most = min(most, (entry.deadline - now) * _BATCH_TIME_SHARE * self._threads / rate)
            window.append(entry)
            tokens += entry.length
            if following := next(pairs, None):
                place = key(call.claim, following.rank)
                heapq.heapreplace(heap, (place, number, call, following, pairs))
            else:
                heapq.heappop(heap)
        return window

    def _batch(
        self, window: Sequence[Entry], now: float, rate: float, threads: int
    ) -> Sequence[Entry]:
        """The batch with the first pair of a window, without pairs that it would make late."""
        tokens = _BATCH_TIME_SHARE * (window[0].deadline - RESERVE - now) / rate
        budget = max(1, round(min(self._budget, tokens)))
        plan = self._plan([entry.length for entry in window], budget=budget, threads=threads)
        with_first = sorted(min(plan, key=min))  # the first pair has the lowest index
        planned = [window[index] for index in with_first]
        seconds = max(entry.length for entry in planned) * len(planned) * rate
        in_time = [entry for entry in planned if now + seconds < entry.deadline - RESERVE]
        return in_time if window[0] in in_time else window[:1]

    def _begin(self, entry: Entry, now: float) -> None:
        """Take a pair out of those that wait."""
        call = entry.call
        assert isinstance(call, TimedCall)
        pairs = self._waiting[call]
        del pairs[entry.rank]
        if not pairs:
            del self._waiting[call]
        call.claim.begin((entry.rank,), now)
