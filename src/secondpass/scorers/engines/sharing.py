"""Engines that scorers with the same model and settings share, loaded once per process."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from secondpass.concurrency.lazy import ForkLock, Lazy

T = TypeVar("T")

_shared: WeakValueDictionary[Hashable, Lazy[Any]] = WeakValueDictionary()
_lock = ForkLock()


def shared(key: Hashable, create: Callable[[], T]) -> Lazy[T]:
    """The value for a key, everything that it depends on; the same while there is a reference.

    It is created again in a forked process, since threads of runtimes do not survive a fork.
    """
    with _lock:
        value = _shared.get(key)
        if value is None:
            value = _shared[key] = Lazy(create, per_process=True)
        return value
