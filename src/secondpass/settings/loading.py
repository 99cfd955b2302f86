"""From configurations, files and presets to what they describe: a class is the first argument.

Every configuration takes the same steps, each once: it is parsed, laid over the preset that it
names, its variables are read, parameters are laid over it, and the result is validated.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import (
    describe,
    environment,
    from_mapping,
    hint_elsewhere,
    registry,
    suggestion,
    yaml_text,
)
from secondpass.settings.arguments import explained
from secondpass.settings.keys import literal_keys, with_read_keys
from secondpass.settings.messages import ALIKE, of_file
from secondpass.settings.name_hints import CONFIGURATION_SUFFIXES, name_hint, path_hint
from secondpass.settings.overrides import Override, overlay, with_llm, with_parameter_names


def read_yaml(path: Path) -> dict[str, Any]:
    """The configuration in a YAML file, laid over the preset that it names, if any.

    Raises:
        ConfigurationError: the file cannot be read, is not YAML, does not hold a mapping, holds a
            key instead of the name of its variable, or names an unknown preset.
    """
    return over_preset(read_written(path))


def read_written(path: Path) -> dict[str, Any]:
    """The configuration in a YAML file as it is written, with the name of its preset, if any.

    Raises:
        ConfigurationError: as of :func:`read_yaml`.
    """
    try:
        own = yaml_text.read_mapping(path)
        config = over_preset(own)
    except FileNotFoundError:
        message = f"there is no such file{name_hint(str(path))}"
        raise ConfigurationError(message, str(path)) from None
    except yaml_text.NotYAMLError as error:
        raise ConfigurationError(str(error), str(path)) from None
    except ConfigurationError as error:
        raise ConfigurationError(of_file(error.problems), str(path)) from None
    if problems := [*literal_keys(config)]:
        raise ConfigurationError(problems, str(path))
    return own


# ---------------------------------------------------------------------- presets

_OF_MODEL = frozenset(
    {"activation", "family", "file", "max_length", "prompt", "prompt_name", "revision", "scores"}
)
"""Settings of a method that are chosen for its model, and mean nothing for another."""


def preset_purpose(name: str) -> str:
    """What a preset is for: the comment at the top of its file. Its first sentence is a summary."""
    comment = itertools.takewhile(lambda line: line.startswith("#"), _text(name).splitlines())
    return " ".join(line.removeprefix("#").strip() for line in comment)


def presets() -> dict[str, str]:
    """The names of the presets in alphabetical order, each with what it is for."""
    return {name: preset_purpose(name) for name in registry.preset_names()}


@explained()
def preset(name: str, **overrides: Any) -> dict[str, Any]:
    """The configuration of a preset, with ``overrides`` merged in.

    A mapping in ``overrides`` is merged into the preset's mapping of that key, unless it has a
    ``type``: then it replaces it, as every other value does. If the method has another model, what
    the preset sets for its own is left out, such as ``max_length``.

    Raises:
        ConfigurationError: no such preset.
    """
    if "preset" in overrides:
        raise ConfigurationError([Problem(("preset",), "a preset cannot extend another one")])
    config = depth_with_store(deepcopy(_parsed(_text(name))), overrides)
    return merged(_fitting_model(config, overrides), overrides)


_parsed = cache(yaml_text.parse)  # takes 10 ms for a preset


def _text(name: str, caller: str = "") -> str:
    """The text of a preset's file; ``caller`` as for :func:`read`."""
    if isinstance(name, str) and name in registry.preset_names():
        path = files("secondpass") / "data" / "presets" / f"{name}.yaml"
        return path.read_text(encoding="utf-8")
    if not isinstance(name, str):
        hint = "; use Reranker.from_config(…)" if isinstance(name, Mapping | PathLike) else ""
        raise ConfigurationError(f"give the name of a preset, not {describe(name)}{hint}")
    hint = name_hint(name, caller=caller) or path_hint(name)
    hint = hint or suggestion(name, registry.preset_names(), leads_to_page=True, least=ALIKE)
    raise ConfigurationError(f"no preset is named {describe(name)}{hint}")


