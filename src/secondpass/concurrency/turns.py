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
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Literal

from secondpass.concurrency.admission import Admission, Claim
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
        self.admission = Admission(width)
        self._lock = fork_lock()
        self._running: list[Turn] = []
        self._waiting: list[Turn] = []
        self._process = os.getpid()

    @property
    def shared(self) -> bool:
        """Whether a ranking uses the scorer, so that another one has to share it."""
        return bool(self.admission.present)

    def take(self, turn: Turn, now: float) -> None:
        """Begin a turn, now or when it is next.

        Its thread is in no other turn of this scorer, so one that is still counted for it was not
        ended: an exception of a signal handler may come at any line.
        """
        with self._lock:
            if turn.thread is not None:
                self._running = [one for one in self._running if one.thread != turn.thread]
                self._waiting = [one for one in self._waiting if one.thread != turn.thread]
            self._waiting.append(turn)
        self.advance(now)

    def enter(self, claim: Claim, pairs: int, now: float) -> bool:
        """:meth:`Admission.enter`, one call at a time."""
        with self._lock:
            if self._process != os.getpid():  # the parent's rankings do not exist here
                self._process, self._running, self._waiting = os.getpid(), [], []
                self.admission.claims.clear()
            return self.admission.enter(claim, pairs, now)

    def advance(self, now: float) -> None:
        """Begin the turns of those who are next, and end those of others who would be late.

        Turns of event loops that do not run are not counted: they may never end. Nor are those
        whose call is gone.
        """
        woken = []
        with self._lock:
            admission = self.admission
            if len(self._running) >= admission.threads:
                self._running = [turn for turn in self._running if not turn.is_stopped]
            for turn in self._waiting:
                if turn.is_late(now, admission.seconds_per_pair):
                    turn.state = "late"
                    woken.append(turn)
            self._waiting = [
                turn for turn in self._waiting if turn.state == "waiting" and turn.call()
            ]
            key = admission.key(now)
            self._waiting.sort(key=lambda turn: key(turn.claim, turn.rank))
            while self._waiting and len(self._running) < admission.threads:
                turn = self._waiting.pop(0)
                if turn.state != "waiting":  # garbage collection has ended others meanwhile
                    continue
                turn.state, turn.began = "running", now
                turn.claim.begin(range(turn.rank, turn.rank + turn.pairs), now)
                if not turn.is_stopped:
                    self._running.append(turn)
                woken.append(turn)
        for turn in woken:
            turn.wake()

    def end(self, turn: Turn, now: float, *, scored: bool) -> None:
        """End a turn, or stop waiting for it.

        ``scored`` says whether the scorer was called, since ``turn.began``, and scored its pairs or
        was interrupted.
        """
        with self._lock:
            if turn.state == "running" and self._process == os.getpid() and scored:
                self.admission.learn(turn.pairs, now - turn.began)
            turn.state = "ended"
            self._running = [other for other in self._running if other is not turn]
            self._waiting = [other for other in self._waiting if other is not turn]
        self.advance(now)


@dataclass(slots=True, eq=False)
class Turn:
    """The turn of one call."""

    claim: Claim
    rank: int  # of the first of its pairs
    pairs: int
    wake: Callable[[], None]  # called once, in any thread, when `state` has changed
    call: Callable[[], object | None]  # returns None as soon as nothing refers to the call
    loop: AbstractEventLoop | None = None
    thread: int | None = field(init=False)  # of a call that waits in its thread
    state: Literal["waiting", "running", "late", "ended"] = "waiting"
    """Late: the time does not suffice."""
    began: float = math.inf

    def __post_init__(self) -> None:
        self.thread = get_ident() if self.loop is None else None

    @property
    def is_stopped(self) -> bool:
        """Whether its event loop does not run, or its call is gone."""
        return self.call() is None or (self.loop is not None and not self.loop.is_running())

    def is_late(self, now: float, seconds_per_pair: float) -> bool:
        """Whether its pairs could not be scored in time.

        The first call of a ranking is tried, or a single slow call would prevent all further ones.
        """
        latest = self.claim.latest(self.rank)
        needed = self.pairs * seconds_per_pair if self.claim.begun else 0.0
        return now + needed >= latest


class Sharing:
    """What one ranking, which scores a number of pairs, has of a scorer."""

    def __init__(self, scorer: object, pairs: int) -> None:
        self.scorer, self.pairs = scorer, pairs
        self.turns = turns_of(scorer)
        self.claim: Claim | None = None  # until the first call
        self._refused: float | None = None  # seconds that it would have to wait
        self._rank = 0

    def claimed(self, claim: Callable[[], Claim], pairs: int) -> tuple[Claim, int]:
        """The claim of the ranking and the rank of its next pairs; ``claim`` is called once.

        Raises:
            OverloadedError: the ranking is refused.
        """
        if self.claim is None:
            self.claim = claim()
            self.claim.holder = weakref.ref(self)
            if not self.turns.enter(self.claim, self.pairs, time.monotonic()):
                self._refused = self.turns.admission.waiting_seconds
        if self._refused is not None:
            raise OverloadedError(self._refused)
        rank, self._rank = self._rank, self._rank + pairs
        return self.claim, rank

    def end(self) -> None:
        """The ranking calls the scorer no more."""
        if self.claim is not None:
            self.turns.admission.leave(self.claim)


HELD: ContextVar[tuple[Turns, ...]] = ContextVar("secondpass_turns", default=())
"""Those of which the current code runs in a turn."""

turns_of = PerObject(Turns).value
