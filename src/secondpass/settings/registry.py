"""Kinds: the configurable classes that ``type: NAME`` selects in a configuration.

Those of secondpass are in :mod:`secondpass.built_in`. Other packages register theirs as entry
points of the group ``secondpass.methods``, ``secondpass.llms``, ``secondpass.terms``,
``secondpass.orderings`` or ``secondpass.contexts``; the value is a configurable class
(:func:`secondpass.settings.configurable`).
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from secondpass.errors import ConfigurationError, NotSerializableError, Problem
from secondpass.settings.messages import COMING_FROM, describe, suggestion
from secondpass.settings.signature import (
    from_mapping,
    is_configurable,
    model_of,
    not_serializable,
    to_mapping,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Family: TypeAlias = Literal["methods", "llms", "terms", "orderings", "contexts"]

_BUILT_IN: dict[Family, dict[str, str]] = {family: {} for family in get_args(Family)}

CONFIGURATION_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
"""How the names of files with a configuration end."""

_LANGUAGE_MODELS = {
    **dict.fromkeys(("openai/", "gpt-", "chatgpt-", "o1", "o3", "o4"), "openai"),
    **dict.fromkeys(("anthropic/", "claude-"), "anthropic"),
    **dict.fromkeys(("gemini/", "vertex_ai/", "gemini-"), "google"),
}
"""How the names of language models begin -> provider. With a slash, as LiteLLM names that."""

_LOCAL_MODEL = re.compile(r"(?:openai/)?gpt-oss|[\w.-]+:(?:e?[0-9][0-9.]*[bm][\w.-]*|latest)\Z")
"""Language models with open weights, such as those that Ollama serves: ``qwen3:8b``."""

_OWN = "…"
"""Stands for a value that the name does not tell."""

_RERANK_MODELS = {
    **dict.fromkeys(("cohere/", "rerank-v", "rerank-english", "rerank-multilingual"), "cohere"),
    **dict.fromkeys(("jina_ai/", "jina-reranker"), "jina"),
    **dict.fromkeys(("voyage/", "rerank-1", "rerank-2"), "voyage"),
    "zerank": "zeroentropy",
}
"""How names of models of rerank APIs begin, and the API."""

_COLBERT = {"type": "late_interaction", "model": _OWN}
_CROSS_ENCODER = {"type": "cross_encoder", "model": _OWN}
_LISTWISE = {"type": "listwise", "llm": _OWN}
_ELSEWHERE: Mapping[str, Mapping[str, Any]] = {
    "colbert": _COLBERT,
    "pylate": _COLBERT,
    "flashrank": _CROSS_ENCODER,
    "llm-layerwise": _CROSS_ENCODER,
    "mxbaiv2": _CROSS_ENCODER,
    "sentence-transformers": _CROSS_ENCODER,
    "t5": {**_CROSS_ENCODER, "family": "monot5"},
    "rankgpt": _LISTWISE,
    "rankllm": _LISTWISE,
    "text-embeddings-inference": {"type": "endpoint", "api": "tei", "base_url": _OWN},
}
"""Kind of reranker by its name in other packages -> method."""


def add_built_in(kinds: Mapping[Family, Mapping[str, str]]) -> None:
    """Add the built-in kinds: by family and name, ``module:class``."""
    for family, paths in kinds.items():
        _BUILT_IN[family].update(paths)


@cache
def _entry_points(family: Family) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=f"secondpass.{family}")}


def names(family: Family) -> list[str]:
    """Every registered name of a family, the built-in ones first."""
    return list(dict.fromkeys([*_BUILT_IN[family], *_entry_points(family)]))


def kind(family: Family, name: str) -> type:
    """The class that is registered under a name.

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
    hint = (meaning(name) or meaning_of_path(name)) if family == "methods" else ""
    hint = hint or suggestion(name, names(family), leads_to_page=family == "methods")
    raise ConfigurationError([Problem(("type",), f"no kind is named {name!r}{hint}")])


