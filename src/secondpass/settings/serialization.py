"""Configurable objects as mappings that YAML can hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from secondpass.errors import NotSerializableError, Problem
from secondpass.settings.messages import describe


def to_mapping(instance: Any, dump: Callable[[Any, str], Any]) -> dict[str, Any]:
    """The settings of a configurable object that differ from their defaults.

    Args:
        instance: the object.
        dump: serializes a value that is neither plain nor a list or mapping of plain ones; called
            with the value and the parameter's name.
    """
    construct = inspect.unwrap(type(instance).__init__)
    settings: dict[str, Any] = {}
    for name, parameter in inspect.signature(construct).parameters.items():
        if name == "self":
            continue
        value = getattr(instance, name)
        if parameter.default is not inspect.Parameter.empty and value == parameter.default:
            continue
        written = _plain(value, name, dump)
        if written == {} and not isinstance(value, Mapping):
            continue  # a nested object that is all defaults
        settings[name] = written
    return settings


def _plain(value: Any, name: str, dump: Callable[[Any, str], Any]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item, name, dump) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, name, dump) for item in value]
    return dump(value, name)


def not_serializable(value: object, where: str) -> NotSerializableError:
    """The error for a value of the setting ``where`` that no YAML can describe."""
    message = f"{describe(value)} has no registered name, so it cannot be written out"
    return NotSerializableError([Problem((where,), message)])
