"""Engines that scorers with the same model and settings share, loaded once per process."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from secondpass.concurrency.lazy import ForkLock, Lazy

T = TypeVar("T")


class Shared(Generic[T]):
    """A value that is created on first use and used by all holders of this object."""

    def __init__(self, create: Callable[[], T]) -> None:
        self.value = Lazy(create, per_process=True)


_shared: WeakValueDictionary[Hashable, Shared[object]] = WeakValueDictionary()
_lock = ForkLock()


def shared(key: Hashable, create: Callable[[], T]) -> Shared[T]:
    """The holder for a key; the same as long as there is a reference to it.

    The value is created again in a forked process, since threads of runtimes do not survive a fork.
    """
    with _lock:
        holder = _shared.get(key)
        if holder is None:
            holder = Shared(create)
            _shared[key] = holder
        return holder  # type: ignore[return-value]