def names_in(folder: str) -> list[str]:
    """The names of what a folder of ``data`` describes, in the order of its files."""
    from importlib.resources import files  # costs more to import than this module

    names = sorted(file.name for file in (files("secondpass") / "data" / folder).iterdir())
    return [name.removesuffix(".yaml") for name in names if name.endswith(".yaml")]


def preset_names() -> list[str]:
    """The names of the presets, in alphabetical order."""
    return names_in("presets")


def meaning(name: str, *, as_options: bool = False, caller: str = "") -> str:
    """``; …`` what a name is and how to use it; empty if that is not known.

    Args:
        name: of no method, preset or file, where one of these is expected.
        as_options: whether to use it in options of the command, not in Python or a configuration.
        caller: the class of an adapter that takes a preset, a mapping or ``model=``; empty for
            Reranker.
    """
    if name in preset_names():
        python = f"{caller}({name!r})" if caller else f"Reranker.from_preset({name!r})"
        python += f", or 'preset: {name}' in a configuration"
        use = f"--preset {name}" if as_options else python
        return f"; {name!r} is a preset, which is a whole reranker: use {use}"
    method: str | dict[str, Any]
    if name in names("methods"):
        settings = dict.fromkeys(required_settings(name), _OWN)
        what, method = "it is a method", {"type": name, **settings} if settings else name
    elif name in names_in("rerank_apis"):
        what, method = "it is a rerank API", {"type": "endpoint", "api": name, "model": _OWN}
        if not _has_address(name):
            method["base_url"] = _OWN
    elif name in names("llms"):
        what = "it is a provider of language models"
        method = {"type": "graded", "llm": {"type": name, "model": _OWN}}
    elif name and os.path.isdir(name):
        what, method = "if it is a reranking model", {"type": "cross_encoder", "model": name}
    elif llm := language_model(name):
        what, method = "if it is a language model", {"type": "graded", "llm": llm}
    elif endpoint := _by_beginning(name, "api", _RERANK_MODELS):
        what, method = "if it is a model of that rerank API", {"type": "endpoint", **endpoint}
    elif _may_be_on_hub(name):
        what, method = "if it is a reranking model", {"type": "cross_encoder", "model": name}
    elif elsewhere := _ELSEWHERE.get(name.lower()):
        what = f"in other packages it is a kind of reranker ({COMING_FROM}); here"
        method = {**elsewhere}
    else:
        return ""
    if as_options:
        return f"; {what}, use {in_options({'method': method})}"
    python = _in_python(method, caller).replace(repr(_OWN), _OWN)
    # JSON is also YAML.
    in_yaml = method if isinstance(method, str) else json.dumps(method, ensure_ascii=False)
    return f"; {what}, use {python}, or 'method: {in_yaml}' in a configuration"


def _in_python(method: str | dict[str, Any], caller: str) -> str:
    """The call that makes a reranker of a method."""
    if not caller:
        return f"Reranker({method!r})"
    model = method.get("model") if isinstance(method, dict) else None
    if method == {**_CROSS_ENCODER, "model": model}:
        return f"{caller}(model={model!r})"  # of the adapters' default preset
    config = {"method": method}
    return f"{caller}({config!r})"


def meaning_of_path(name: str) -> str:
    """``; …`` what is wrong with a path where no path is expected; empty if it is none."""
    if Path(name).suffix.lower() in CONFIGURATION_SUFFIXES:
        return f"; if it is a file, use Reranker.from_config({name!r})"
    if name.startswith(("/", "./", "../", "~")) or "\\" in name:
        return "; there is no such folder"
    return ""


def _has_address(api: str) -> bool:
    """Whether the description of a rerank API has its address; others are self-hosted."""
    from importlib.resources import files

    path = files("secondpass") / "data" / "rerank_apis" / f"{api}.yaml"
    return re.search("^url:", path.read_text("utf-8"), re.MULTILINE) is not None


