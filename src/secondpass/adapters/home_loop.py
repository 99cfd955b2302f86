"""What language models have in common that a framework brings, and that its adapter asks."""

from __future__ import annotations

from typing import Any

from secondpass.concurrency.portal import HomeLoop

_PATIENCE = 60.0


class ForeignLLM:
    """A framework's model object as a language model.

    Args:
        timeout: seconds that one answer may take.
    """

    def __init__(self, timeout: float = _PATIENCE) -> None:
        self.timeout = timeout
        self.home = HomeLoop()

    def apart(self) -> dict[str, Any] | None:
        """What a configuration holds of it where its owner saves the object itself."""
        return None if self.timeout == _PATIENCE else {"timeout": self.timeout}


def part(holder: Any, name: str) -> Any:
    """A part of what a provider told, be it a mapping or an object; None where it is not there."""
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)


def count(usage: Any, *names: str) -> int | None:
    """The first of these counts of tokens that was told."""
    for name in names:
        value = part(usage, name)
        if type(value) is int:
            return value
    return None
