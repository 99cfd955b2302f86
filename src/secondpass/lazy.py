"""Models that are loaded when they are first needed."""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from secondpass.errors import MissingExtraError, ModelLoadError

T = TypeVar("T")

_RETRY_AFTER = 60.0
"""Seconds. An unreachable hub must not cost every query its time-out, nor stay unreachable."""


class ForkLock:
    """A lock that a child process finds open, whatever its parent held at the fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            self._lock, self._process = threading.Lock(), os.getpid()
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


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
