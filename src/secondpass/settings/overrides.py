"""What takes the place of settings: flat parameters of an adapter, and a given language model."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from secondpass.attributes import unchangeable
from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import (
    describe,
    environment,
    model_of,
    name_hints,
    parameter_hints,
    registry,
)
from secondpass.settings.environment import Unfilled, value_at
from secondpass.settings.signature import changed, is_configurable


@unchangeable
@dataclass(frozen=True, slots=True)
class Override:
    """The value of a parameter and the setting that it replaces.

    Attributes:
        value: of the setting. It may be a key, so it is not in the repr.
        places: dotted paths of the setting. The first is used that the configured method, or the
            language model that it asks, has.
    """

    value: Any = field(repr=False)
    places: tuple[str, ...]


def overlay(
    config: Mapping[str, Any],
    flat: Mapping[str, Override],
    *,
    own: Mapping[str, Any],
    llm_given: bool = False,
    caller: str = "",
) -> dict[str, Any]:
    """The mapping to merge into ``config`` so that the overrides take effect.

    Args:
        config: as described by the user, or that of a preset or a file.
        flat: by the names of the parameters.
        own: the settings that parameters may not override.
        llm_given: whether a language model object replaces the configured one.
        caller: the class of the adapter, for messages that say what to write instead.

    Raises:
        ConfigurationError: every parameter that cannot be used, and why.
    """
    merged: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, override in flat.items():
        try:
            path = _path(config, override, llm_given, _key_hint(config, flat, override, caller))
            alternative = [*path[:-1], _ALTERNATIVES.get(path[-1], path[-1])]
            for place in (path, alternative):
                if _is_set(own, place):
                    dotted = ".".join(place)
                    raise ConfigurationError(
                        f"the mapping passed as reranker sets {dotted!r}, which is the same; "
                        "keep one of them"
                    )
            if _is_set(config, alternative):
                _set(merged, alternative, None)
            _set(merged, path, override.value)
        except ConfigurationError as error:
            problems.extend(Problem((name,), problem.message) for problem in error.problems)
    if problems:
        raise ConfigurationError(problems)
    return merged


_ALTERNATIVES = {
    "api_key": "api_key_env",
    "api_key_env": "api_key",
    "token": "token_env",
    "token_env": "token",
}
"""Two settings for one thing: a key, and the environment variable that holds it."""


def with_parameter_names(
    problems: Sequence[Problem], flat: Mapping[str, Override]
) -> list[Problem]:
    """The problems of a configuration; a problem of an override under the name of its parameter."""
    parameters: dict[tuple[str, ...], str] = {}  # by the path of the setting
    for name, override in flat.items():
        for place in override.places:
            parameters[tuple(place.split("."))] = name

    def with_parameter_name(problem: Problem) -> Problem:
        for path, name in parameters.items():
            if problem.path[: len(path)] == path:
                return Problem((name, *problem.path[len(path) :]), problem.message)
        return problem

    return [*map(with_parameter_name, problems)]


def _path(
    config: Mapping[str, Any], override: Override, llm_given: bool, key_hint: str
) -> list[str]:
    """The path of the override's setting in this configuration.

    ``key_hint`` is what to write in place of a key that is not for this method; empty if it is no
    key.
    """
    method = config.get("method")
    kind = method.get("type") if isinstance(method, Mapping) else method
    if isinstance(kind, str):
        is_unknown = kind not in registry.names("methods")
    else:
        is_unknown = isinstance(kind, Unfilled | None)
    for place in override.places:
        *outer, key = place.split(".")
        if llm_given and "llm" in outer:
            continue
        # An unknown method is reported by the check of the configuration.
        if outer[:1] != ["method"] or is_unknown or key in _settings_of(config, outer):
            return [*outer, key]
    if llm_given and any(place.startswith("method.llm.") for place in override.places):
        message = "the language model object has its own settings"
    elif not isinstance(kind, str):
        message = f"can't be set on {describe(method)}, which has its own settings"
    else:
        message = f"the method {kind!r} has no such setting"
        if "stages" in _settings_of(config, ["method"]):
            message += "; its stages do: set it there"
        elif key_hint:
            message += key_hint
        elif (
            other := parameter_hints.of_methods(override.places[0].rpartition(".")[2])
        ) is not None:
            message += f"; one that has it is {name_hints.in_words(other)}"
    raise ConfigurationError(message)


def _key_hint(
    config: Mapping[str, Any], flat: Mapping[str, Override], key: Override, caller: str
) -> str:
    """``; …`` where to pass a key that the method does not take; empty if the value is no key."""
    settings = _settings_of(config, ["method"])
    paths = parameter_hints.PATHS
    if key.places in (paths["token"], paths["token_env"]) and "token" not in settings:
        return "; it is a token of the Hugging Face hub; the key of an API is api_key="
    if key.places not in (paths["api_key"], paths["api_key_env"]) or "token" not in settings:
        return ""
    model = flat["model"].value if "model" in flat else value_at(config, ["method", "model"])
    return f", and the key of an API is never sent to the hub; {name_hints.of_key(model, caller)}"


def _settings_of(config: Mapping[str, Any], outer: list[str]) -> Collection[str]:
    """The names of the settings of the method, or of the language model, at a path."""
    value = value_at(config, outer)
    kind = value.get("type") if isinstance(value, Mapping) else value
    family: registry.Family = "llms" if "llm" in outer else "methods"
    if not isinstance(kind, str) or kind not in registry.names(family):
        return ()
    return model_of(registry.kind(family, kind)).model_fields


def _is_set(config: Mapping[str, Any], path: list[str]) -> bool:
    """Whether the configuration has a value at the path, which must not lead into an object."""
    inside: Any = config
    for step in path:
        if inside is not None and not isinstance(inside, Mapping | str | Unfilled):
            hint = f"create that with {path[-1]!r}"
            raise ConfigurationError(f"can't be set on {describe(inside)} that is ready; {hint}")
        if not isinstance(inside, Mapping) or step not in inside:
            return False
        inside = inside[step]
    return True


def _set(config: dict[str, Any], path: list[str], value: Any) -> None:
    for step in path[:-1]:
        config = config.setdefault(step, {})
    config[path[-1]] = value


def with_llm(config: Mapping[str, Any], llm: Any) -> dict[str, Any]:
    """A configuration whose method and fallbacks ask ``llm``, wherever they ask a language model.

    Args:
        config: a configuration. Variables that it names are kept.
        llm: the language model. A copy of it takes over the timeout of a model that it replaces.

    Raises:
        ConfigurationError: nothing in the configuration asks a language model.
    """
    asking = False

    def replaced(part: Any) -> Any:
        nonlocal asking
        if isinstance(part, list | tuple):
            return [replaced(item) for item in part]
        if not isinstance(part, Mapping) or environment.names_variable(part):
            if not _asks(part):
                return part
            part = {"type": part}
        changes = {key: replaced(part[key]) for key in ("stages", "method") if key in part}
        if _asks(part.get("type")):
            asking = True
            changes["llm"] = _with_timeout(llm, part.get("llm"))
        return {**part, **changes}

    changes: dict[str, Any] = {
        key: replaced(config[key]) for key in ("method", "fallback") if key in config
    }
    if not asking:
        names = ", ".join(name for name in registry.names("methods") if _asks(name))
        message = f"a language model is given, and no method asks one; these do: {names}"
        raise ConfigurationError([Problem(("method",), message)])
    named = config.get("fallback")
    is_name = isinstance(named, str) or environment.names_variable(named)
    if is_name and changes["fallback"] is not named:
        changes["fallback"] = [changes["fallback"]]
    return {**config, **changes}


def _with_timeout(llm: Any, configured: Any) -> Any:
    """The language model with the timeout of the configured one, if both have one."""
    timeout = configured.get("timeout") if isinstance(configured, Mapping) else None
    timeout = environment.read(timeout)
    if timeout is None or not hasattr(llm, "timeout"):
        return llm
    if isinstance(timeout, Unfilled):
        raise ConfigurationError([timeout.problem])
    if is_configurable(llm):
        return changed(llm, timeout=timeout)
    llm = copy.copy(llm)
    llm.timeout = timeout
    return llm


def _asks(method: object) -> bool:
    """Whether a method of this name asks a language model; a variable may name it."""
    method = environment.read(method)
    if isinstance(method, Unfilled):
        raise ConfigurationError([method.problem])
    if not isinstance(method, str) or method not in registry.names("methods"):
        return False
    return "llm" in model_of(registry.kind("methods", method)).model_fields
