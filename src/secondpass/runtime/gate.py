"""Limits how many questions are sent at once in each event loop."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from secondpass.errors import NestedCallError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task


class Gate:
    """Lets so many questions through at once, in each event loop."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._open: WeakKeyDictionary[AbstractEventLoop, Turns] = WeakKeyDictionary()

    def here(self) -> Turns:
        """The gate of the running loop."""
        import asyncio  # costs more to import than the rest of secondpass together

        # A semaphore at which somebody waited holds its loop, so these do not go by themselves.
        # keyrefs() copies the keys at once; other loops may add theirs meanwhile.
        for reference in self._open.keyrefs():
            loop = reference()
            if loop is not None and loop.is_closed():
                self._open.pop(loop, None)
        return self._open.setdefault(asyncio.get_running_loop(), Turns(self.width))


_held: ContextVar[tuple[object, ...]] = ContextVar("secondpass_turns", default=())
"""The turns that the current code runs under, those of outer rankings included."""


class Turns:
    """A semaphore that refuses a wait that cannot end.

    A model that calls the reranker which waits for its answer asks for a turn while it holds one.
    If every turn is held by a question that itself waits for such a call, none is ever released.

    Raises:
        NestedCallError: on entering, if it would wait for ever.
    """

    def __init__(self, width: int) -> None:
        import asyncio

        self._width = width
        self._semaphore = asyncio.Semaphore(width)
        self._holders: dict[Task[Any] | None, object] = {}
        self._blocked: list[object] = []
        """For each nested question that waits, the turns that cannot be released before it."""

    async def __aenter__(self) -> None:
        import asyncio

        outer = [turn for turn in _held.get() if turn in self._holders.values()]
        if self._semaphore.locked():
            blocked = {*self._blocked, *outer}
            full = len(self._holders) == self._width
            if outer and full and blocked.issuperset(self._holders.values()):
                raise NestedCallError(
                    "a model called the reranker that waits for its answer, and every turn "
                    f"(limits.concurrency: {self._width}) is taken by a question that waits for "
                    "such a call; let the model call another reranker"
                )
            self._blocked += outer
            try:
                await self._semaphore.acquire()
            finally:
                for turn in outer:
                    self._blocked.remove(turn)
        else:
            await self._semaphore.acquire()
        turn = object()
        self._holders[asyncio.current_task()] = turn
        _held.set((*_held.get(), turn))

    async def __aexit__(self, *_error: object) -> None:
        import asyncio

        turn = self._holders.pop(asyncio.current_task())
        _held.set(tuple(one for one in _held.get() if one is not turn))
        self._semaphore.release()
