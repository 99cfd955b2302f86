"""Values that raise when they are read, with a passage in the message."""

from __future__ import annotations

from collections.abc import Mapping


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no")

    __str__ = __float__ = __repr__


class Raises(Mapping):
    """A mapping that raises, with a passage in its words, in one of its methods."""

    def __init__(self, where):
        self.where = where

    def _values(self, where):
        if where == self.where:
            raise RuntimeError("PASSAGE")
        return {"text": "a cat"}

    def __len__(self):
        return len(self._values("len"))

    def __iter__(self):
        return iter(self._values("iter"))

    def __getitem__(self, key):
        return self._values("getitem")[key]