def required_settings(method: str) -> list[str]:
    """The names of the settings that a method of this name must have."""
    try:
        required: list[str] = model_of(kind("methods", method)).model_json_schema()["required"]
    except (ConfigurationError, KeyError):  # of another package that is broken; or none
        return []
    return required


def in_options(config: Mapping[str, Any], path: str = "") -> str:
    """A configuration as options of the command."""
    options = []
    for key, value in config.items():
        if isinstance(value, Mapping):
            options.append(in_options(value, f"{path}{key}."))
        else:
            quoted = value if value == _OWN else shlex.quote(value)
            options.append(f"--set {path}{key}={quoted}")
    return " ".join(options)


def language_model(name: str) -> dict[str, str] | None:
    """The settings of a language model, as far as its name tells them."""
    if _LOCAL_MODEL.match(name):
        return {"type": "openai", "model": name, "base_url": _OWN}
    owner, _, model = name.partition("/")
    if owner == "azure" and model:
        return {"type": "openai", "model": model, "base_url": _OWN}
    return _by_beginning(name, "type", _LANGUAGE_MODELS)


def _by_beginning(name: str, setting: str, values: Mapping[str, str]) -> dict[str, str] | None:
    """The model of this name, and the setting whose values are known by how names begin."""
    for start, value in values.items():
        model = name.removeprefix(start) if start.endswith("/") else name
        if name.startswith(start) and model:
            return {setting: value, "model": model}
    return None


def _may_be_on_hub(name: str) -> bool:
    """Whether it may be the name of a model on the Hugging Face hub."""
    owner, slash, model = name.partition("/")
    return bool(
        slash
        and owner.strip(".~")
        and model
        and "/" not in model
        and Path(name).suffix.lower() not in CONFIGURATION_SUFFIXES
    )


def name_of(family: Family, instance: object) -> str | None:
    """The name that an object's class is registered under, or None."""
    cls = type(instance)
    path = f"{cls.__module__}:{cls.__qualname__}"
    for name, built_in in _BUILT_IN[family].items():
        if built_in == path:
            return name
    for name in _entry_points(family):
        with suppress(ConfigurationError):  # the entry point of a broken package
            if kind(family, name) is cls:
                return name
    return None


def build(family: Family, settings: Mapping[str, Any]) -> Any:
    """Construct the object that a mapping with a ``type`` describes.

    Raises:
        ConfigurationError: the type is missing or unknown, or its settings are wrong.
    """
    rest = dict(settings)
    name = rest.pop("type", None)
    if name is None and "preset" in rest:
        message = "a preset can be named only at the top of a configuration"
        message += ", which Reranker.from_config(…) takes"
        raise ConfigurationError([Problem(("preset",), message)])
    if name is None and family == "methods" and "method" in rest:
        message = "this is a whole configuration; use Reranker.from_config(…)"
        raise ConfigurationError([Problem((), message)])
    if name is None:
        message = f"is required; known are: {', '.join(names(family))}"
        raise ConfigurationError([Problem(("type",), message)])
    if not isinstance(name, str):
        raise ConfigurationError([Problem(("type",), f"must be a name, not {describe(name)}")])
    return from_mapping(kind(family, name), rest)


def dump(family: Family, instance: Any, where: str) -> dict[str, Any]:
    """The mapping from which :func:`build` creates an equal object; ``where`` is its setting.

    Raises:
        NotSerializableError: its class, or that of an object in its settings, is not registered.
    """
    name = name_of(family, instance)
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
    with a ``type`` if its class is registered.
    """
    if hasattr(value, "as_setting"):
        return value.as_setting(where)
    for family in _BUILT_IN:
        if name_of(family, value) is not None:
            return dump(family, value, where)
    if is_configurable(value):
        return dump_settings(value, where)
    raise not_serializable(value, where)


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
