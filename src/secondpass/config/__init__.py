"""Configurations: YAML, mappings and environment to rerankers and back, presets, JSON Schema."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from secondpass.config.files import (
    extended,
    merged,
    preset,
    preset_purpose,
    read_yaml,
)
from secondpass.config.overrides import Override, beside_ready, overlay, with_parameter_names
from secondpass.config.schema import json_schema
from secondpass.errors import ConfigurationError, NotSerializableError, Problem
from secondpass.reranker import Reranker
from secondpass.settings import (
    describe,
    environment,
    from_mapping,
    model_of,
    not_serializable,
    registry,
    to_mapping,
    yaml_text,
)
from secondpass.settings.registry import preset_names

__all__ = [
    "dump",
    "json_schema",
    "load",
    "merged",
    "preset",
    "preset_names",
    "preset_purpose",
    "read_yaml",
    "resolve",
    "with_llm",
]


def load(config: Mapping[str, Any] | str | PathLike[str]) -> Reranker:
    """A reranker from a mapping or the path of a YAML file.

    Raises:
        ConfigurationError: every problem, with its place in the configuration.
    """
    if isinstance(config, Mapping):
        return _construct(config, "configuration")
    if not isinstance(config, str | PathLike):
        raise ConfigurationError(
            f"give a mapping or the path of a YAML file, not {describe(config)}"
        )
    return _construct(read_yaml(Path(fspath(config))), fspath(config))


def resolve(
    reranker: Reranker | Mapping[str, Any] | str | PathLike[str],
    *,
    llm: Any = None,
    flat: Mapping[str, Override] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Reranker:
    """A reranker from one, a preset name, a mapping, or the path of a YAML file.

    A string is a path if it ends in ``.yaml`` or ``.yml`` or holds a separator, else a preset name.

    Args:
        reranker: as above.
        llm: asked by every method that asks a language model, instead of the configured one.
        flat: an adapter's parameters, by name, which stand over a preset or a file.
        defaults: an adapter's own, where a configuration says nothing.

    Raises:
        ConfigurationError: it is none of these; or a parameter is one that the method does not
            have, was set in a mapping too, or was given beside a ready Reranker.
    """
    flat = flat or {}
    if isinstance(reranker, Reranker):
        if problems := beside_ready(flat):
            raise ConfigurationError(problems)
        if llm is not None:
            raise ConfigurationError("a language model: set it on the Reranker that you give")
        return reranker
    config, about = _described(reranker)
    # What a mapping itself sets; a preset's settings may be overridden.
    own = reranker if isinstance(reranker, Mapping) else {}
    _check_size(config, about)
    try:
        config = extended(config)
    except ConfigurationError as error:
        raise ConfigurationError(error.problems, about) from None
    overrides = overlay(config, flat, own=own, llm_given=llm is not None)
    method = environment.read(config.get("method"))
    if "method" in overrides and isinstance(method, str):
        config["method"] = {"type": method}
    config = merged({**(defaults or {}), **config}, overrides)
    try:
        return _construct(config if llm is None else with_llm(config, llm), about)
    except ConfigurationError as error:
        raise ConfigurationError(with_parameter_names(error.problems, flat), about) from None


def _described(described: Mapping[str, Any] | str | PathLike[str]) -> tuple[dict[str, Any], str]:
    """The configuration that a mapping, a preset's name or a path stands for, and what to call it.

    Raises:
        ConfigurationError: there is none.
    """
    if isinstance(described, Mapping):
        return dict(described), "configuration"
    if not isinstance(described, str | PathLike):
        raise ConfigurationError(
            f"give a preset name, a mapping, a YAML path or a Reranker, not {describe(described)}"
        )
    name = fspath(described)
    named = isinstance(described, str) and not ("/" in name or "\\" in name)
    if not named or Path(name).suffix in {".yaml", ".yml"}:
        return read_yaml(Path(name)), name
    return preset(name), "configuration"


def dump(reranker: Reranker) -> dict[str, Any]:
    """The mapping that :func:`load` makes an equal reranker from; defaults are left out.

    Raises:
        NotSerializableError: it holds an object without a registered name.
    """
    if type(reranker).__init__ is not Reranker.__init__:
        raise not_serializable(reranker, "reranker")
    try:
        written = to_mapping(reranker, registry.dump_part)
    except NotSerializableError as error:
        raise NotSerializableError(error.problems, "to_config") from None
    return written if reranker._order_name is None else {**written, "order": reranker._order_name}


def with_llm(config: Mapping[str, Any], llm: Any) -> dict[str, Any]:
    """A configuration in which ``llm`` is asked, by the method and by its fallbacks.

    Raises:
        ConfigurationError: nothing in it asks a language model.
    """
    found = False

    def replaced(value: Any) -> Any:
        nonlocal found
        value = environment.read(value)
        if isinstance(value, list | tuple):
            return [replaced(item) for item in value]
        if isinstance(value, str):
            value = {"type": value} if _asks(value) else value
        if not isinstance(value, Mapping):
            return value
        own = {key: replaced(item) for key, item in value.items() if key in {"stages", "method"}}
        if _asks(environment.read(value.get("type"))):
            found = True
            own["llm"] = _patient(llm, value.get("llm"))
        return {**value, **own}

    config = {**config, "fallback": _listed(config["fallback"])} if "fallback" in config else config
    parts = {key: replaced(config[key]) for key in ("method", "fallback") if key in config}
    if not found:
        asking = ", ".join(name for name in registry.names("methods") if _asks(name))
        told = f"a language model is given, and no method asks one; these do: {asking}"
        raise ConfigurationError([Problem(("method",), told)])
    return {**config, **parts}


def _listed(fallback: Any) -> Any:
    """A fallback that is named alone as a list."""
    fallback = environment.read(fallback)
    return [fallback] if isinstance(fallback, str) else fallback


def _patient(llm: Any, replaced: Any) -> Any:
    """The language model with the patience that was configured for the one that it replaces."""
    timeout = replaced.get("timeout") if isinstance(replaced, Mapping) else None
    if timeout is None or not hasattr(llm, "timeout"):
        return llm
    llm = copy.copy(llm)
    llm.timeout = environment.read(timeout)
    return llm


def _asks(name: object) -> bool:
    if not isinstance(name, str) or name not in registry.names("methods"):
        return False
    return "llm" in model_of(registry.kind("methods", name)).model_fields


def _construct(config: Mapping[str, Any], about: str) -> Reranker:
    _check_size(config, about)
    try:
        config = extended(config)
        filled = environment.filled(config)
        if not isinstance(filled, Mapping):
            message = "a variable holds a plain value, and this has to be a mapping"
            raise ConfigurationError(message)
        reranker: Reranker = from_mapping(Reranker, filled)
    except ConfigurationError as error:
        problems = environment.told(error.problems, config)
        raise ConfigurationError(problems, about) from None
    except RecursionError:
        message = "is nested too deeply"
    else:
        return reranker
    raise ConfigurationError(message, about)


def _check_size(config: Any, about: str) -> None:
    """Refuse a configuration that is too large, or has no end.

    Raises:
        ConfigurationError: it has.
    """
    if (wrong := yaml_text.too_large(config)) is not None:
        raise ConfigurationError(wrong, about)
