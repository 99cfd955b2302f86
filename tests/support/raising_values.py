"""Values that raise when they are read, with a passage in the message."""

from __future__ import annotations

from collections.abc import Mapping


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no")

    __str__ = __repr__


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


class Uncountable(list):
    def __len__(self):
        raise RuntimeError("PASSAGE")

    __iter__ = __len__


class Incomparable:
    def __eq__(self, other):
        raise RuntimeError("PASSAGE")

    __hash__ = None


class RaisingText(str):
    def raises(self, *_args):
        raise RuntimeError("a secret text")

    __len__ = __str__ = __iter__ = __hash__ = splitlines = strip = raises
