"""From configurations to what they describe: a class is the first argument.

Every configuration takes the same steps, each once: it is parsed, laid over the preset that it
names, its variables are read, parameters are laid over it, and the result is validated.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import (
    describe,
    environment,
    from_mapping,
    registry,
    yaml_text,
)
from secondpass.settings.files import merged, over_preset, preset, read_yaml
from secondpass.settings.keys import with_read_keys
from secondpass.settings.language_model import replace_llm
from secondpass.settings.messages import REQUIRED
from secondpass.settings.overrides import Override, overlay, with_parameter_names

T = TypeVar("T")


def load(cls: type[T], config: Mapping[str, Any] | str | PathLike[str]) -> T:
    """An object of a configurable class from a mapping or the path of a YAML file.

    Raises:
        ConfigurationError: every problem, with its place in the configuration.
    """
    if isinstance(config, Mapping):
        return _construct(cls, config, "configuration")
    if not isinstance(config, str | PathLike):
        message = f"give a mapping or the path of a YAML file, not {describe(config)}"
        raise ConfigurationError(message)
    return _construct(cls, read_yaml(Path(fspath(config))), fspath(config))


def resolve(
    cls: type[T],
    source: Mapping[str, Any] | str | PathLike[str],
    *,
    llm: Any,
    flat: Mapping[str, Override],
    defaults: Mapping[str, Any],
    llm_parameter: str,
) -> T:
    """An object of a configurable class, with an adapter's parameters in its configuration.

    Args:
        cls: the class.
        source: a preset name, a mapping, or the path of a YAML file.
        llm: the language model instead of the configured one; None for that.
        flat: the parameters by name.
        defaults: for settings that the configuration leaves out.
        llm_parameter: the adapter's parameter for ``llm``, for messages.

    Raises:
        ConfigurationError: the source cannot be read; or every problem, with its place.
    """
    config, about = read(source)
    # What a mapping sets itself; a preset's settings may be overridden.
    own = source if isinstance(source, Mapping) else {}
    try:
        return _construct(cls, config, about, defaults=defaults, llm=llm, flat=flat, own=own)
    except ConfigurationError as error:
        problems = [_with_parameter(problem, llm_parameter) for problem in error.problems]
        raise ConfigurationError(problems, error.about) from None


def _with_parameter(problem: Problem, llm_parameter: str) -> Problem:
    if problem.path[-1:] != ("llm",) or problem.message != REQUIRED:
        return problem
    return Problem(
        problem.path, f"{REQUIRED}; give it as {llm_parameter}=, or in the configuration"
    )


def read(source: Mapping[str, Any] | str | PathLike[str]) -> tuple[dict[str, Any], str]:
    """A mapping, or the configuration of a preset or a file; and its name in error messages.

    Raises:
        ConfigurationError: there is no such preset or file, or it cannot be read.
    """
    if isinstance(source, Mapping):
        return dict(source), "configuration"
    if not isinstance(source, str | PathLike):
        message = (
            f"give a preset name, a mapping, a YAML path or a Reranker, not {describe(source)}"
        )
        raise ConfigurationError(message)
    name = fspath(source)
    bare = isinstance(source, str) and not ("/" in name or "\\" in name)
    if not bare or Path(name).suffix in registry.CONFIGURATION_SUFFIXES:
        if not Path(name).is_file():
            message = f"there is no such file or preset: {name}{registry.meaning(name)}"
            raise ConfigurationError(message)
        return read_yaml(Path(name)), name
    return preset(name), "configuration"


def _construct(
    cls: type[T],
    config: Mapping[str, Any],
    about: str,
    *,
    defaults: Mapping[str, Any] = {},
    llm: Any = None,
    flat: Mapping[str, Override] = {},
    own: Mapping[str, Any] = {},
) -> T:
    """The object that a configuration describes.

    Args:
        cls: its class.
        config: as it was parsed.
        about: its name in error messages.
        defaults: as for :func:`resolve`.
        llm: likewise.
        flat: likewise.
        own: the settings that no parameter may override.

    Raises:
        ConfigurationError: every problem, with its place.
    """
    try:
        _check_size(config)
        values, variables = environment.fill(with_read_keys(over_preset(config)))
    except ConfigurationError as error:
        raise ConfigurationError(error.problems, about) from None
    overrides = overlay(values, flat, own=own, llm_given=llm is not None)
    values = {**defaults, **values}
    method = values.get("method")
    if "method" in overrides and isinstance(method, str | environment.Unfilled):
        values["method"] = {"type": method}
    values = merged(values, overrides)
    try:
        if llm is not None:
            values = replace_llm(values, llm)
        _check_size(values)
        if problems := [*environment.unfilled(values)]:
            raise ConfigurationError(problems)
        built: T = from_mapping(cls, values)
    except ConfigurationError as error:
        problems = environment.with_sources(error.problems, values, variables)
        raise ConfigurationError(with_parameter_names(problems, flat), about) from None
    except RecursionError:
        message = "is nested too deeply"
    else:
        return built
    raise ConfigurationError(message, about)


def _check_size(config: Any) -> None:
    """Check that a configuration is of moderate size and does not refer to itself.

    Raises:
        ConfigurationError: it is too large.
    """
    if (message := yaml_text.too_large(config)) is not None:
        raise ConfigurationError(message)
