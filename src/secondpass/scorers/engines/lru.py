"""A bounded cache that drops the least recently used entries."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from secondpass.concurrency.lazy import ForkLock

K = TypeVar("K")
V = TypeVar("V")


class LRU(Generic[K, V]):
    """Keeps the most recently used entries.

    Args:
        capacity: the largest sum of the costs of all entries; 0 keeps none.
        cost: of an entry, at least 0, such as its size in bytes. None is 1 for every entry, so that
            ``capacity`` is their number.

    Keys are of types that compare without Python code (str, bytes, int, tuples of them). Values
    must not be None. An entry that costs more than the capacity is not kept. Safe for use from many
    threads, and after a fork.
    """

    def __init__(self, capacity: int, cost: Callable[[K, V], int] | None = None) -> None:
        self.capacity = capacity
        self._cost = cost
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._total = 0
        self._process = os.getpid()
        self._lock = ForkLock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def total(self) -> int:
        """The sum of the costs of all entries."""
        return self._total

    def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """The value of each key, or None."""
        values: list[V | None] = []
        with self._lock:
            get, used = self._entries.get, self._entries.move_to_end
            for key in keys:
                entry = get(key)
                if entry is None:
                    values.append(None)
                else:
                    used(key)
                    values.append(entry[0])
        return values

    def put_many(self, pairs: Iterable[tuple[K, V]]) -> None:
        """Keep the values under their keys. A key that is known gets the new value."""
        cost = self._cost
        priced = [(key, (value, 1 if cost is None else cost(key, value))) for key, value in pairs]
        with self._lock:
            entries = self._entries
            if self._process != os.getpid():
                # Another thread may have been between the entries and the total at the fork.
                self._total = sum(price for _, price in entries.values())
                self._process = os.getpid()
            for key, entry in priced:
                before = entries.pop(key, None)
                if before is not None:
                    self._total -= before[1]
                if entry[1] > self.capacity:
                    continue
                while self._total + entry[1] > self.capacity:
                    _, (_, price) = entries.popitem(last=False)
                    self._total -= price
                entries[key] = entry
                self._total += entry[1]

    def clear(self) -> None:
        """Forget all entries."""
        with self._lock:
            self._entries.clear()
            self._total = 0
