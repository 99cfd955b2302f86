"""Forwards deprecated import paths to the new modules, with a warning."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any


def moved(old: str, *new: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module whose contents have moved.

    Args:
        old: dotted name of the deprecated module.
        new: dotted names of the modules that are searched for an attribute, in this order.
    """

    def module_getattr(name: str) -> Any:
        if not name.startswith("__"):
            for path in new:
                module = importlib.import_module(path)
                if hasattr(module, name):
                    message = f"{old}.{name} is deprecated, use {path}.{name}"
                    warnings.warn(message, DeprecationWarning, stacklevel=2)
                    return getattr(module, name)
        raise AttributeError(f"module {old!r} has no attribute {name!r}")

    return module_getattr
