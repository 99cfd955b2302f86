"""Makes methods of what callers and configurations name."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from functools import partial
from os import PathLike, fspath
from typing import Any

from secondpass.effects import Method
from secondpass.errors import ConfigurationError
from secondpass.ranking.scoring import ScorerMethod, check_kind
from secondpass.settings import (
    Nested,
    check_takes,
    definition,
    describe,
    hint_elsewhere,
    registry,
)


def to_method(value: object, beside: Collection[str] = ()) -> Method:
    """Convert a scorer, a method, a name or a mapping with a ``type`` to a method.

    ``beside`` are the settings that may stand beside its own, for hints.
    """
    if isinstance(value, str):
        value = {"type": value}
    if isinstance(value, Mapping):
        value = registry.build("methods", value, partial(_hint, beside=beside), beside)
    message = "give a scorer (an object with score_pairs), a name or a mapping with a 'type'"
    has_method = hasattr(value, "judge") or hasattr(value, "score_pairs")
    if not has_method and (hint := hint_elsewhere(value)):
        raise ConfigurationError(f"{message}, not {describe(value)}{hint}")
    if isinstance(value, type):
        raise ConfigurationError(f"give an instance of {value.__name__}, not the class")
    if callable(judge := getattr(value, "judge", None)):
        _check_members(value)
        _check_not_async(judge, "judge")
        check_takes(judge, "judge", "task")
        return value  # type: ignore[return-value]
    if callable(score_pairs := getattr(value, "score_pairs", None)):
        _check_not_async(score_pairs, "score_pairs")
        check_takes(score_pairs, "score_pairs", "query", "documents")
        return ScorerMethod(value)  # type: ignore[arg-type]
    hint = ""
    if callable(value):
        hint = "; put it into a class, as score_pairs(self, query, documents)"
    elif isinstance(value, PathLike):
        hint = _hint(fspath(value))
    raise ConfigurationError(f"{message}, not {describe(value)}{hint}")


def _hint(name: str, beside: Collection[str] = ()) -> str:
    # Needed after a mistake only.
    from secondpass.settings.loading import preset
    from secondpass.settings.name_hints import name_hint, path_hint, preset_hint

    as_part = bool(beside)
    is_method = name.lower() in registry.names("methods")
    if as_part and not is_method and name.lower() in registry.preset_names():
        return preset_hint(name.lower(), preset(name.lower()))
    return name_hint(name, as_part=as_part) or path_hint(name, as_part=as_part)


def _check_not_async(function: object, name: str) -> None:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"{name} must not be async; write 'def {name}', not 'async def'")


def _check_members(method: object) -> None:
    if not isinstance(getattr(method, "name", None), str):
        raise ConfigurationError("a method needs a 'name', a string")
    check_kind(getattr(method, "score_kind", None))
    if not hasattr(method, "scale"):
        raise ConfigurationError("a method needs a 'scale': (lowest, highest), or None")
    windows = getattr(method, "windows", "one")
    if windows not in ("one", "each", "task"):
        message = f"a method's 'windows' must be 'one', 'each' or 'task', not {describe(windows)}"
        raise ConfigurationError(message)


def inner(method: Method) -> Any:
    """Return the object that was configured: the scorer of a ScorerMethod, else the method."""
    return method.scorer if isinstance(method, ScorerMethod) else method


def asks(method: Method) -> bool:
    """Whether a method asks a language model, as it states by ``language_models``."""
    return bool(getattr(method, "language_models", ()))


METHOD = Nested(to_method, lambda: definition("method"))
