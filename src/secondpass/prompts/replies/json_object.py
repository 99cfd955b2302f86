"""JSON objects with duplicate keys."""

from __future__ import annotations

from typing import Any


class JsonObject(dict[str, Any]):
    """A JSON object that keeps the pairs of duplicate keys.

    Attributes:
        pairs: all (key, value) pairs, in order.
        contested: keys that occur with different values.
    """

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.pairs = pairs
        self.contested: set[str] = set()
        for key, value in pairs:
            if key in self and not _same(self[key], value):
                self.contested.add(key)
            self[key] = value


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)
