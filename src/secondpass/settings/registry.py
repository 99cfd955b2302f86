"""Kinds: the configurable classes that ``type: NAME`` selects in a configuration.

Those of secondpass are in :mod:`secondpass.built_in`. Other packages register theirs as entry
points of the group ``secondpass.methods``, ``secondpass.llms``, ``secondpass.terms``,
``secondpass.orderings`` or ``secondpass.contexts``; the value is a configurable class
(:func:`secondpass.settings.configurable`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from secondpass.errors import ConfigurationError, NotSerializableError, Problem
from secondpass.settings.messages import describe, suggestion
from secondpass.settings.signature import (
    from_mapping,
    is_configurable,
    model_of,
    not_serializable,
    parameters_of,
    to_mapping,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Family: TypeAlias = Literal["methods", "llms", "terms", "orderings", "contexts"]

_NOUNS: Mapping[Family, str] = {
    "methods": "method",
    "llms": "provider of language models",
    "terms": "term",
    "orderings": "ordering",
    "contexts": "context",
}

_BUILT_IN: dict[Family, dict[str, str]] = {family: {} for family in get_args(Family)}


def add_built_in(kinds: Mapping[Family, Mapping[str, str]]) -> None:
    """Add the built-in kinds: by family and name, ``module:class``."""
    for family, paths in kinds.items():
        _BUILT_IN[family].update(paths)


_RERANKER: list[tuple[type, Mapping[str, type]]] = []


def add_reranker(cls: type, sections: Mapping[str, type]) -> None:
    """Add the class of rerankers, and the classes of their settings that have settings, by name."""
    _RERANKER[:] = [(cls, sections)]


def reranker() -> tuple[type, Mapping[str, type]]:
    """What :func:`add_reranker` has added."""
    return _RERANKER[0]


@cache
def _entry_points(family: Family) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=f"secondpass.{family}")}


def names(family: Family) -> list[str]:
    """Every registered name of a family, the built-in ones first."""
    return list(dict.fromkeys([*_BUILT_IN[family], *_entry_points(family)]))


def kind(family: Family, name: str, hint: Callable[[str], str] | None = None) -> type:
    """The class that is registered under a name.

    Args:
        family: of the name.
        name: the name.
        hint: returns what to say of an unknown name; empty for what names are similar.

    Raises:
        ConfigurationError: there is none, or the package that provides it cannot be loaded.
    """
    if name in _BUILT_IN[family]:
        module, _, attribute = _BUILT_IN[family][name].partition(":")
        built_in: type = getattr(importlib.import_module(module), attribute)
        return built_in
    if name in _entry_points(family):
        try:
            loaded: type = _entry_points(family)[name].load()
        except Exception as error:
            reason = type(error).__name__
            message = f"the package that provides {name!r} cannot be loaded ({reason})"
            raise ConfigurationError([Problem(("type",), message)]) from error
        return loaded
    explanation = "" if hint is None else hint(name)
    explanation = explanation or suggestion(name, names(family), leads_to_page=family == "methods")
    raise ConfigurationError(
        [Problem(("type",), f"no {_NOUNS[family]} is named {name!r}{explanation}")]
    )


def names_in(folder: str) -> list[str]:
    """The names of what a folder of ``data`` describes, in the order of its files."""
    from importlib.resources import files  # costs more to import than this module

    names = sorted(file.name for file in (files("secondpass") / "data" / folder).iterdir())
    return [name.removesuffix(".yaml") for name in names if name.endswith(".yaml")]


def preset_names() -> list[str]:
    """The names of the presets, in alphabetical order."""
    return names_in("presets")


def name_of(family: Family, cls: type) -> str | None:
    """The name that a class is registered under, or None."""
    path = f"{cls.__module__}:{cls.__qualname__}"
    for name, built_in in _BUILT_IN[family].items():
        if built_in == path:
            return name
    for name in _entry_points(family):
        with suppress(ConfigurationError):  # the entry point of a broken package
            if kind(family, name) is cls:
                return name
    return None


def build(
    family: Family,
    settings: Mapping[str, Any],
    hint: Callable[[str], str] | None = None,
    beside: Collection[str] = (),
) -> Any:
    """Construct the object that a mapping with a ``type`` describes.

    ``hint`` is as for :func:`kind`, and ``beside`` as for :func:`from_mapping`.

    Raises:
        ConfigurationError: the type is missing or unknown, or its settings are wrong.
    """
    rest = dict(settings)
    name = rest.pop("type", None)
    if name is None and "preset" in rest:
        named = rest["preset"]
        message = "a preset can be named only at the top of a configuration"
        if hint is not None and named in preset_names() and (beside or len(rest) == 1):
            message += hint(named)
        else:
            message += ", which Reranker.from_config(…) takes"
        raise ConfigurationError([Problem(("preset",), message)])
    if name is None and family == "methods" and "method" in rest:
        message = "this is a whole configuration; use Reranker.from_config(…)"
        raise ConfigurationError([Problem((), message)])
    if name is None:
        message = f"is required; known are: {', '.join(names(family))}"
        meant = next((key for key, value in rest.items() if _is_name(family, value)), None)
        if meant is not None:
            message = f"is required; did you mean 'type' in place of {meant!r}?"
        elif family == "methods" and isinstance(rest.get("model"), str):
            message += "; write {'type': 'cross_encoder', 'model': …} for a model of Hugging Face"
        raise ConfigurationError([Problem(("type",), message)])
    if not isinstance(name, str):
        raise ConfigurationError([Problem(("type",), f"must be a name, not {describe(name)}")])
    return from_mapping(kind(family, name, hint), rest, beside)


def _is_name(family: Family, value: object) -> bool:
    return isinstance(value, str) and value in names(family)


def dump(family: Family, instance: Any, where: str) -> dict[str, Any]:
    """The mapping from which :func:`build` creates an equal object; ``where`` is its setting.

    Raises:
        NotSerializableError: its class, or that of an object in its settings, is not registered.
    """
    name = name_of(family, type(instance))
    if name is None:
        raise not_serializable(instance, where)
    return {"type": name, **dump_settings(instance, where)}


def dump_settings(instance: Any, where: str) -> dict[str, Any]:
    """The settings of a configurable object, without its ``type``; otherwise as :func:`dump`."""
    try:
        return to_mapping(instance, dump_part)
    except NotSerializableError as error:
        problems = [problem.under((where,)) for problem in error.problems]
        raise NotSerializableError(problems) from None


def dump_part(value: Any, where: str) -> Any:
    """The form of an object in a configuration, as the setting ``where``.

    The result of its method ``as_setting(where)`` if it has one, else the mapping of its settings,
    with a ``type`` if its class is registered. Variables in it are as in :func:`to_mapping`.
    """
    if hasattr(value, "as_setting"):
        return value.as_setting(where)
    for family in _BUILT_IN:
        if name_of(family, type(value)) is not None:
            return dump(family, value, where)
    if is_configurable(value):
        return dump_settings(value, where)
    raise not_serializable(value, where)


def holder(value: Any, name: object) -> Any:
    """The configurable object that has a setting: the value, or what it wraps; None if none has.

    A kind has the setting ``type``.
    """
    while value is not None:
        cls: type = type(value)
        own = is_configurable(value) and name in parameters_of(cls)
        if own or (name == "type" and _is_kind(value)):
            return value
        scorer = getattr(value, "scorer", None)
        value = getattr(value, "method", None) if scorer is None else scorer
    return None


def _is_kind(value: object) -> bool:
    return any(name_of(family, type(value)) is not None for family in _BUILT_IN)


def schemas(family: Family) -> list[dict[str, Any]]:
    """The JSON Schemas of the mappings that :func:`build` takes, one for each kind."""
    options = []
    for name in names(family):
        try:
            option = model_of(kind(family, name)).model_json_schema()
        except Exception:
            if name in _BUILT_IN[family]:
                raise
            option = {}  # a broken package: any settings
        option["title"] = name
        option["properties"] = {"type": {"const": name}, **option.get("properties", {})}
        option["required"] = ["type", *option.get("required", [])]
        options.append(option)
    return options


def bare_names(options: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of those kinds, given by their schemas, that have no required setting."""
    return [
        option["properties"]["type"]["const"]
        for option in options
        if option["required"] == ["type"]
    ]
