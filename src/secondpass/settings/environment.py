"""Settings from the environment: ``{env: NAME, default: VALUE}`` in a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import OptionalVariables, describe, variable, yaml_text

_HIDDEN = "what it holds"
_LONG = 8
"""Characters of a value that no message holds by chance."""

FOREIGN = frozenset({"options", "model_kwargs", "tokenizer_kwargs", "config_kwargs"})
"""Settings that hold what others give a meaning to."""


def filled(value: Any, path: tuple[str | int, ...] = ()) -> Any:
    """A configuration with each ``{env: NAME, default: VALUE}`` in it replaced by what is there.

    A variable that is not set, or is empty, counts as absent. Its value is read as the default's
    type; without a default, as YAML reads it. It stands for a plain value: no list, no mapping.

    Raises:
        ConfigurationError: a variable is absent and has no default, or does not fit.
    """
    if isinstance(value, OptionalVariables):
        return value
    if isinstance(value, list | tuple):
        return [filled(item, (*path, at)) for at, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    if not names_variable(value):
        return {
            key: item if key in FOREIGN else filled(item, (*path, str(key)))
            for key, item in value.items()
        }
    name = value["env"]
    if not isinstance(name, str) or not name:
        told = f"must be the name of a variable, not {describe(name)}"
        raise ConfigurationError([Problem((*path, "env"), told)])
    if isinstance(value.get("default"), Mapping | list | tuple):
        told = f"must be a plain value, not {describe(value['default'])}"
        raise ConfigurationError([Problem((*path, "default"), told)])
    text = variable(name)
    if not text:
        if "default" in value:
            return value["default"]
        told = f"the environment variable {name} is not set, and there is no default"
        raise ConfigurationError([Problem(path, told)])
    kind, read = _READ.get(type(value.get("default")), ("a plain value", _as_yaml))
    try:
        return read(text)
    except (ValueError, KeyError):
        # Not its value: the variable may hold something else than was meant.
        told = f"the environment variable {name} does not hold {kind}"
        raise ConfigurationError([Problem(path, told)]) from None


def names_variable(value: object) -> bool:
    """Whether a value is ``{env: NAME}`` or ``{env: NAME, default: VALUE}``."""
    return isinstance(value, Mapping) and "env" in value and not value.keys() - {"env", "default"}


def read(value: Any) -> Any:
    """What a value stands for: that of its variable, if it names one that can be read."""
    if not names_variable(value):
        return value
    try:
        return filled(value)
    except ConfigurationError:
        return value


def _as_yaml(text: str) -> Any:
    try:
        found = yaml_text.parse(text)
    except yaml_text.NotYAMLError:
        return text
    if isinstance(found, dict | list | set):
        raise ValueError(text)
    return found


_READ: Mapping[type, tuple[str, Callable[[str], Any]]] = {
    str: ("a text", str),
    int: ("a whole number", int),
    float: ("a number", float),
    bool: ("true or false", lambda text: {"true": True, "false": False}[text.lower()]),
}
"""How a variable is read, by the type of its default."""


def _variables(value: Any, path: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], str]:
    """The variables that a configuration names, by their places."""
    if isinstance(value, Mapping):
        if names_variable(value):
            return {path: value["env"]} if isinstance(value["env"], str) else {}
        parts = [_variables(item, (*path, str(key))) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [_variables(item, (*path, at)) for at, item in enumerate(value)]
    else:
        parts = []
    return {place: name for part in parts for place, name in part.items()}


def _told_where(problem: Problem, name: str) -> Problem:
    if name in problem.message:
        return problem
    message = _without(variable(name), problem.message)
    return Problem(problem.path, f"{message} (from the environment variable {name})")


def _without(value: str, message: str) -> str:
    """A message that does not show a value: the variable may hold something else than was meant."""
    quoted = repr(value)
    if not value or (quoted in message and len(value) < _LONG):
        # A short value, quoted once, may also be a part of the words of the message.
        return message.replace(quoted, _HIDDEN) if value else message
    message = message.replace(quoted, _HIDDEN)
    return re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", lambda _: _HIDDEN, message)


def _variable_of(problem: Problem, variables: Mapping[tuple[str | int, ...], str]) -> str:
    """The variable that a problem's place, or what it is part of, was read from; else nothing."""
    path = problem.path
    while path and path not in variables:
        path = path[:-1]
    if path:
        return variables[path]
    # A name that no kind has is told at its 'type'.
    return variables.get((*problem.path, "type"), "")


def told(problems: Sequence[Problem], config: Any) -> list[Problem]:
    """The problems of a configuration, with the variables that they come from named."""
    variables = _variables(config)
    return [_told_where(one, _variable_of(one, variables)) for one in problems]
