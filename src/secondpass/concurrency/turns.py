"""Turns of calls of a scorer that has no queue of its own, by :mod:`concurrency.admission`.

With a deadline or a target, a ranking calls such a scorer with a part of its texts at a time. Each
part waits for its turn, in the thread or event loop of its ranking.
"""

from __future__ import annotations

import math
import os
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from secondpass.concurrency.admission import Admission, Claim
from secondpass.concurrency.lazy import ForkLock
from secondpass.errors import OverloadedError

WIDTH = min(32, (os.cpu_count() or 1) + 4)
"""Calls of such a scorer that run at a time. More would only compete for the interpreter."""


class Turns:
    """The turns of one scorer."""

    def __init__(self, width: int = WIDTH) -> None:
        self.admission = Admission(width)
        self._lock = ForkLock(reentrant=True)
        self._running = 0
        self._waiting: list[Turn] = []
        self._process = os.getpid()

    @property
    def shared(self) -> bool:
        """Whether a ranking uses the scorer, so that another one has to share it."""
        return bool(self.admission.claims)

    def take(
        self, claim: Claim, rank: int, pairs: int, now: float, wake: Callable[[], None]
    ) -> Turn:
        """Ask for a turn; ``wake`` is called when it has begun, or is over, in any thread."""
        turn = Turn(claim, rank, pairs, wake)
        with self._lock:
            self._waiting.append(turn)
        self.advance(now)
        return turn

    def enter(self, claim: Claim, pairs: int, now: float) -> bool:
        """:meth:`Admission.enter`, one call at a time."""
        with self._lock:
            if self._process != os.getpid():  # the parent's rankings do not exist here
                self._process, self._running, self._waiting = os.getpid(), 0, []
                self.admission.claims.clear()
            return self.admission.enter(claim, pairs, now)

    def advance(self, now: float) -> None:
        """Begin the turns of those who are next, and end those of others who would be late."""
        woken = []
        with self._lock:
            admission = self.admission
            for turn in self._waiting:
                if turn.is_late(now, admission.seconds_per_pair):
                    turn.state = "late"
                    woken.append(turn)
            self._waiting = [turn for turn in self._waiting if turn.state == "waiting"]
            order = admission.order(now)
            self._waiting.sort(key=lambda turn: admission.key(turn.claim, turn.rank, order))
            while self._waiting and self._running < admission.threads:
                turn = self._waiting.pop(0)
                turn.state, turn.began = "running", now
                turn.claim.begin(range(turn.rank, turn.rank + turn.pairs), now)
                self._running += 1
                woken.append(turn)
        for turn in woken:
            turn.wake()

    def end(self, turn: Turn, now: float, *, scored: bool) -> None:
        """End a turn, or stop waiting for it."""
        with self._lock:
            if turn.state == "running" and self._process == os.getpid():
                self._running -= 1
                if scored:
                    self.admission.learn(turn.pairs, now - turn.began)
            turn.state = "ended"
            self._waiting = [other for other in self._waiting if other is not turn]
        self.advance(now)


class Turn:
    """The turn of one call.

    Args:
        claim: of the ranking.
        rank: of the first of its pairs.
        pairs: their number.
        wake: called once, when ``state`` has changed.

    Attributes:
        state: ``waiting``, ``running``, ``late`` (the time does not suffice), or ``ended``.
        began: when it began to run.
    """

    def __init__(self, claim: Claim, rank: int, pairs: int, wake: Callable[[], None]) -> None:
        self.claim, self.rank, self.pairs, self.wake = claim, rank, pairs, wake
        self.state = "waiting"
        self.began = math.inf

    def is_late(self, now: float, seconds_per_pair: float) -> bool:
        """Whether its pairs could not be scored in time.

        The first call of a ranking is tried, or a single slow call would prevent all further ones.
        """
        latest = self.claim.latest(self.rank)
        needed = self.pairs * seconds_per_pair if self.claim.begun else 0.0
        return now + needed >= latest


class Sharing:
    """What one ranking has of a scorer.

    Args:
        scorer: that is called.
        pairs: number of texts that the ranking scores.

    Attributes:
        claim: set with the first call.
        error: why the ranking was refused; None if it was not.
    """

    def __init__(self, scorer: object, pairs: int) -> None:
        self.scorer, self.pairs = scorer, pairs
        self.turns = turns_of(scorer)
        self.claim: Claim | None = None
        self.error: OverloadedError | None = None
        self._rank = 0

    def take(self, claim: Callable[[], Claim], pairs: int, wake: Callable[[], None]) -> Turn:
        """Ask for the turn of the next texts.

        Args:
            claim: returns that of the ranking; called once.
            pairs: number of texts.
            wake: as of :meth:`Turns.take`.

        Raises:
            OverloadedError: the ranking is refused.
        """
        now = time.monotonic()
        if self.claim is None and self.error is None:
            self.claim = claim()
            if not self.turns.enter(self.claim, self.pairs, now):
                self.error = OverloadedError(self.turns.admission.waiting_seconds)
        if self.error is not None:
            raise self.error
        assert self.claim is not None
        rank, self._rank = self._rank, self._rank + pairs
        return self.turns.take(self.claim, rank, pairs, now, wake)

    def end(self) -> None:
        """The ranking calls the scorer no more."""
        if self.claim is not None:
            self.turns.admission.leave(self.claim)


_turns: dict[int, tuple[Any, Turns]] = {}
_lock = ForkLock()


def _forget(key: int, _reference: object) -> None:
    _turns.pop(key, None)


def turns_of(scorer: object) -> Turns:
    """The turns of a scorer, the same as long as it exists."""
    with _lock:
        known = _turns.get(id(scorer))
        if known is not None and known[0]() is scorer:
            return known[1]
        turns = Turns()
        try:
            reference = weakref.ref(scorer, partial(_forget, id(scorer)))
        except TypeError:  # it cannot be referenced weakly: each ranking has turns of its own
            return turns
        _turns[id(scorer)] = (reference, turns)
        return turns
