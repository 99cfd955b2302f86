"""Batches of calls that have no deadline: in rounds, with a part of each call."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from secondpass.scorers.batching.calls import BatchedCall, Entry, Part, fail


class Rounds:
    """The parts of calls without a deadline that wait, and the batches of one round.

    A round takes from each call as many parts as there are threads: what the threads would run for
    it alone. All pairs of a round are split into new batches. A long list does not delay others,
    because each call has a part in every round. A call that is alone keeps its own batches.

    Not safe for use from several threads at once.

    Args:
        threads: number of batches that run concurrently.
        plan: splits pairs of these lengths into batches of indices.
    """

    def __init__(self, threads: int, plan: Callable[..., Sequence[Sequence[int]]]) -> None:
        self._threads = threads
        self._plan = plan
        self._waiting: dict[BatchedCall, deque[Part]] = {}
        """Parts that are in no round yet, of the calls in the order in which they came."""
        self._round: deque[list[Entry]] = deque()
        """Batches of the round that were not begun."""

    def __bool__(self) -> bool:
        """Whether any pair waits."""
        return bool(self._round or self._waiting)

    def __contains__(self, call: BatchedCall) -> bool:
        """Whether a part of the call is in no round yet."""
        return call in self._waiting

    def add(self, part: Part) -> None:
        """Let a part wait for the next round."""
        self._waiting.setdefault(part.call, deque()).append(part)

    def drop(self, calls: Iterable[BatchedCall]) -> None:
        """Forget the parts of calls that are in no round yet."""
        for call in calls:
            self._waiting.pop(call, None)

    def fail(self, error: BaseException) -> None:
        """Raise an error in the calls of all pairs that wait."""
        calls = {*self._waiting, *(entry.call for batch in self._round for entry in batch)}
        self.drop(calls)
        fail(calls, error)

    def next_of(self, call: BatchedCall) -> list[Entry]:
        """The next part of a call, for its own thread."""
        return self._taken(call).entries()

    def next_batch(self) -> list[Entry]:
        """The next batch, of pairs for which somebody waits; empty if there is none."""
        while self:
            if not self._round:
                self._begin_round()
            elif batch := [entry for entry in self._round.popleft() if entry.call.is_waiting]:
                return batch
        return []

    def _begin_round(self) -> None:
        self.drop([call for call in self._waiting if not call.is_waiting])
        calls = [*self._waiting]
        batches = [
            self._taken(call).entries()
            for call in calls
            for _ in range(min(self._threads, len(self._waiting[call])))
        ]
        if len(calls) > 1:
            entries = [entry for batch in batches for entry in batch]
            try:
                plan = self._plan([entry.length for entry in entries])
                batches = [[entries[index] for index in indices] for indices in plan]
            except BaseException as error:
                self.drop(calls)
                fail(calls, error)
                return
        self._round.extend(batches)

    def _taken(self, call: BatchedCall) -> Part:
        parts = self._waiting[call]
        part = parts.popleft()
        if not parts:
            del self._waiting[call]
        return part
