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

    def _raise(self, name):
        if name == self.where:
            raise RuntimeError("PASSAGE")

    def __len__(self):
        self._raise("len")
        return 1

    def __iter__(self):
        self._raise("iter")
        return iter(["text"])

    def __getitem__(self, key):
        self._raise("getitem")
        return {"text": "a cat"}[key]
