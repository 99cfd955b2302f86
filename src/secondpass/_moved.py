"""Old import paths: modules that have moved forward to their new place, with a warning."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any


def moved(old: str, *new: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose contents are in other modules now.

    Args:
        old: dotted name of the module that was.
        new: dotted names of the modules that are looked through for an attribute, in turn.
    """

    def find(name: str) -> Any:
        if not name.startswith("__"):
            for place in new:
                module = importlib.import_module(place)
                if hasattr(module, name):
                    message = f"{old}.{name} is deprecated, use {place}.{name}"
                    warnings.warn(message, DeprecationWarning, stacklevel=2)
                    return getattr(module, name)
        raise AttributeError(f"module {old!r} has no attribute {name!r}")

    return find
