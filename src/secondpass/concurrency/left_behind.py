"""Abandoned calls in daemon threads, which the process waits for a moment before it exits.

Python ends a daemon thread when it returns from a model's C++ code after the interpreter has shut
down. Within torch, onnxruntime and openvino this aborts the process (SIGABRT).
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_SECONDS_AT_EXIT = 3.0
"""Enough for a batch in progress."""

_left: set[Call[Any]] = set()
_modules = 0
"""Number of loaded modules when the exit function was registered."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_left.clear)  # threads do not survive a fork


class Call(Generic[T]):
    """A function that a thread calls once, and that its caller may abandon."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._ended = threading.Event()
        self._process = os.getpid()

    def __call__(self) -> T:
        # The caller may be a daemon thread, and the process may end while it waits.
        self.leave()
        try:
            return self._function()
        finally:
            self._ended.set()
            _left.discard(self)

    def ended(self, within: float = 0.0) -> bool:
        """Whether the call has ended, after waiting up to ``within`` seconds.

        A call of a parent process has ended: threads do not survive a fork.
        """
        return self._process != os.getpid() or self._ended.wait(within)

    def leave(self) -> None:
        """Let the process wait for this call before it exits; no effect if it has ended."""
        _left.add(self)
        if self._ended.is_set():
            _left.discard(self)
            return
        _register()


def _register() -> None:
    """Register the exit function, again only if a module was imported since.

    Exit functions run in reverse order, and this one has to run before those that the models'
    libraries register on import. Registering it again takes time and memory: Python up to 3.13
    keeps the place of every unregistered function.
    """
    global _modules  # noqa: PLW0603
    if len(sys.modules) != _modules:
        _modules = len(sys.modules)
        atexit.unregister(_wait_at_exit)
        atexit.register(_wait_at_exit)


def _wait_at_exit() -> None:
    until = time.monotonic() + _SECONDS_AT_EXIT
    for call in list(_left):
        call._ended.wait(max(0.0, until - time.monotonic()))
