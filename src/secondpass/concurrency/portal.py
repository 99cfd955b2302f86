"""One background thread with an event loop, for clients that must stay in one loop.

Connections of asynchronous HTTP clients belong to the loop in which they were opened, so they break
in a second ``asyncio.run``. The portal's loop lasts as long as the process. Synchronous callers use
it from any thread, even one with a running loop; asynchronous callers await work that is done
there. A forked child opens its own portal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from secondpass.concurrency.locks import fork_lock
from secondpass.concurrency.threads import running_loop
from secondpass.concurrency.waiting import BackgroundThread, received

T = TypeVar("T")


class Work(Generic[T]):
    """Work for the portal's event loop, and its outcome.

    Args:
        loop: the portal's.
        create: called in the loop, in the context of :meth:`start`; what it returns is awaited.
        done: called in the loop with this object when there is an outcome.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        create: Callable[[], Coroutine[Any, Any, T]],
        done: Callable[[Work[T]], object],
    ) -> None:
        self._loop, self._create, self._done = loop, create, done
        self._task: asyncio.Task[T] | None = None  # while it runs, and in the loop only
        self._cancelled = False
        self._returned: list[T] = []
        self._raised: BaseException | None = None

    def start(self) -> None:
        self._loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> None:
        """Cancel the work; no effect if it has ended."""
        self._cancelled = True
        self._loop.call_soon_threadsafe(self._cancel)

    def result(self) -> T:
        """The outcome, once there is one. To be asked once.

        Raises:
            CancelledError: the work was cancelled.
            BaseException: raised by the work.
        """
        error, self._raised = self._raised, None
        if error is None:
            return self._returned[0]
        try:
            raise error
        finally:
            del error  # its traceback has this frame

    # ------------------------------------------------------------------ in the loop

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._end)
        self._cancel()

    async def _run(self) -> T:
        return await self._create()

    def _cancel(self) -> None:
        if self._cancelled and self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._raised = CancelledError()  # not that of asyncio: the caller was not cancelled
        elif (error := task.exception()) is not None:
            self._raised = error
        else:
            self._returned.append(task.result())
        self._task = None
        self._done(self)


class Portal:
    """A running event loop in a daemon thread."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.has_ended = False
        self._thread_id: int | None = None
        self._service = BackgroundThread(self._run)

    def open(self) -> None:
        """Start the thread, unless that was done."""
        self._service.start()

    def _run(self) -> None:
        self._thread_id = threading.get_ident()
        try:
            self.loop.run_forever()
        finally:
            self.has_ended = True

    @property
    def is_here(self) -> bool:
        """Whether the current thread is the portal's, which must not wait for itself."""
        return threading.get_ident() == self._thread_id

    def work(
        self,
        create: Callable[[], Coroutine[Any, Any, T]],
        done: Callable[[Work[T]], object] = lambda _work: None,
    ) -> Work[T]:
        """Work for the portal, which is not started yet; ``done`` is called in its thread."""
        return Work(self.loop, create, done)

    def run(self, create: Callable[[], Coroutine[Any, Any, T]], seconds: float | None = None) -> T:
        """Run work in the portal, and wait for it here; after an interruption, it goes on.

        Raises:
            TimeoutError: it takes longer than that many seconds.
        """
        done: SimpleQueue[Work[T]] = SimpleQueue()
        self.work(create, done.put).start()
        try:
            work = received(done, seconds)
        except Empty:
            raise TimeoutError from None
        return work.result()

    async def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` in the portal and await it here. Cancelling the caller cancels the work."""
        here = running_loop()
        if here is self.loop:
            return await work()
        done = asyncio.Event()

        def wake(_work: Work[T]) -> None:
            with contextlib.suppress(RuntimeError):  # the caller's loop is closed
                here.call_soon_threadsafe(done.set)

        there = self.work(work, wake)
        there.start()
        try:
            await done.wait()
        except asyncio.CancelledError:
            there.cancel()
            raise
        return there.result()


class HomeLoop:
    """The event loop of a foreign asynchronous client: that of its first caller.

    Connections of such a client belong to the loop in which they were opened. The client must not
    be awaited in the portal, which would become its loop, nor in a second loop, which would break
    it; there its synchronous methods are called in a thread.
    """

    def __init__(self) -> None:
        self._home: weakref.ref[asyncio.AbstractEventLoop] | None = None

    def is_here(self) -> bool:
        """Whether the client may be awaited in the running loop."""
        loop = asyncio.get_running_loop()
        if loop is portal().loop:
            return False
        home = self._home  # another thread may call leave() meanwhile
        if home is None:
            home = self._home = weakref.ref(loop)
        return home() is loop

    def leave(self) -> None:
        """Unbind the client after it was closed; the next loop to ask becomes its home."""
        self._home = None

    def __reduce__(self) -> tuple[Any, ...]:
        return HomeLoop, ()


_lock = fork_lock()
_portal: Portal | None = None
_opened: list[Portal] = []
"""Also those of parent processes. Collecting one would close its loop's files, which a child shares
with its parent."""


def portal() -> Portal:
    """The portal of this process, opened on first use."""
    global _portal  # noqa: PLW0603 - one per process
    with _lock:
        if _portal is None or _portal.has_ended:
            new = Portal()
            _opened.append(new)
            _portal = new
        _portal.open()
        return _portal


def _abandon_in_child() -> None:
    """Forget the parent's portal, whose thread does not exist in a child."""
    global _portal  # noqa: PLW0603
    _portal = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_in_child)