def over_preset(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration, laid over the preset that its key ``preset`` names, if any."""
    rest = dict(config)
    if "preset" not in rest:
        return rest
    named, variables = environment.fill({"preset": rest.pop("preset")})
    if problems := [*environment.unfilled(named)]:
        raise ConfigurationError(problems)
    try:
        return preset(named["preset"], **rest)
    except ConfigurationError as error:
        problems = [problem.under(("preset",)) for problem in error.problems]
        problems = environment.with_sources(problems, named, variables)
        raise ConfigurationError(problems) from None


def depth_with_store(config: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a preset, without its depth if ``overrides`` give its method a store.

    That depth is for passages that have to be encoded. With a store it is the default of rerankers,
    whatever is stored yet: an order must not depend on that.
    """
    if not has_store(overrides):
        return config
    return {name: value for name, value in config.items() if name != "depth"}


def _fitting_model(config: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a preset, without what it sets for its model if there is another.

    ``tokenizer_kwargs.model_max_length`` is ``max_length`` by another name.
    """
    own, other = config["method"], overrides.get("method")
    if not isinstance(other, Mapping):
        return config
    dropped: Collection[str] = ()
    models = [environment.read(it.get("model")) for it in (own, other)]
    tokenizer = other.get("tokenizer_kwargs")
    if "model" in other and models[0] != models[1]:
        dropped = _OF_MODEL
    elif isinstance(tokenizer, Mapping) and "model_max_length" in tokenizer:
        dropped = {"max_length"}
    return {**config, "method": {key: own[key] for key in own if key not in dropped}}


def has_store(config: Mapping[str, Any]) -> bool:
    """Whether the method of a configuration has a store of passages."""
    method = config.get("method")
    return isinstance(method, Mapping) and method.get("store") is not None


def merged(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``overrides`` laid over it, mapping by mapping.

    A mapping with a ``type`` replaces the one below it. A blend that is set explicitly expects
    retrieval scores, so the ``optional`` of a blend below it is dropped.
    """
    result = dict(base)
    for key, value in overrides.items():
        below: Any = result.get(key)
        if _is_mergeable(value) and _is_mergeable(below) and "type" not in value:
            if key == "blend":
                below = {name: item for name, item in below.items() if name != "optional"}
            result[key] = merged(below, value)
        else:
            result[key] = value
    return result


def overridden(config: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as it is written, with other settings laid over it.

    A method that is a name, or a variable with one, becomes a mapping.
    """
    method = config.get("method")
    if values and (isinstance(method, str) or environment.names_variable(method)):
        config = {**config, "method": {"type": method}}
    return merged(config, values)


def _is_mergeable(value: Any) -> bool:
    """Whether a value is a mapping of settings; a variable is a plain value."""
    return isinstance(value, Mapping) and not environment.names_variable(value)


T = TypeVar("T")

MAPPING = "configuration"
"""Name of a configuration that is no file in error messages."""


def load(cls: type[T], config: Mapping[str, Any] | str | PathLike[str]) -> T:
    """An object of a configurable class from a mapping or the path of a YAML file.

    Raises:
        ConfigurationError: every problem, with its place in the configuration.
    """
    if isinstance(config, Mapping):
        return construct(cls, config, MAPPING)
    if not isinstance(config, str | PathLike):
        message = f"give a mapping or the path of a YAML file, not {describe(config)}"
        raise ConfigurationError(message + hint_elsewhere(config, is_method=False))
    path = Path(fspath(config))
    if ": " in str(path) and not path.is_file():  # YAML or JSON, and no path
        instead = "give the path of a YAML file, or a mapping"
        raise ConfigurationError(f"{describe(str(path))}: there is no such file; {instead}")
    return construct(cls, read_written(path), str(path))


def read(
    source: Mapping[str, Any] | str | PathLike[str], caller: str = ""
) -> tuple[dict[str, Any], str]:
    """A mapping, or that of a preset or a file as it is written; and its name in error messages.

    ``caller`` is the class of an adapter, for messages that say what to write; empty for Reranker.

    Raises:
        ConfigurationError: there is no such preset or file, or it cannot be read.
    """
    if isinstance(source, Mapping):
        return dict(source), MAPPING
    if not isinstance(source, str | PathLike):
        kinds = "a preset name, a mapping, a YAML path or a Reranker"
        hint = hint_elsewhere(source, is_method=False)
        raise ConfigurationError(f"give {kinds}, not {describe(source)}{hint}")
    name = fspath(source)
    bare = isinstance(source, str) and not ("/" in name or "\\" in name)
    if not bare or Path(name).suffix in CONFIGURATION_SUFFIXES:
        if not Path(name).is_file():
            message = f"there is no such file or preset: {name}{name_hint(name, caller=caller)}"
            raise ConfigurationError(message)
        return read_written(Path(name)), name
    _text(name, caller)  # an error names the caller
    return {"preset": name}, MAPPING


def construct(
    cls: type[T],
    config: Mapping[str, Any],
    about: str,
    *,
    defaults: Mapping[str, Any] = {},
    llm: Any = None,
    flat: Mapping[str, Override] = {},
    own: Mapping[str, Any] = {},
    caller: str = "",
) -> T:
    """The object that a configuration describes.

    Args:
        cls: its class.
        config: as it was written.
        about: its name in error messages: :data:`MAPPING`, or the path of a file.
        defaults: for settings that the configuration leaves out.
        llm: replaces the language model of every method that has one; None for none.
        flat: an adapter's parameters by name.
        own: the settings that no parameter may override.
        caller: the class of the adapter, for messages; empty for none.

    Raises:
        ConfigurationError: every problem, with its place.
    """
    try:
        _check_size(config)
        values, variables = _filled(config)
    except ConfigurationError as error:
        raise ConfigurationError(error.problems, about) from None
    overrides = overlay(values, flat, own=own, llm_given=llm is not None, caller=caller)
    if overrides:  # below the preset, which depends on them
        values, variables = _filled(overridden(config, overrides))
    values = {**defaults, **values}
    try:
        if llm is not None:
            values = with_llm(values, llm)
        _check_size(values)
        if problems := [*environment.unfilled(values)]:
            raise ConfigurationError(problems)
        built: T = from_mapping(cls, values)
        environment.keep_variables(built, values, variables)
    except ConfigurationError as error:
        problems = environment.with_sources(error.problems, values, variables)
        problems = [*hints_of_preset(problems, config, values.get("method"))]
        problems = problems if about == MAPPING else of_file(problems)
        raise ConfigurationError(with_parameter_names(problems, flat), about) from None
    except RecursionError:
        message = "is nested too deeply"
    else:
        return built
    raise ConfigurationError(message, about)


def hints_of_preset(
    problems: Sequence[Problem], config: Mapping[str, Any], method: object
) -> Sequence[Problem]:
    """The problems, with hints that keep the preset if the configuration extends one.

    Args:
        problems: of the configuration.
        config: as it was written, with its key ``preset``.
        method: the method of the whole.
    """
    own = config.get("method", {})
    named = config.get("preset")
    if not isinstance(named, str) or not isinstance(own, Mapping) or "type" in own:
        return problems
    from secondpass.settings import parameter_hints  # for errors only

    return parameter_hints.over_preset(problems, named, method)


def _filled(
    config: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[environment.Path, environment.Variable]]:
    """A configuration over its preset, with the values of its variables; and these."""
    return environment.fill(with_read_keys(over_preset(config)))


def _check_size(config: Any) -> None:
    """Check that a configuration is of moderate size and does not refer to itself."""
    if (message := yaml_text.too_large(config)) is not None:
        raise ConfigurationError(message)
