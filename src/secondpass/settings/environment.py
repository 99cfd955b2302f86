"""Settings from the environment: ``{env: NAME, default: VALUE}`` in a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import registry, yaml_text
from secondpass.settings.messages import describe
from secondpass.settings.secrets import OptionalVariables, variable
from secondpass.settings.signature import keep_source

Path: TypeAlias = tuple[str | int, ...]

FOREIGN = frozenset({"options", "model_kwargs", "tokenizer_kwargs", "config_kwargs"})
"""Settings that are passed on to other libraries as they are."""

_PLACEHOLDER = "what it holds"
_SHORT = 8
"""Shorter values may also occur by chance in the words of a message."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that a setting was read from, and the value of that setting.

    No message shows the text of the variable, which is empty if the default was used. ``setting``
    is the mapping that names it.
    """

    name: str
    text: str = field(repr=False)
    value: Any = field(repr=False)
    setting: Mapping[str, Any] = field(repr=False)


class Unfilled:
    """Replaces a setting whose variable has no usable value; ``problem`` says why."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def fill(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[Path, Variable]]:
    """Read the variables that a configuration names.

    A variable that is not set, or is empty, counts as absent. It is read as the type of its
    default; without a default, as YAML. Its value is plain, never a list or a mapping.

    Returns:
        The configuration with values in place of variables, or an Unfilled if there is no value;
        and the variables that have one, by their paths.

    Raises:
        ConfigurationError: the whole configuration is a variable.
    """
    if names_variable(config):
        raise ConfigurationError("must be a mapping, and a variable gives a plain value")
    variables: dict[Path, Variable] = {}
    return _filled(config, (), variables), variables


def names_variable(value: object) -> bool:
    """Whether a value is ``{env: NAME}`` or ``{env: NAME, default: VALUE}``."""
    return isinstance(value, Mapping) and "env" in value and not value.keys() - {"env", "default"}


def read(setting: Any) -> Any:
    """A single setting, with its variable read if it names one."""
    return _filled(setting, (), {}) if names_variable(setting) else setting


def keep_variables(
    built: object, values: Mapping[str, Any], variables: Mapping[Path, Variable]
) -> None:
    """Keep each variable with the object whose setting it gave, so that it is written by name.

    Args:
        built: what was constructed.
        values: the settings that it was constructed from.
        variables: those that were read, by their paths in the settings.
    """
    for path, source in _used(values, variables).items():
        holder, place, inside = built, path, built
        for index, step in enumerate(path):
            if (found := registry.holder(inside, step)) is not None:
                holder, place = found, path[index:]
                inside = getattr(found, str(step), None)
            else:
                inside = value_at(inside, [step])
        keep_source(holder, place, source)


def by_name(written: Any) -> Any:
    """Written settings, with the names of variables in place of these."""
    return _replaced(written, lambda source: dict(source.setting))


def by_value(written: Any) -> Any:
    """Written settings, with the values of variables in place of these."""
    return _replaced(written, lambda source: source.value)


def _replaced(written: Any, replacement: Callable[[Variable], Any]) -> Any:
    if isinstance(written, Variable):
        return replacement(written)
    if isinstance(written, Mapping):
        return {key: _replaced(item, replacement) for key, item in written.items()}
    if isinstance(written, list):
        return [_replaced(item, replacement) for item in written]
    return written


def unfilled(values: Any) -> Iterator[Problem]:
    """The problem of each Unfilled in a configuration."""
    if isinstance(values, Unfilled):
        yield values.problem
    elif isinstance(values, Mapping | list | tuple):
        for item in values.values() if isinstance(values, Mapping) else values:
            yield from unfilled(item)


