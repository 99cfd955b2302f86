"""Limits how many questions are sent at once, and how many threads an event loop waits for."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from secondpass.concurrency.lazy import ForkLock
from secondpass.errors import NestedCallError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future


class Gate:
    """Lets ``width`` calls through at once: of the process, or of each event loop.

    Attributes:
        slots: those of all event loops.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.slots = Slots(width)
        self._slots: WeakKeyDictionary[AbstractEventLoop, Slots] = WeakKeyDictionary()

    def in_this_loop(self) -> Slots:
        """The slots of the running event loop."""
        import asyncio  # costs more to import than the rest of secondpass together

        # keyrefs() copies the keys, because other threads may add loops meanwhile.
        for reference in self._slots.keyrefs():
            loop = reference()
            if loop is not None and loop.is_closed():
                self._slots.pop(loop, None)
        return self._slots.setdefault(asyncio.get_running_loop(), Slots(self.width))


_held: ContextVar[tuple[object, ...]] = ContextVar("secondpass_slots", default=())
"""The slots that the current code runs under, including those of outer rankings."""


class Slots:
    """Slots of all event loops, taken by the ranking that has the fewest.

    Of several, it is the one that was served least recently. A model that calls the reranker which
    waits for its answer needs a second slot while it holds one. If every slot is held by a question
    that waits for such a call, none is ever released.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._lock = ForkLock(reentrant=True)
        self._process = os.getpid()
        self._holders: dict[object, object] = {}
        """Slots, with the ranking of each."""
        self._blocked: list[object] = []
        """For each waiting nested question, the slots that cannot be released before it ends."""
        self._waiting: list[_Waiting] = []
        self._served: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._count = 0

    @asynccontextmanager
    async def taken(self, ranking: object = None) -> AsyncIterator[None]:
        """Hold a slot.

        Args:
            ranking: that the question is part of; None counts as one.

        Raises:
            NestedCallError: the wait would never end.
        """
        slot = await self._take(ranking)
        _held.set((*_held.get(), slot))
        try:
            yield
        finally:
            _held.set(tuple(other for other in _held.get() if other is not slot))
            with self._lock:
                self._holders.pop(slot, None)
                self._serve()

    async def _take(self, ranking: object) -> object:
        import asyncio

        slot = object()
        with self._lock:
            if self._process != os.getpid():  # those who held slots do not exist here
                self._process = os.getpid()
                self._holders, self._blocked, self._waiting = {}, [], []
            outer = [held for held in _held.get() if held in self._holders]
            if len(self._holders) < self._width and not self._waiting:
                self._hold(slot, ranking)
                return slot
            blocked = {*self._blocked, *outer}
            full = len(self._holders) == self._width
            if outer and full and blocked.issuperset(self._holders):
                raise NestedCallError(
                    "a model called the reranker that waits for its answer, and every slot "
                    f"(limits.concurrency: {self._width}) is held by a question that waits for "
                    "such a call; let the model call another reranker"
                )
            self._blocked += outer
            loop = asyncio.get_running_loop()
            waiting = _Waiting(slot, ranking, loop, loop.create_future())
            self._waiting.append(waiting)
        try:
            await waiting.future
        except BaseException:
            with self._lock:
                self._waiting = [other for other in self._waiting if other is not waiting]
                self._holders.pop(slot, None)
                self._serve()
            raise
        finally:
            with self._lock:
                for held in outer:
                    if held in self._blocked:
                        self._blocked.remove(held)
        return slot

    def _hold(self, slot: object, ranking: object) -> None:
        self._holders[slot] = ranking
        if ranking is not None:
            self._count += 1
            self._served[ranking] = self._count

    def _serve(self) -> None:
        """Give free slots to those who wait."""
        while self._waiting and len(self._holders) < self._width:
            rankings = list(self._holders.values())

            def turn(waiting: _Waiting, rankings: list[object] = rankings) -> tuple[int, int]:
                held = sum(ranking is waiting.ranking for ranking in rankings)
                served = 0 if waiting.ranking is None else self._served.get(waiting.ranking, 0)
                return held, served

            waiting = min(self._waiting, key=turn)
            self._waiting = [other for other in self._waiting if other is not waiting]
            try:
                waiting.loop.call_soon_threadsafe(waiting.wake)
            except RuntimeError:  # its loop is closed
                continue
            self._hold(waiting.slot, waiting.ranking)


class _Waiting:
    """A question that waits for a slot in its event loop."""

    def __init__(
        self, slot: object, ranking: object, loop: AbstractEventLoop, future: Future[None]
    ) -> None:
        self.slot, self.ranking, self.loop, self.future = slot, ranking, loop, future

    def wake(self) -> None:
        """Let it go on, unless it was cancelled."""
        if not self.future.done():
            self.future.set_result(None)
