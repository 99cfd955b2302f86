"""Cases again with longer times, for a machine that did not keep up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

FACTORS = (1.0, 8.0, 64.0)
"""By which a case's times are longer. A client's own timeout ends a silent server's case after 30
seconds, so the longest is less."""
_TIMES = {"deadline", "timeout"}


def is_timed(case: Any) -> bool:
    """Whether a case is about a deadline or a timeout that ends the wait for a server."""
    return any(_TIMES & settings.keys() for settings in _settings(case).values())


def patiently(case: Any) -> Iterator[Any]:
    """The case; then, if it is timed, the same with longer times.

    A test leaves the loop as soon as the machine has kept up, and checks the last result.
    """
    for factor in FACTORS if is_timed(case) else (1.0,):
        longer = {
            name: {key: value * factor if key in _TIMES else value for key, value in one.items()}
            for name, one in _settings(case).items()
        }
        yield replace(case, **longer)


def _settings(case: Any) -> dict[str, Any]:
    names = [name for name in ("limits", "settings", "llm") if hasattr(case, name)]
    return {name: getattr(case, name) for name in names}
