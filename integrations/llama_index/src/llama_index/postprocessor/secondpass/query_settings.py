"""Settings for the queries of a ``with`` block, which reach a postprocessor inside an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class Scope:
    """Identifies a postprocessor and its copies; does not take part in comparisons of them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scope)

    __hash__ = object.__hash__


_Block = tuple[Scope, Mapping[str, Any]]
_scopes: ContextVar[tuple[_Block, ...]] = ContextVar("secondpass_query_settings", default=())
"""The blocks that are open in this task or thread, outermost first, each with its owner."""


@contextmanager
def scope(owner: Scope, settings: Mapping[str, Any]) -> Iterator[None]:
    """Apply settings for ``owner`` within the block and in the tasks that are started in it."""
    token = _scopes.set((*_scopes.get(), (owner, settings)))
    try:
        yield
    finally:
        _scopes.reset(token)


def settings_of(owner: Scope) -> dict[str, Any]:
    """The settings of the open blocks of ``owner``; inner blocks override outer ones."""
    merged: dict[str, Any] = {}
    for other, settings in _scopes.get():
        if other is owner:
            merged.update(settings)
    return merged
