"""YAML files and presets, and how one configuration is laid over another."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import describe, environment, registry, suggestion, yaml_text
from secondpass.settings.keys import literal_keys


def read_yaml(path: Path) -> dict[str, Any]:
    """The configuration in a YAML file, laid over the preset that it names, if any.

    Raises:
        ConfigurationError: the file cannot be read, is not YAML, does not hold a mapping, holds a
            key instead of the name of its variable, or names an unknown preset.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(yaml_text.MAX_CHARACTERS + 1)
    except FileNotFoundError:
        message = f"there is no such file{registry.meaning(str(path))}"
        raise ConfigurationError(message, str(path)) from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot be read ({type(error).__name__})", str(path)) from None
    config = _parsed(text, str(path))
    try:
        config = over_preset(config)
    except ConfigurationError as error:
        raise ConfigurationError(error.problems, str(path)) from None
    if problems := [*literal_keys(config)]:
        raise ConfigurationError(problems, str(path))
    return config


def _parsed(text: str, about: str) -> dict[str, Any]:
    try:
        value = yaml_text.parse(text)
    except yaml_text.NotYAMLError as error:
        raise ConfigurationError(str(error), about) from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"must hold a mapping, not {describe(value)}", about)
    return value


# ---------------------------------------------------------------------- presets


def preset_purpose(name: str) -> str:
    """What a preset is for: the comment at the top of its file.

    Raises:
        ConfigurationError: no such preset.
    """
    comment = itertools.takewhile(lambda line: line.startswith("#"), _text(name).splitlines())
    return " ".join(line.removeprefix("#").strip() for line in comment)


def presets() -> dict[str, str]:
    """The names of the presets in alphabetical order, each with what it is for."""
    return {name: preset_purpose(name) for name in registry.preset_names()}


def preset(name: str, **overrides: Any) -> dict[str, Any]:
    """The configuration of a preset, with ``overrides`` merged in.

    A mapping in ``overrides`` is merged into the preset's mapping of that key, unless it has a
    ``type``: then it replaces it, as every other value does.

    Raises:
        ConfigurationError: no such preset.
    """
    if "preset" in overrides:
        raise ConfigurationError([Problem(("preset",), "a preset cannot extend another one")])
    return merged(deepcopy(_parsed_once(_text(name), name)), overrides)


@cache
def _parsed_once(text: str, name: str) -> dict[str, Any]:
    """The configuration in a preset's text, which takes 10 ms to parse."""
    return _parsed(text, name)


def _text(name: str) -> str:
    """The text of a preset's file.

    Raises:
        ConfigurationError: no such preset.
    """
    if isinstance(name, str) and name in registry.preset_names():
        return (files("secondpass") / "data" / "presets" / f"{name}.yaml").read_text(
            encoding="utf-8"
        )
    hint = ""
    if isinstance(name, str):
        hint = registry.meaning(name) or registry.meaning_of_path(name)
        hint = hint or suggestion(name, registry.preset_names())
    raise ConfigurationError(f"no preset is named {describe(name)}{hint}")


def over_preset(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration, laid over the preset that its key ``preset`` names, if any.

    Raises:
        ConfigurationError: there is no such preset.
    """
    rest = dict(config)
    if "preset" not in rest:
        return rest
    named, variables = environment.fill({"preset": rest.pop("preset")})
    if problems := [*environment.unfilled(named)]:
        raise ConfigurationError(problems)
    try:
        return merged(preset(named["preset"]), rest)
    except ConfigurationError as error:
        problems = [problem.under(("preset",)) for problem in error.problems]
        problems = environment.with_sources(problems, named, variables)
        raise ConfigurationError(problems) from None


def merged(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``overrides`` laid over it, mapping by mapping."""
    result = dict(base)
    for key, value in overrides.items():
        below: Any = result.get(key)
        if _is_mergeable(value) and _is_mergeable(below) and "type" not in value:
            if key == "blend":  # a blend that is set explicitly expects retrieval scores
                below = {name: item for name, item in below.items() if name != "optional"}
            result[key] = merged(below, value)
        else:
            result[key] = value
    return result


def _is_mergeable(value: Any) -> bool:
    """Whether a value is a mapping of settings; a variable is a plain value."""
    return isinstance(value, Mapping) and not environment.names_variable(value)
