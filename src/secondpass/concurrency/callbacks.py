"""Checks functions of the caller, which are called and not awaited."""

from __future__ import annotations

import inspect

from secondpass.errors import InputError, with_article


def check_callback(name: str, function: object) -> None:
    """Check a function before it is called for the first time. None is no function.

    Raises:
        InputError: it cannot be called, or would have to be awaited.
    """
    if function is None:
        return
    if not callable(function):
        raise InputError(f"{name}: give a function, not {with_article(type(function).__name__)}")
    call = getattr(function, "__call__", None)  # noqa: B004 - objects with an async __call__
    if _is_asynchronous(function) or _is_asynchronous(call):
        raise InputError(f"{name}: it is not awaited; give a function without 'async'")


def _is_asynchronous(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
