"""One background thread with an event loop, for clients that must stay in one loop.

Connections of asynchronous HTTP clients belong to the loop in which they were opened, so they break
in a second ``asyncio.run``. The portal's loop lasts as long as the process. Synchronous callers use
it from any thread, even one with a running loop; asynchronous callers await work that is done
there. A forked child opens its own portal.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from secondpass.concurrency.lazy import ForkLock
from secondpass.concurrency.threads import running_loop

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
        """Whether the portal's thread is running."""
        return self._thread.is_alive()

    @property
    def is_here(self) -> bool:
        """Whether the current thread is the portal's, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start ``work`` in the portal, in the caller's context; its future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` in the portal and await it here. Cancelling the caller cancels the work."""
        if running_loop() is self.loop:
            return await work()
        return await asyncio.wrap_future(self.submit(work()))


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


_lock = ForkLock()
_portal: Portal | None = None
_opened: list[Portal] = []
"""Also those of parent processes. Collecting one would close its loop's files, which a child shares
with its parent."""


def portal() -> Portal:
    """The portal of this process, opened on first use."""
    global _portal  # noqa: PLW0603 - one per process
    with _lock:
        if _portal is None or not _portal.is_open:
            _portal = Portal()
            _opened.append(_portal)
        return _portal


def _abandon_in_child() -> None:
    """Forget the parent's portal, whose thread does not exist in a child."""
    global _portal  # noqa: PLW0603
    _portal = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_in_child)
