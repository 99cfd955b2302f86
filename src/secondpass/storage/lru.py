"""A bounded cache that drops the least recently used entries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, TypeVar

from secondpass.concurrency.locks import fork_lock

K = TypeVar("K")
V = TypeVar("V")


class LRU(Generic[K, V]):
    """Keeps the most recently used entries; with a capacity of 0, none.

    Keys are of types that compare without Python code (str, bytes, int, tuples of them). Values
    must not be None. Safe for use from many threads, and after a fork.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # One dictionary, so that it is consistent whenever another thread forks.
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = fork_lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """The value of each key, or None."""
        values: list[V | None] = []
        with self._lock:
            get, used = self._entries.get, self._entries.move_to_end
            for key in keys:
                value = get(key)
                if value is not None:
                    used(key)
                values.append(value)
        return values

    def put_many(self, pairs: Iterable[tuple[K, V]]) -> None:
        """Keep the values under their keys. A key that is known gets the new value."""
        new = list(pairs)  # before the lock: their values may be computed
        with self._lock:
            entries = self._entries
            for key, value in new:
                entries[key] = value
                entries.move_to_end(key)
                while len(entries) > self.capacity:
                    entries.popitem(last=False)

    def clear(self) -> None:
        """Forget all entries."""
        with self._lock:
            self._entries.clear()
