"""Flat parameters: what adapters call some settings of a configuration.

Frameworks have words of their own (``score_threshold``, ``meta_fields_to_embed``), and their users
expect the common settings side by side, whatever stands where in a configuration. An adapter says
once for which setting each of its parameters stands. What is given twice, or what the configured
method does not have, is refused rather than silently dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import describe, model_of, registry
from secondpass.settings.environment import Unfilled


@dataclass(frozen=True, slots=True)
class Flat:
    """A parameter that was given, and the setting for which it stands.

    Attributes:
        value: of the setting.
        places: where the setting may stand, dotted. Of several the first is taken that the
            configured method, or the language model that it asks, has.
    """

    value: Any = field(repr=False)  # it may be a key
    places: tuple[str, ...]

    @classmethod
    def at(cls, value: Any, *places: str) -> Flat | None:
        """The parameter; None where the value is None, so that the configuration decides."""
        return None if value is None else cls(value, places)


def given(parameters: Mapping[str, Flat | None]) -> dict[str, Flat]:
    """Those that were given."""
    return {name: flat for name, flat in parameters.items() if flat is not None}


def laid_over(
    config: Mapping[str, Any],
    flat: Mapping[str, Flat],
    *,
    own: Mapping[str, Any],
    llm_given: bool = False,
) -> dict[str, Any]:
    """The settings that the parameters stand for, as they are merged into ``config``.

    Args:
        config: as described by the user, or that of a preset or a file.
        flat: by the names of the parameters.
        own: what a mapping given by the user sets, which parameters may not override; empty where
            a preset or a file was named.
        llm_given: whether the language model of the configuration is not used.

    Raises:
        ConfigurationError: naming every parameter that cannot be used, and why.
    """
    overrides: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, one in flat.items():
        try:
            path = _place(config, one, llm_given)
            twin = [*path[:-1], _TWINS.get(path[-1], path[-1])]
            for place in (path, twin):
                if _has(own, place):
                    told = f"the mapping that is given as reranker sets {'.'.join(place)!r}, which"
                    raise ConfigurationError(f"{told} is the same; keep one of them")
            if _has(config, twin):
                _set(overrides, twin, None)
            _set(overrides, path, one.value)
        except ConfigurationError as error:
            problems.extend(Problem((name,), problem.message) for problem in error.problems)
    if problems:
        raise ConfigurationError(problems)
    return overrides


_TWINS = {
    name: other
    for key in ("api_key", "token")
    for name, other in ((key, f"{key}_env"), (f"{key}_env", key))
}
"""Two settings for one thing: a key, and the variable that holds it."""


def beside_ready(flat: Mapping[str, Flat]) -> list[Problem]:
    """What is wrong with giving these beside a Reranker that has its settings already."""
    told = "can't be given beside a ready Reranker; set {!r} on that"
    return [Problem((name,), told.format(one.places[0])) for name, one in flat.items()]


def renamed(problems: Sequence[Problem], flat: Mapping[str, Flat]) -> list[Problem]:
    """The problems of a configuration, those of parameters under the parameters' own names."""
    names = {tuple(place.split(".")): name for name, one in flat.items() for place in one.places}
    told = []
    for problem in problems:
        name = next((names[p] for p in names if problem.path[: len(p)] == p), None)
        path = problem.path if name is None else (name,)
        told.append(Problem(path, problem.message))
    return told


def without(config: dict[str, Any], flat: Mapping[str, Flat]) -> dict[str, Any]:
    """The configuration of a reranker less what the parameters have put into it."""
    for one in flat.values():
        for place in one.places:
            *outer, key = place.split(".")
            inside: Any = config
            for step in outer:
                inside = inside.get(step) if isinstance(inside, Mapping) else None
            if isinstance(inside, dict) and key in inside:
                del inside[key]
                break
    return {key: value for key, value in config.items() if value != {}}


def _place(config: Mapping[str, Any], one: Flat, llm_given: bool) -> list[str]:
    """Where the parameter's setting stands in this configuration.

    Raises:
        ConfigurationError: nowhere.
    """
    method = config.get("method")
    kind = method.get("type") if isinstance(method, Mapping) else method
    unknown = isinstance(kind, Unfilled | None)
    unknown = unknown or (isinstance(kind, str) and kind not in registry.names("methods"))
    for place in one.places:
        *outer, key = place.split(".")
        if llm_given and "llm" in outer:
            continue
        # Of a method that there is not the configuration's own check will tell.
        if outer[:1] != ["method"] or unknown or key in _settings_of(config, outer):
            return [*outer, key]
    if llm_given and any(place.startswith("method.llm.") for place in one.places):
        told = "the language model that is given has settings of its own"
    elif not isinstance(kind, str):
        told = f"can't be set on {describe(method)}, which has settings of its own"
    else:
        told = f"the method {kind!r} has no such setting"
        if "stages" in _settings_of(config, ["method"]):
            told += "; its stages do: set it there"
    raise ConfigurationError(told)


def _settings_of(config: Mapping[str, Any], outer: list[str]) -> Collection[str]:
    """The settings of the method, or of the language model, that stands at a place."""
    described: Any = config
    for step in outer:
        described = described.get(step) if isinstance(described, Mapping) else None
    kind = described.get("type") if isinstance(described, Mapping) else described
    family: registry.Family = "llms" if "llm" in outer else "methods"
    if not isinstance(kind, str) or kind not in registry.names(family):
        return ()
    return model_of(registry.kind(family, kind)).model_fields


def _has(config: Mapping[str, Any], path: list[str]) -> bool:
    """Whether something is set there.

    Raises:
        ConfigurationError: it is inside an object that cannot be changed.
    """
    inside: Any = config
    for step in path:
        if inside is not None and not isinstance(inside, Mapping | str | Unfilled):
            told = f"can't be set on {describe(inside)} that is ready; set {path[-1]!r} on that"
            raise ConfigurationError(told)
        if not isinstance(inside, Mapping) or step not in inside:
            return False
        inside = inside[step]
    return True


def _set(config: dict[str, Any], path: list[str], value: Any) -> None:
    for step in path[:-1]:
        config = config.setdefault(step, {})
    config[path[-1]] = value