def _filled(value: Any, path: Path, variables: dict[Path, Variable]) -> Any:
    """A part of a configuration with its variables read, which are added to ``variables``."""
    if isinstance(value, OptionalVariables):
        return value
    if isinstance(value, list | tuple):
        return [_filled(item, (*path, index), variables) for index, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    if not names_variable(value):
        return {
            key: item if key in FOREIGN else _filled(item, (*path, str(key)), variables)
            for key, item in value.items()
        }
    source = _variable(value, path)
    if isinstance(source, Unfilled):
        return source
    variables[path] = source
    return source.value


def _variable(setting: Mapping[str, Any], path: Path) -> Variable | Unfilled:
    """The variable that a setting names, read."""
    name, default = setting["env"], setting.get("default")
    if not isinstance(name, str) or not name:
        message = f"must be the name of a variable, not {describe(name)}"
        return Unfilled(Problem((*path, "env"), message))
    if isinstance(default, Mapping | list | tuple):
        message = f"must be a plain value, not {describe(default)}"
        return Unfilled(Problem((*path, "default"), message))
    text = variable(name)
    if not text and "default" not in setting:
        message = f"the environment variable {name} is not set, and there is no default"
        return Unfilled(Problem(path, message))
    kind, convert = _READERS.get(type(default), ("a plain value", _from_yaml))
    try:
        return Variable(name, text, convert(text) if text else default, setting)
    except ValueError:
        # The message does not quote the variable, which may hold a key by mistake.
        return Unfilled(Problem(path, f"the environment variable {name} does not hold {kind}"))


def _from_yaml(text: str) -> Any:
    try:
        value = yaml_text.parse(text)
    except yaml_text.NotYAMLError:
        return text
    if isinstance(value, dict | list | set):
        raise ValueError(text)
    return value


def _to_bool(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"


_READERS: Mapping[type, tuple[str, Callable[[str], Any]]] = {
    str: ("a text", str),
    int: ("a whole number", int),
    float: ("a number", float),
    bool: ("true or false", _to_bool),
}
"""How a variable is read, by the type of its default."""


# ---------------------------------------------------------------------- messages


def with_sources(
    problems: Sequence[Problem], values: Mapping[str, Any], variables: Mapping[Path, Variable]
) -> list[Problem]:
    """The problems of a checked configuration, each with the name of the variable it comes from."""
    sources = _used(values, variables)
    return [_with_source(problem, sources) for problem in problems]


def _used(values: Mapping[str, Any], variables: Mapping[Path, Variable]) -> dict[Path, Variable]:
    """The variables whose values are still in the settings, by their places there."""
    used: dict[Path, Variable] = {}
    for path, source in variables.items():
        place, value = path, value_at(values, path)
        if isinstance(value, Mapping):  # a bare name has become {type: name}
            place, value = (*path, "type"), value.get("type")
        if value is source.value:  # unlike that of a setting that was overridden
            used[place] = source
    return used


def value_at(value: Any, path: Sequence[str | int]) -> Any:
    """The value at a path in a configuration; None if there is none."""
    for step in path:
        if isinstance(step, int):
            has_item = isinstance(value, list | tuple) and step < len(value)
            value = value[step] if has_item else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _with_source(problem: Problem, sources: Mapping[Path, Variable]) -> Problem:
    path = problem.path
    while path and path not in sources:
        path = path[:-1]
    # A bare name that is not registered is a problem of its 'type'.
    source = sources.get(path) or sources.get((*problem.path, "type"))
    if source is None or source.name in problem.message:
        return problem
    if not source.text:
        origin = f"the default of the environment variable {source.name}"
        return Problem(problem.path, f"{problem.message} ({origin})")
    message = _without(source.text, problem.message)
    return Problem(problem.path, f"{message} (from the environment variable {source.name})")


def _without(text: str, message: str) -> str:
    """A message that does not show a variable's value, which may be a key by mistake."""
    quoted = repr(text)
    hidden = message.replace(quoted, _PLACEHOLDER)
    if quoted in message and len(text) < _SHORT:
        return hidden
    return re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", lambda _: _PLACEHOLDER, hidden)
