"""Models that are loaded when they are first needed."""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar
from weakref import WeakSet

from secondpass.errors import MissingExtraError, ModelLoadError

T = TypeVar("T")

_RETRY_AFTER = 60.0
"""Seconds. An unreachable hub must not cost every query its time-out, nor stay unreachable."""


class ForkLock:
    """A lock that is free in a forked child, unless the thread that forked holds it there too.

    What it guards must be consistent at every moment: a child may be forked while another thread
    holds the lock, and that thread does not exist in the child.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        _fork_locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *_error: object) -> None:
        self._owner = None
        self._lock.release()

    def _renew(self) -> None:
        """Replace the lock in a child, before any other thread runs there."""
        self._lock = threading.Lock()
        if self._owner == threading.get_ident():
            self._lock.acquire()
        else:
            self._owner = None


_fork_locks: WeakSet[ForkLock] = WeakSet()


def _renew_fork_locks() -> None:
    for lock in _fork_locks:
        lock._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_fork_locks)


class Lazy(Generic[T]):
    """A value that is made once, by whichever thread comes first.

    Args:
        make: makes it. A ModelLoadError is remembered for a minute and raised again meanwhile.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = ForkLock()
        self._value: T | None = None
        self._failure: tuple[float, ModelLoadError] | None = None

    def get(self) -> T:
        """The value, made if need be.

        Raises:
            ModelLoadError: it cannot be made, or could not less than a minute ago.
        """
        value = self._value
        if value is not None:
            return value
        with self._lock:
            if self._value is not None:
                return self._value
            if self._failure is not None and time.monotonic() - self._failure[0] < _RETRY_AFTER:
                raise self._failure[1].with_traceback(None)
            try:
                self._value = self._make()
            except ModelLoadError as error:
                self._failure = (time.monotonic(), error)
                raise
            self._failure = None
            return self._value

    def retry(self) -> T:
        """:meth:`get`, but without regard to an earlier failure."""
        with self._lock:
            self._failure = None
        return self.get()

    def clear(self) -> None:
        """Forget the value; the next :meth:`get` makes it anew."""
        with self._lock:
            self._value = None
            self._failure = None


def require(modules: Sequence[str], extra: str, needed_for: str) -> None:
    """Check that modules can be imported, without importing them.

    Raises:
        MissingExtraError: one of them is not there.
    """
    for module in modules:
        try:
            found = importlib.util.find_spec(module) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            raise MissingExtraError(extra, needed_for)
