"""Engines that scorers with the same model and settings share, loaded once per process."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from weakref import WeakValueDictionary

from secondpass.concurrency.lazy import Lazy
from secondpass.concurrency.locks import fork_lock

_shared: WeakValueDictionary[Hashable, Lazy[Any]] = WeakValueDictionary()
_lock = fork_lock()


def shared(key: Hashable) -> Lazy[Any]:
    """The value for a key, everything that it depends on; the same while there is a reference.

    It is created again in a forked process, since threads of runtimes do not survive a fork.
    """
    with _lock:
        value = _shared.get(key)
        if value is None:
            value = _shared[key] = Lazy(per_process=True)
        return value
