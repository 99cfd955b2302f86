"""One background thread with an event loop, for clients that have to stay in one loop.

Asynchronous HTTP clients keep connections that belong to the loop they were opened in, so they
break in a second ``asyncio.run``. Here they live in a loop that lasts as long as the process.
Synchronous callers reach it from any thread, one that runs a loop of its own too; asynchronous
callers await what is done there. A child process gets a portal of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import queue
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from secondpass.concurrency.lazy import ForkLock

T = TypeVar("T")


class Portal:
    """A running event loop in a daemon thread."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="secondpass", daemon=True
        )
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether its thread still runs."""
        return self._thread.is_alive()

    @property
    def is_here(self) -> bool:
        """Whether this thread is the portal's own, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin ``work`` there, in the context of the caller. Cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do ``work`` there and wait for it here. Cancellation passes."""
        if asyncio.get_running_loop() is self.loop:
            return await work()
        return await asyncio.wrap_future(self.submit(work()))


class HomeLoop:
    """The event loop that a foreign asynchronous client lives in: the first that asks it.

    Such clients keep connections that belong to the loop they were opened in. They must not be
    awaited in the portal, which would become their home, nor in a second loop, which would break
    them; there their synchronous side is called in a thread.
    """

    def __init__(self) -> None:
        self._home: weakref.ref[asyncio.AbstractEventLoop] | None = None

    def is_here(self) -> bool:
        """Whether the client may be awaited in the loop that runs."""
        loop = asyncio.get_running_loop()
        if loop is portal().loop:
            return False
        home = self._home  # another thread may call leave() meanwhile
        if home is None:
            home = self._home = weakref.ref(loop)
        return home() is loop

    def leave(self) -> None:
        """The client was closed, so that the next loop that asks it becomes its home."""
        self._home = None

    def __reduce__(self) -> tuple[Any, ...]:
        return HomeLoop, ()


_lock = ForkLock()
_portal: Portal | None = None
_abandoned: list[Portal] = []
"""Portals of parent processes, and broken ones. They are kept because collecting one would close
its loop's files, which a child shares with its parent."""


def portal() -> Portal:
    """The portal of this process, opened if need be."""
    global _portal  # noqa: PLW0603 - one for the process is the point of it
    with _lock:
        if _portal is None or not _portal.is_open:
            if _portal is not None:
                _abandoned.append(_portal)
            _portal = Portal()
        return _portal


async def in_thread(call: Callable[[], T]) -> T:
    """Do ``call`` in a thread, which is left behind if this is cancelled.

    Unlike those of an executor, threads are never waited for, neither by a call in want of one nor
    by the end of the loop or the process.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = context.run(call)
        except BaseException as raised:
            # A loop ends by an exit that a task raises, and a future holds no StopIteration.
            plain = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            error = raised if plain else RuntimeError(type(raised).__name__)
        with contextlib.suppress(RuntimeError):  # the loop was closed, so nobody waits
            loop.call_soon_threadsafe(settle, value, error)

    _in_some_thread(work)
    return await future


_PARKED = 32
_parked: list[queue.SimpleQueue[Callable[[], None]]] = []
"""Where threads that have nothing to do wait for work. To start one holds the loop up until it
runs, which takes long where others compute."""


def _after_fork() -> None:
    """Forget what runs in threads of the parent: a child has none of them."""
    global _portal  # noqa: PLW0603
    if _portal is not None:
        _abandoned.append(_portal)
        _portal = None
    _parked.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _in_some_thread(work: Callable[[], None]) -> None:
    try:
        jobs = _parked.pop()
    except IndexError:
        jobs = queue.SimpleQueue()
        threading.Thread(target=_serve, args=[jobs], name="secondpass", daemon=True).start()
    jobs.put(work)


def _serve(jobs: queue.SimpleQueue[Callable[[], None]]) -> None:
    while True:
        jobs.get()()  # held by no name: it has the caller's context, and what that holds
        if len(_parked) >= _PARKED:
            return
        _parked.append(jobs)


async def within(work: Awaitable[T], seconds: float | None) -> T:
    """The result of ``work``, waited for no longer than that.

    Unlike ``asyncio.wait_for`` this does not wait for what it cancels.

    Raises:
        TimeoutError: it takes longer.
        RuntimeError: it was cancelled by something else.
    """
    task = asyncio.ensure_future(_harmless(work))
    # The caller may be cancelled at the moment at which the task fails.
    task.add_done_callback(retrieve_exception)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            raise TimeoutError
    finally:
        task.cancel()
    if task.cancelled():  # or the caller would believe that it was itself
        raise RuntimeError("cancelled")
    return task.result()


async def _harmless(work: Awaitable[T]) -> T:
    """``work``, but that an exit which it raises ends no loop that others use."""
    try:
        return await work
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as raised:
        raise RuntimeError(type(raised).__name__) from None


def retrieve_exception(future: asyncio.Future[Any]) -> None:
    """Mark the exception of a future as retrieved, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()
