"""Turns of calls of a scorer that has no queue of its own, by :mod:`concurrency.admission`.

With a deadline, a ranking calls such a scorer in turns. Each waits for its turn, in the
thread or event loop of its ranking, and has as many of its texts as there is time for then.
"""

from __future__ import annotations

import heapq
import math
import os
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Literal

from secondpass.concurrency.admission import Admission, Claim, Key, Order
from secondpass.concurrency.lazy import PerObject
from secondpass.concurrency.locks import fork_lock
from secondpass.concurrency.processor import usable_cpus
from secondpass.errors import OverloadedError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

WIDTH = min(32, usable_cpus() + 4)
"""Calls of such a scorer that run at a time. More would only compete for the interpreter."""


class Turns:
    """The turns of one scorer."""

    def __init__(self, width: int = WIDTH) -> None:
        self.admission = Admission(width, in_calls=True)
        self._lock = fork_lock()
        self._running: list[CallTurn] = []
        self._waiting: list[tuple[Key, int, CallTurn]] = []
        """A heap of key, number and turn, by the order that was planned last. Those that have ended
        are in it until they come first, or it is sorted anew."""
        self._order = Order()
        self._count = 0  # of all turns
        self._of_threads: dict[int, CallTurn] = {}
        """The last turn of each thread."""
        self._process = os.getpid()

    def take(self, turn: CallTurn, now: float) -> None:
        """Begin a turn, now or when it is next.

        A turn left over from an interrupted call of this thread is dropped: an exception of a
        signal handler may come at any line. Nested calls take no turn (:data:`HELD`).
        """
        with self._lock:
            if turn.thread is not None:
                if (left_over := self._of_threads.pop(turn.thread, None)) is not None:
                    self._drop(left_over)
                self._of_threads[turn.thread] = turn
            self._count += 1
            key = self._order.key(turn.claim, turn.rank)
            heapq.heappush(self._waiting, (key, self._count, turn))
        self.advance(now)

    def _drop(self, turn: CallTurn) -> None:
        turn.state = "ended"
        self._running = [other for other in self._running if other is not turn]
        if turn.thread is not None and self._of_threads.get(turn.thread) is turn:
            del self._of_threads[turn.thread]

    def enter(self, claim: Claim, pairs: int, now: float) -> bool:
        """:meth:`Admission.enter`, one call at a time."""
        with self._lock:
            if self._process != os.getpid():  # the parent's rankings do not exist here
                self._process, self._running, self._waiting = os.getpid(), [], []
                self._of_threads.clear()
                self.admission.claims.clear()
            return self.admission.enter(claim, pairs, now)

    def learn(self, pairs: int, seconds: float) -> None:
        """Count a call that needed no turn."""
        with self._lock:
            self.admission.cost.learn(pairs, seconds, len(self._running) + 1)

    def advance(self, now: float) -> None:
        """Begin the turns that are next, and end those that would be late.

        Turns of event loops that do not run are not counted: they may never end. Nor are turns
        whose call is gone.
        """
        woken: list[CallTurn] = []
        with self._lock:
            if len(self._running) >= self.admission.threads:
                self._running = [turn for turn in self._running if not turn.is_stopped]
            while (turn := self._next(now, woken)) is not None:
                self._begin(turn, now)
                woken.append(turn)
        for turn in woken:
            turn.wake()

    def _next(self, now: float, woken: list[CallTurn]) -> CallTurn | None:
        """Take the next turn out of those that wait; None if there is none, or it has to wait.

        Those that are found late are appended to ``woken``.
        """
        while self._waiting:
            turn = self._waiting[0][-1]
            if self._waits(turn):
                if len(self._running) >= self.admission.threads:
                    return None
                if self._plan(now, woken):
                    continue
                if not self._is_late(turn, now, woken):
                    heapq.heappop(self._waiting)
                    return turn
            heapq.heappop(self._waiting)
        return None

    def _plan(self, now: float, woken: list[CallTurn]) -> bool:
        """Sort those that wait by the present order, unless they are; return whether it did."""
        order = self.admission.order(now)
        if order is self._order:
            return False
        waiting = [
            (order.key(turn.claim, turn.rank), number, turn)
            for _, number, turn in self._waiting
            if self._waits(turn) and not self._is_late(turn, now, woken)
        ]
        heapq.heapify(waiting)
        self._waiting = waiting  # at once: an interruption must not lose the turns of others
        self._order = order
        return True

    def _waits(self, turn: CallTurn) -> bool:
        """Whether a turn still waits, and its call is not gone."""
        return turn.state == "waiting" and turn.reference() is not None

    def _is_late(self, turn: CallTurn, now: float, woken: list[CallTurn]) -> bool:
        if not self.admission.is_late(turn.claim, turn.rank, turn.pairs, now):
            return False
        turn.state = "late"
        woken.append(turn)
        return True

    def _begin(self, turn: CallTurn, now: float) -> None:
        admission = self.admission
        turn.together = len(self._running) + 1
        most = turn.pairs
        if not admission.cost.is_known:
            most = min(most, max(1, turn.first // turn.together))
        turn.pairs = admission.part(turn.claim, turn.rank, most, turn.together, now)
        turn.state, turn.began = "running", now
        turn.claim.begin(range(turn.rank, turn.rank + turn.pairs), now)
        admission.served()
        if not turn.is_stopped:
            self._running.append(turn)

    def end(
        self, turn: CallTurn, now: float, *, scored: bool = False, interrupted: bool = False
    ) -> None:
        """End a turn, or stop waiting for it; no effect if it has ended.

        Args:
            turn: it.
            now: the time.
            scored: whether the scorer has scored its pairs since ``turn.began``.
            interrupted: whether the scorer was called then, and takes longer than until now.
        """
        with self._lock:
            if turn.state == "running" and self._process == os.getpid():
                cost, seconds = self.admission.cost, now - turn.began
                if interrupted:
                    cost.learn_cut_off(turn.pairs, seconds)
                elif scored:
                    cost.learn(turn.pairs, seconds, turn.together)
            self._drop(turn)
        self.advance(now)


@dataclass(slots=True, eq=False)
class CallTurn:
    """The turn of one call."""

    claim: Claim
    rank: int  # of the first of its pairs
    pairs: int  # at most; those that it has once it is running
    first: int  # at most, if no call of the scorer has ended
    wake: Callable[[], None]  # called once, in any thread, when `state` has changed
    reference: Callable[[], object | None]  # a weak reference to the call
    loop: AbstractEventLoop | None = None
    thread: int | None = field(init=False)  # of a call that waits in its thread
    state: Literal["waiting", "running", "late", "ended"] = "waiting"
    """Late: the time does not suffice."""
    began: float = math.inf
    together: int = 1  # number of turns that ran when it began, with it

    def __post_init__(self) -> None:
        self.thread = get_ident() if self.loop is None else None

    @property
    def is_stopped(self) -> bool:
        """Whether its event loop does not run, or its call is gone."""
        return self.reference() is None or (self.loop is not None and not self.loop.is_running())


class Sharing:
    """The turns that one ranking takes of a scorer, and its claim, which all of them have.

    Args:
        scorer: it.
        pairs: number of pairs of the ranking.
        batch_size: maximum number of pairs per call; None for no maximum.
        first: maximum number of pairs as long as no call of the scorer has ended; of the second
            call that runs then it is a half, of the third one a third, and so on.
    """

    def __init__(self, scorer: object, pairs: int, batch_size: int | None, first: int) -> None:
        self.scorer, self.pairs = scorer, pairs
        self.batch_size, self.first = batch_size, first
        self.turns = turns_of(scorer)
        self.claim: Claim | None = None  # None until the first call
        self._refused: float | None = None  # seconds that it would have to wait
        self._turn: CallTurn | None = None  # the last one

    def most_together(self, seconds: float) -> int:
        """How many pairs of several rankings a call may have if they have these seconds left."""
        if self.batch_size is not None:
            return self.batch_size
        return max(self.first, self.turns.admission.most_together(seconds))

    def turn(
        self,
        claim: Callable[[], Claim],
        pairs: int,
        wake: Callable[[], None],
        reference: Callable[[], object | None],
        *,
        loop: AbstractEventLoop | None,
        now: float,
    ) -> CallTurn:
        """The turn of the next texts, at most ``pairs``, which is still to be taken.

        ``claim`` is called once; ``reference`` is a weak reference to the call.

        Raises:
            OverloadedError: the ranking is refused.
        """
        if self.claim is None:
            self.claim = claim()
            self.claim.reference = weakref.ref(self)
            if not self.turns.enter(self.claim, self.pairs, now):
                self._refused = self.turns.admission.waiting_seconds
        if self._refused is not None:
            raise OverloadedError(self._refused)
        rank = 0 if self._turn is None else self._turn.rank + self._turn.pairs
        self._turn = CallTurn(self.claim, rank, pairs, self.first, wake, reference, loop)
        return self._turn

    def end(self) -> None:
        """The ranking calls the scorer no more."""
        if self.claim is not None:
            self.turns.admission.leave(self.claim)


HELD: ContextVar[tuple[Turns, ...]] = ContextVar("secondpass_turns", default=())
"""The scorers' turns within which the current code runs."""

turns_of = PerObject(Turns).value
