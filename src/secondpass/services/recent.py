"""What a service said recently of the requests that it accepts."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

REMEMBERED_SECONDS = 600.0
"""Seconds in which a limit that a server stated is kept to; then it is tested again."""

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key, each of which is forgotten ``REMEMBERED_SECONDS`` after it was set."""

    def __init__(self) -> None:
        self._values: dict[K, tuple[V, float]] = {}

    def remember(self, key: K, value: V) -> None:
        """Remember a value from now on."""
        self._values[key] = value, time.monotonic()

    def get(self, key: K) -> V | None:
        """The value; None if there is none, or it is forgotten."""
        value, since = self._values.get(key, (None, 0.0))
        return value if time.monotonic() - since < REMEMBERED_SECONDS else None

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def keys(self) -> set[K]:
        """The keys whose values are not forgotten."""
        return {key for key in list(self._values) if key in self}

    def forget(self, key: K) -> None:
        """Forget a value."""
        self._values.pop(key, None)
