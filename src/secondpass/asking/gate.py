"""Limits how many questions are sent at once, and in how many threads scorers are called."""

from __future__ import annotations

import heapq
import os
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from secondpass.concurrency.locks import fork_lock
from secondpass.errors import NestedCallError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future


_CHECK = 1.0
"""Seconds between checks of a waiting question whether the event loops of the others run."""


class _Slot:
    """The place of one call."""


_Line: TypeAlias = "tuple[object, AbstractEventLoop]"
"""A ranking, or None, and the event loop of its calls."""


_held: ContextVar[tuple[_Slot, ...]] = ContextVar("secondpass_slots", default=())
"""The slots that the current code runs under, including those of outer rankings."""


class Gate:
    """Lets ``width`` calls through at once, of all event loops: questions, or calls of scorers.

    Each holds a slot. What one that comes gets:

        a slot is free, and no other waits    the slot, at once
        all are held, or others wait          a slot in its turn
        all are held, and none can be         NestedCallError
          released before it has ended

    It is the turn of the ranking that has the fewest slots; of several, of the one that was served
    least recently. A model that calls the reranker which waits for its answer needs a second slot
    while it holds one. If every slot is held by a question that waits for such a call, none is ever
    released.

    A slot of an event loop that does not run is given to others, as it may never be released. So is
    one that nothing refers to: an exception of a signal handler may come before its release.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._lock = fork_lock()
        self._process = os.getpid()
        self._holders: WeakKeyDictionary[_Slot, _Line] = WeakKeyDictionary()
        """Slots, with the ranking and the event loop of each."""
        self._blocked: list[_Slot] = []
        """For each waiting nested question, the slots that cannot be released before it ends."""
        self._lines: dict[_Line, dict[_Slot, _Waiting]] = {}
        """Those who wait of each ranking in its event loop, the first who came first."""
        self._turns: list[tuple[int, int, int, _Line]] = []
        """A heap of :meth:`_turn` of these lines. What has changed since is found when a line comes
        first; as each release adds a turn, it comes no later than it should."""
        self._served: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        """When each ranking was served, as a count of all."""
        self._count = 0
        self._added = 0  # number of turns, which breaks ties

    def taken(self, ranking: object = None) -> _Taken:
        """Holds a slot for a call of a ranking; a NestedCallError if it would never get one."""
        return _Taken(self, ranking)

    def release(self, slot: _Slot) -> None:
        """Give a slot to the next who waits."""
        with self._lock:
            self._free(slot)
            self._serve()

    async def take(self, ranking: object) -> _Slot:
        """Return a slot, as soon as it is the ranking's turn."""
        import asyncio

        slot, loop = _Slot(), asyncio.get_running_loop()
        with self._lock:
            self._forget_parent()
            self._drop_stopped()
            if len(self._holders) < self.width and not self._lines:
                self._hold(slot, (ranking, loop))
                return slot
            outer = [held for held in _held.get() if held in self._holders]
            self._check_releasable(outer)
            self._blocked += outer
            waiting = _Waiting(slot, (ranking, loop), loop.create_future())
            self._lines.setdefault(waiting.line, {})[slot] = waiting
            self._add_turn(waiting.line)
            self._serve()
        try:
            while not waiting.future.done():
                await asyncio.wait([waiting.future], timeout=_CHECK)
                with self._lock:
                    self._drop_stopped()
                    self._serve()
        except BaseException:
            with self._lock:
                self._stop_waiting(waiting)
                self._free(slot)
                self._serve()
            raise
        finally:
            with self._lock:
                for held in outer:
                    if held in self._blocked:
                        self._blocked.remove(held)
        return slot

    def _forget_parent(self) -> None:
        """In a forked child, forget who held slots or waited for them: they do not exist here."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._holders, self._blocked = WeakKeyDictionary(), []
            self._lines, self._turns = {}, []

    def _drop_stopped(self) -> None:
        """Forget the slots of event loops that do not run, if others may need them."""
        if len(self._holders) >= self.width:
            for slot, (_, loop) in list(self._holders.items()):
                if not loop.is_running():
                    self._free(slot)

    def _check_releasable(self, outer: list[_Slot]) -> None:
        """Check that a slot may be released before a nested question ends.

        ``outer`` are the slots that the question runs under; it is nested if there is one.

        Raises:
            NestedCallError: all slots are held by questions that wait for nested ones.
        """
        if not outer or len(self._holders) != self.width:
            return
        if {*self._blocked, *outer}.issuperset(self._holders):
            raise NestedCallError(
                "a model called the reranker that waits for its answer, and every slot "
                f"(limits.concurrency: {self.width}) is held by a question that waits for "
                "such a call; let the model call another reranker"
            )

    def _hold(self, slot: _Slot, line: _Line) -> None:
        self._holders[slot] = line
        ranking, _ = line
        if ranking is not None:
            self._count += 1
            self._served[ranking] = self._count

    def _free(self, slot: _Slot) -> None:
        """Forget a slot, which may make it the turn of its ranking."""
        if (line := self._holders.pop(slot, None)) in self._lines:
            self._add_turn(line)

    def _stop_waiting(self, waiting: _Waiting) -> None:
        line = self._lines.get(waiting.line, {})
        line.pop(waiting.slot, None)
        if not line:
            self._lines.pop(waiting.line, None)

    def _serve(self) -> None:
        """Give the free slots to those who wait, in their turn."""
        stopped = []  # turns of those whose loop does not run
        while self._turns and len(self._holders) < self.width:
            turn = heapq.heappop(self._turns)
            line = turn[-1]
            if line not in self._lines:
                continue
            if turn[:2] != self._turn(line):  # it was served, or has fewer slots, since then
                self._add_turn(line)
                continue
            _, loop = line
            waiting = next(iter(self._lines[line].values()))
            if not loop.is_running() and not loop.is_closed():
                stopped.append(turn)  # those of loops that run again look for themselves
                continue
            self._stop_waiting(waiting)
            try:
                loop.call_soon_threadsafe(waiting.wake)
            except RuntimeError:  # its loop is closed
                pass
            else:
                self._hold(waiting.slot, line)
            if line in self._lines:
                self._add_turn(line)
        for turn in stopped:
            heapq.heappush(self._turns, turn)
        if not self._lines:
            self._turns.clear()

    def _add_turn(self, line: _Line) -> None:
        self._added += 1
        heapq.heappush(self._turns, (*self._turn(line), self._added, line))

    def _turn(self, line: _Line) -> tuple[int, int]:
        """How many slots a ranking has, and when it was served. The one with the fewest is next."""
        ranking, _ = line
        slots = [other for other, _ in self._holders.values() if other is ranking]
        served = 0 if ranking is None else self._served.get(ranking, 0)
        return len(slots), served


class _Taken:
    """The result of :meth:`Gate.taken`.

    A class, because each call has one and a decorated generator is slower.
    """

    def __init__(self, gate: Gate, ranking: object) -> None:
        self._gate, self._ranking = gate, ranking
        self._slot: _Slot

    async def __aenter__(self) -> None:
        self._slot = await self._gate.take(self._ranking)
        _held.set((*_held.get(), self._slot))

    async def __aexit__(self, *_error: object) -> None:
        _held.set(tuple(other for other in _held.get() if other is not self._slot))
        self._gate.release(self._slot)


class _Waiting(NamedTuple):
    """A question that waits for a slot in its event loop."""

    slot: _Slot
    line: _Line
    future: Future[None]

    def wake(self) -> None:
        """Let it go on, unless it was cancelled."""
        if not self.future.done():
            self.future.set_result(None)


class LoopGates:
    """A gate of this width for each event loop."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._gates: WeakKeyDictionary[AbstractEventLoop, Gate] = WeakKeyDictionary()

    def in_this_loop(self) -> Gate:
        """The gate of the running event loop."""
        import asyncio  # costs more to import than the rest of secondpass together

        running = asyncio.get_running_loop()
        if (gate := self._gates.get(running)) is not None:
            return gate
        # keyrefs() copies the keys, because other threads may add loops meanwhile.
        for reference in self._gates.keyrefs():
            loop = reference()
            if loop is not None and loop.is_closed():
                self._gates.pop(loop, None)
        return self._gates.setdefault(running, Gate(self.width))
