"""Loads models and modules on first use, models safely across threads and forks."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from secondpass.concurrency.locks import fork_lock
from secondpass.errors import MissingExtraError, ModelLoadError

T = TypeVar("T")

_RETRY_AFTER = 60.0
"""Seconds before another attempt: an unreachable hub must not cost every query a timeout."""


class PerObject(Generic[T]):
    """A value for each object, the same as long as the object exists."""

    def __init__(self, create: Callable[[], T]) -> None:
        self._create = create
        self._values: dict[int, T] = {}
        self._lock = fork_lock()

    def value(self, owner: object) -> T:
        """The value of an object; a new one for each call if it cannot be referenced weakly."""
        with self._lock:
            if id(owner) not in self._values:
                value = self._create()
                try:
                    finalizer = weakref.finalize(owner, self._values.pop, id(owner), None)
                except TypeError:
                    return value
                finalizer.atexit = False
                self._values[id(owner)] = value
            return self._values[id(owner)]


class LoadingTime:
    """The seconds that the calls of one ranking have waited until a :class:`Lazy` had its value."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._since: float | None = None  # the begin of a load that has not ended

    @property
    def running(self) -> float | None:
        """Seconds since the begin of the load that is running; None if none is."""
        since = self._since
        return None if since is None else time.monotonic() - since

    @property
    def seconds(self) -> float:
        """Seconds of all loads, until now if one is running."""
        return self._seconds + (self.running or 0.0)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the time of the block, unless it is within another one."""
        if self._since is not None:
            yield
            return
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._seconds, self._since = self.seconds, None


LOADING: ContextVar[Sequence[LoadingTime]] = ContextVar("loading", default=())
"""Where the time of loads is counted: of each ranking that the running call is for."""


@contextmanager
def _counted() -> Iterator[None]:
    with ExitStack() as stack:
        for time_ in LOADING.get():
            stack.enter_context(time_.counted())
        yield


class Lazy(Generic[T]):
    """A value that is created on first use, once for all threads.

    The function that creates it is passed with each use and not kept: a method of the object that
    has the value would make a cycle, so that a model would live on until a full garbage collection.

    A ModelLoadError is raised again for a minute before the next attempt, and one that is final
    until :meth:`retry`. With ``per_process``, a forked child creates its own value, because threads
    of the parent's do not exist there.
    """

    def __init__(self, *, per_process: bool = False) -> None:
        self._process = os.getpid() if per_process else None
        self._lock = fork_lock()
        self._value: T | None = None
        self._failure: tuple[float, ModelLoadError] | None = None

    def get(self, create: Callable[[], T]) -> T:
        """The value, created if necessary."""
        self._renew_after_fork()
        value = self._value
        if value is not None:
            return value
        with _counted(), self._lock:
            if self._value is not None:
                return self._value
            if self._failure is not None:
                failed_at, error = self._failure
                if error.is_final or time.monotonic() - failed_at < _RETRY_AFTER:
                    raise copy.copy(error)
            try:
                self._value = create()
            except ModelLoadError as failure:
                # A copy has no traceback, whose frames would keep a partly loaded model alive. Nor
                # is it raised itself, but copies of it.
                self._failure = (time.monotonic(), copy.copy(failure))
                raise
            self._failure = None
            return self._value

    @property
    def loaded(self) -> T | None:
        """The value if it was created already, else None."""
        self._renew_after_fork()
        return self._value

    def retry(self, create: Callable[[], T]) -> T:
        """Like :meth:`get`, but tries again after a failure."""
        with self._lock:
            self._failure = None
        return self.get(create)

    def _renew_after_fork(self) -> None:
        """Forget the parent's value, whose threads do not exist here."""
        if self._process is None or self._process == os.getpid():
            return
        with self._lock:
            if self._process != os.getpid():
                self._value = None
                self._process = os.getpid()

    def clear(self) -> None:
        """Forget the value; the next :meth:`get` creates it again."""
        self._renew_after_fork()
        with self._lock:
            self._value = None
            self._failure = None


def public_names(
    package: str, check: Callable[[str], None] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose module ``public`` has its public names.

    That module is imported when the first of them is used. A module of the package is no such name:
    ``from package import module`` asks for it first, and imports it then.

    Args:
        package: its name.
        check: called with it before the import; raises if something is not installed.
    """

    def get(name: str) -> Any:
        unknown = AttributeError(f"module {package!r} has no attribute {name!r}")
        is_private = name.startswith("_") and name != "__all__"
        if is_private or importlib.util.find_spec(f"{package}.{name}"):
            raise unknown
        if check is not None:
            check(package)
        try:
            return getattr(importlib.import_module(f"{package}.public"), name)
        except AttributeError:
            raise unknown from None

    return get, lambda: list(get("__all__"))


_runs_nothing = ContextVar("runs_nothing", default=False)


@contextmanager
def running_nothing() -> Iterator[None]:
    """In this block, :func:`require` passes, for what is created but never run."""
    token = _runs_nothing.set(True)
    try:
        yield
    finally:
        _runs_nothing.reset(token)


def require(modules: Sequence[str], extra: str, needed_for: str) -> None:
    """Raise MissingExtraError if a module is not installed; it imports none."""
    if not _runs_nothing.get() and not all(map(is_installed, modules)):
        raise MissingExtraError(extra, needed_for)


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
