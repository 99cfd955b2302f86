"""Configurations: YAML, mappings and environment to rerankers and back, presets, JSON Schema."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from secondpass import environment, registry
from secondpass.errors import ConfigurationError, NotSerializableError, Problem
from secondpass.flat import Flat, beside_ready, laid_over, renamed
from secondpass.reranker import Reranker
from secondpass.settings import (
    describe,
    from_mapping,
    model_of,
    not_serializable,
    suggestion,
    to_mapping,
)


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
    flat: Mapping[str, Flat] | None = None,
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
    named = not isinstance(reranker, Mapping)
    _check_size(config, about)
    overrides = laid_over(config, flat, named=named, llm_given=llm is not None)
    method = environment.read(config.get("method"))
    if "method" in overrides and isinstance(method, str):
        config["method"] = {"type": method}
    config = merged({**(defaults or {}), **config}, overrides)
    try:
        return _construct(config if llm is None else with_llm(config, llm), about)
    except ConfigurationError as error:
        raise ConfigurationError(renamed(error.problems, flat), about) from None


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


def preset_names() -> list[str]:
    """The names of the presets, in alphabetical order."""
    folder = files("secondpass") / "presets"
    return sorted(file.name[:-5] for file in folder.iterdir() if file.name.endswith(".yaml"))


def preset_purpose(name: str) -> str:
    """What a preset is for, in the words at the head of its file.

    Raises:
        ConfigurationError: no such preset.
    """
    preset(name)
    text = (files("secondpass") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")
    words = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(line.removeprefix("#").strip() for line in words)


def preset(name: str, **overrides: Any) -> dict[str, Any]:
    """The configuration of a preset, with ``overrides`` merged in.

    A mapping in ``overrides`` is merged into the preset's mapping at that key, unless it has a
    ``type`` of its own: then it stands in its place, as every other value does.

    Raises:
        ConfigurationError: no such preset.
    """
    if not isinstance(name, str) or name not in preset_names():
        hint = suggestion(name, preset_names()) if isinstance(name, str) else ""
        raise ConfigurationError(f"no preset is named {describe(name)}{hint}")
    text = (files("secondpass") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")
    return merged(_parse(text, name), overrides)


def merged(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``overrides`` laid over it, mapping by mapping."""
    result = dict(base)
    for key, value in overrides.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping) and "type" not in value:
            result[key] = merged(below, value)
        else:
            result[key] = value
    return result


def dump(reranker: Reranker) -> dict[str, Any]:
    """The mapping that :func:`load` makes an equal reranker from; defaults are left out.

    Raises:
        NotSerializableError: it holds an object without a registered name.
    """
    if type(reranker).__init__ is not Reranker.__init__:
        raise not_serializable(reranker, "reranker")
    try:
        return to_mapping(reranker, registry.dump_part)
    except NotSerializableError as error:
        raise NotSerializableError(error.problems, "to_config") from None


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of configurations, for editors and validators."""
    schema: dict[str, Any] = _or_variable(model_of(Reranker).model_json_schema())
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "secondpass configuration"
    return schema


_VARIABLE = {
    "type": "object",
    "properties": {"env": {"type": "string"}, "default": {}},
    "required": ["env"],
    "additionalProperties": False,
}
_PLAIN = {"string", "integer", "number", "boolean"}


def _or_variable(schema: Any) -> Any:
    """The schema, with ``{env: NAME, default: VALUE}`` allowed for every plain setting."""
    if isinstance(schema, list):
        return [_or_variable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    walked = {key: _or_variable(part) for key, part in schema.items()}
    properties = walked.get("properties")
    if isinstance(properties, dict):
        for name, own in properties.items():
            options = own.get("anyOf", [own])
            if any("enum" in option or option.get("type") in _PLAIN for option in options):
                properties[name] = {**own, "anyOf": [*options, _VARIABLE]}
                for key in () if "anyOf" in own else own.keys() - {"title", "default"}:
                    del properties[name][key]
    return walked


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        ConfigurationError: it cannot be read, is not YAML, or holds no mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError("there is no such file", str(path)) from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot be read ({type(error).__name__})", str(path)) from None
    return _parse(text, str(path))


def _parse(text: str, about: str) -> dict[str, Any]:
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses a key that is there twice; plain YAML loaders take the last without a word."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key_node, _ in node.value:
                key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
                if key is not None and key != "<<" and key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key!r} is there twice", key_node.start_mark
                    )
                seen.add(key)
            return super().construct_mapping(node, deep)

    try:
        value = yaml.load(text, Loader)
    except environment.NOT_YAML as error:
        raise ConfigurationError(f"not YAML: {type(error).__name__}", about) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        why = getattr(error, "problem", None) or "it cannot be parsed"
        raise ConfigurationError(f"not YAML{where}: {why}", about) from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"must hold a mapping, not {describe(value)}", about)
    return value


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

    parts = {key: replaced(config[key]) for key in ("method", "fallback") if key in config}
    if not found:
        asking = ", ".join(name for name in registry.names("methods") if _asks(name))
        told = f"a language model is given, and no method asks one; these do: {asking}"
        raise ConfigurationError([Problem(("method",), told)])
    return {**config, **parts}


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


_MOST_PARTS = 20_000
"""Of a configuration. With YAML's references a short file can describe a huge one, or itself."""


def _check_size(config: Any, about: str) -> None:
    """Refuse a configuration that is too large, or has no end.

    Raises:
        ConfigurationError: it has.
    """
    left, parts = [config], 0
    while left:
        parts += 1
        if parts > _MOST_PARTS:
            raise ConfigurationError("is too large, or refers to itself", about)
        value = left.pop()
        if isinstance(value, Mapping):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)


def _construct(config: Mapping[str, Any], about: str) -> Reranker:
    _check_size(config, about)
    try:
        reranker: Reranker = from_mapping(Reranker, environment.filled(config))
    except ConfigurationError as error:
        problems = environment.told(error.problems, config)
        raise ConfigurationError(problems, about) from None
    return reranker
