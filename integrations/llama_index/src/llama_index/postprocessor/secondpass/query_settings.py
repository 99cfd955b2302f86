"""Settings of the queries that are made within a ``with`` block."""

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

    @contextmanager
    def block(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Apply settings within the block and in the tasks that are started in it."""
        token = _blocks.set((*_blocks.get(), (self, settings)))
        try:
            yield
        finally:
            _blocks.reset(token)

    def settings(self) -> dict[str, Any]:
        """The settings of the blocks that are open; those of inner blocks override others."""
        settings: dict[str, Any] = {}
        for owner, block_settings in _blocks.get():
            if owner is self:
                settings |= block_settings
        return settings


_blocks: ContextVar[tuple[tuple[Scope, Mapping[str, Any]], ...]] = ContextVar(
    "secondpass_query_settings", default=()
)
"""The settings of the blocks that are open in this task or thread, outermost first, by owner."""
