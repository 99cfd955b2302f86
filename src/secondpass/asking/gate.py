"""Limits how many questions are sent at once in each event loop."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from secondpass.errors import NestedCallError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task


class Gate:
    """Lets ``width`` questions through at once in each event loop."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._slots: WeakKeyDictionary[AbstractEventLoop, Slots] = WeakKeyDictionary()

    def in_this_loop(self) -> Slots:
        """The slots of the running event loop."""
        import asyncio  # costs more to import than the rest of secondpass together

        # A semaphore with waiters references its loop, so closed loops are not garbage-collected.
        # keyrefs() copies the keys, because other threads may add loops meanwhile.
        for reference in self._slots.keyrefs():
            loop = reference()
            if loop is not None and loop.is_closed():
                self._slots.pop(loop, None)
        return self._slots.setdefault(asyncio.get_running_loop(), Slots(self.width))


_held: ContextVar[tuple[object, ...]] = ContextVar("secondpass_slots", default=())
"""The slots that the current code runs under, including those of outer rankings."""


class Slots:
    """A semaphore that raises an error instead of a deadlock.

    A model that calls the reranker which waits for its answer needs a second slot while it holds
    one. If every slot is held by a question that waits for such a call, none is ever released.

    Raises:
        NestedCallError: on entering, if the wait would never end.
    """

    def __init__(self, width: int) -> None:
        import asyncio

        self._width = width
        self._semaphore = asyncio.Semaphore(width)
        self._holders: dict[Task[Any] | None, object] = {}
        self._blocked: list[object] = []
        """For each waiting nested question, the slots that cannot be released before it ends."""

    async def __aenter__(self) -> None:
        import asyncio

        outer = [slot for slot in _held.get() if slot in self._holders.values()]
        if self._semaphore.locked():
            blocked = {*self._blocked, *outer}
            full = len(self._holders) == self._width
            if outer and full and blocked.issuperset(self._holders.values()):
                raise NestedCallError(
                    "a model called the reranker that waits for its answer, and every slot "
                    f"(limits.concurrency: {self._width}) is held by a question that waits for "
                    "such a call; let the model call another reranker"
                )
            self._blocked += outer
            try:
                await self._semaphore.acquire()
            finally:
                for slot in outer:
                    self._blocked.remove(slot)
        else:
            await self._semaphore.acquire()
        slot = object()
        self._holders[asyncio.current_task()] = slot
        _held.set((*_held.get(), slot))

    async def __aexit__(self, *_error: object) -> None:
        import asyncio

        released = self._holders.pop(asyncio.current_task())
        _held.set(tuple(slot for slot in _held.get() if slot is not released))
        self._semaphore.release()
