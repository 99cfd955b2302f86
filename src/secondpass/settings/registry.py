"""Kinds by name.

``type: cross_encoder`` in a configuration names a kind. The kinds that ship with secondpass are
listed here by import path, so that none is imported before it is used. Other packages add theirs
by entry point, in the group ``secondpass.methods``, ``secondpass.llms``, ``secondpass.orderings``
or ``secondpass.contexts``; the value is a configurable class
(:func:`secondpass.settings.configurable`).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from secondpass.errors import ConfigurationError, NotSerializableError, Problem
from secondpass.settings import (
    describe,
    from_mapping,
    is_configurable,
    model_of,
    not_serializable,
    suggestion,
    to_mapping,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Family: TypeAlias = Literal["methods", "llms", "orderings", "contexts"]

_SHIPPED: dict[Family, dict[str, str]] = {
    "methods": {
        "cross_encoder": "secondpass.scorers.cross_encoder:CrossEncoderScorer",
        "embedded": "secondpass.scorers.embedded:EmbeddedScorer",
        "lexical": "secondpass.scorers.lexical:LexicalScorer",
        "decisions": "secondpass.strategies.decisions:Decisions",
        "endpoint": "secondpass.strategies.endpoint:Endpoint",
        "graded": "secondpass.strategies.graded:Graded",
        "listwise": "secondpass.strategies.listwise:Listwise",
        "cascade": "secondpass.strategies.cascade:Cascade",
    },
    "llms": {
        "openai": "secondpass.llms.openai:OpenAIChat",
        "anthropic": "secondpass.llms.anthropic:AnthropicMessages",
        "google": "secondpass.llms.google:GoogleGenAI",
    },
    "orderings": {
        "tiers": "secondpass.ordering:Tiers",
        "lost_in_the_middle": "secondpass.ordering:LostInTheMiddle",
    },
    "contexts": {
        "project": "secondpass.prompts.context:ProjectContext",
    },
}


@cache
def _added(family: Family) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=f"secondpass.{family}")}


def names(family: Family) -> list[str]:
    """Every registered name of a family, shipped ones first."""
    return list(dict.fromkeys([*_SHIPPED[family], *_added(family)]))


def kind(family: Family, name: str) -> type:
    """The class that a name stands for.

    Raises:
        ConfigurationError: no such name, with the nearest one that there is.
    """
    if name in _SHIPPED[family]:
        module, _, attribute = _SHIPPED[family][name].partition(":")
        found: type = getattr(importlib.import_module(module), attribute)
        return found
    if name in _added(family):
        try:
            loaded: type = _added(family)[name].load()
        except Exception as error:
            told = f"the package that provides {name!r} cannot be loaded ({type(error).__name__})"
            raise ConfigurationError([Problem(("type",), told)]) from error
        return loaded
    hint = suggestion(name, names(family))
    if family == "methods" and name in preset_names():
        hint = (
            f"; {name!r} is a preset, which is a whole reranker: "
            f"use Reranker.from_preset({name!r}), or 'preset: {name}' in a configuration"
        )
    raise ConfigurationError([Problem(("type",), f"no kind is named {name!r}{hint}")])


def preset_names() -> list[str]:
    """The names of the presets, in alphabetical order."""
    folder = files("secondpass") / "config" / "presets"
    return sorted(file.name[:-5] for file in folder.iterdir() if file.name.endswith(".yaml"))


def name_of(family: Family, instance: object) -> str | None:
    """The registered name of an object's class, or None."""
    cls = type(instance)
    path = f"{cls.__module__}:{cls.__qualname__}"
    for name, shipped in _SHIPPED[family].items():
        if shipped == path:
            return name
    for name in _added(family):
        try:
            if kind(family, name) is cls:
                return name
        except ConfigurationError:
            continue  # another package's broken entry
    return None


def build(family: Family, settings: Mapping[str, Any]) -> Any:
    """Construct the object that a mapping with a ``type`` describes.

    Raises:
        ConfigurationError: for a missing or unknown type, or wrong settings of that kind.
    """
    rest = dict(settings)
    name = rest.pop("type", None)
    if name is None and "preset" in rest:
        message = "a preset can be named only at the top of a configuration"
        raise ConfigurationError([Problem(("preset",), message)])
    if name is None:
        raise ConfigurationError(
            [Problem(("type",), f"is required; known are: {', '.join(names(family))}")]
        )
    if not isinstance(name, str):
        raise ConfigurationError([Problem(("type",), f"must be a name, not {describe(name)}")])
    return from_mapping(kind(family, name), rest)


def dump(family: Family, instance: Any, where: str) -> dict[str, Any]:
    """The mapping that :func:`build` makes ``instance`` from.

    Raises:
        NotSerializableError: its class has no registered name, or that of something inside it.
    """
    name = name_of(family, instance)
    if name is None:
        raise not_serializable(instance, where)
    return {"type": name, **dump_settings(instance, where)}


def dump_settings(instance: Any, where: str) -> dict[str, Any]:
    """The settings of a configurable object that is itself the setting ``where``.

    Raises:
        NotSerializableError: one of them cannot be written.
    """
    try:
        return to_mapping(instance, dump_part)
    except NotSerializableError as error:
        inside = [problem.under((where,)) for problem in error.problems]
        raise NotSerializableError(inside) from None


def dump_part(value: Any, where: str) -> Any:
    """What a configuration holds for an object that is a setting of another.

    With its ``type`` where the class has a registered name. An object that stands for another has a
    method ``as_setting(where)`` of its own.

    Raises:
        NotSerializableError: no configuration can describe it.
    """
    if hasattr(value, "as_setting"):
        return value.as_setting(where)
    for family in _SHIPPED:
        if name_of(family, value) is not None:
            return dump(family, value, where)
    if is_configurable(value):
        return dump_settings(value, where)
    raise not_serializable(value, where)


def schemas(family: Family) -> list[dict[str, Any]]:
    """JSON Schemas of the mappings that :func:`build` takes, one for each kind."""
    options = []
    for name in names(family):
        try:
            own = model_of(kind(family, name)).model_json_schema()
        except Exception:
            if name in _SHIPPED[family]:
                raise
            own = {"properties": {}}  # another package's: any settings
        own["properties"] = {"type": {"const": name}, **own.get("properties", {})}
        own["required"] = ["type", *own.get("required", [])]
        options.append(own)
    return options


def bare_names(options: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of the kinds with these schemas those whose name says all: no setting is required."""
    return [
        option["properties"]["type"]["const"]
        for option in options
        if option["required"] == ["type"]
    ]
