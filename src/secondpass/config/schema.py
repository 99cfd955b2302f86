"""The JSON Schema of configurations.

It is derived from the signatures that validate settings, so that both accept the same. Only the
loader checks what depends on two settings, such as a blend and the kind of a method's scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from secondpass.config.files import preset
from secondpass.methods import Stage
from secondpass.reranker import Reranker
from secondpass.settings import environment, model_of, registry
from secondpass.settings.registry import preset_names

_Schema: TypeAlias = dict[str, Any]

_PLAIN = frozenset({"string", "integer", "number", "boolean", "null"})
_ANNOTATIONS = ("default", "description")


def json_schema() -> _Schema:
    """The JSON Schema (2020-12) of configurations, for editors and validators."""
    from secondpass.strategies.cascade import CascadeStage

    methods = registry.schemas("methods")
    bare = {"enum": registry.bare_names(methods)}
    definitions: dict[str, _Schema] = {
        "method": {"anyOf": [bare, *methods]},
        "stage": {"anyOf": [bare, *_beside(Stage, methods)]},
        "cascade_stage": {"anyOf": [bare, *_beside(CascadeStage, methods)]},
        "llm": {"anyOf": registry.schemas("llms")},
        "reranker": model_of(Reranker).model_json_schema(),
    }
    presets = {
        f"preset.{name}": _over(preset(name), definitions["reranker"], definitions)
        for name in preset_names()
    }
    parts = {
        **definitions,
        **presets,
        # The preset is named by a variable, so what it leaves out is unknown.
        "any_preset": {
            "properties": {key: {} for key in ["preset", *definitions["reranker"]["properties"]]},
            "additionalProperties": False,
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "secondpass configuration",
        "type": "object",
        "if": {"required": ["preset"]},
        "then": {
            "properties": {"preset": _with_variable({"enum": preset_names()})},
            "allOf": [
                *(_when({"const": key.removeprefix("preset.")}, key) for key in presets),
                _when({"type": "object"}, "any_preset"),
            ],
        },
        "else": {"$ref": "#/$defs/reranker"},
        "$defs": {name: _finished(part) for name, part in parts.items()},
    }


def _when(preset_schema: _Schema, name: str) -> _Schema:
    return {
        "if": {"properties": {"preset": preset_schema}},
        "then": {"$ref": f"#/$defs/{name}"},
    }


def _beside(cls: type, methods: list[_Schema]) -> list[_Schema]:
    """The schemas of an object around a method: its settings and the method's in one mapping."""
    own = model_of(cls, without=("method",)).model_json_schema()["properties"]
    return [
        *({**option, "properties": {**option["properties"], **own}} for option in methods),
        model_of(cls).model_json_schema(),
    ]


def _over(base: Mapping[str, Any], schema: _Schema, definitions: Mapping[str, _Schema]) -> _Schema:
    """The schema of configurations that are laid over a preset."""
    laid_over = _part_of(base, schema, definitions) or schema
    properties: _Schema = {"preset": {}}
    for name, part in laid_over["properties"].items():
        whole = {"$ref": f"#/$defs/reranker/properties/{name}"}
        properties[name] = whole if part is schema["properties"][name] else {"anyOf": [whole, part]}
    return {**laid_over, "properties": properties}


def _part_of(
    base: Mapping[str, Any], schema: _Schema, definitions: Mapping[str, _Schema]
) -> _Schema | None:
    """The schema of mappings that are merged into ``base``; None if none can be.

    Settings that ``base`` has are not required.
    """
    schema = definitions.get(schema.get("x-definition", ""), schema)
    for option in schema.get("anyOf", [schema]):
        properties = option.get("properties")
        if properties is None and isinstance(item := option.get("additionalProperties"), dict):
            properties = dict.fromkeys(base, item)  # a mapping by name, such as orders
        if properties is None or properties.get("type", {}).get("const") != base.get("type"):
            continue
        # A mapping with a type would replace the base.
        properties = {name: part for name, part in properties.items() if name != "type"}
        for name, below in base.items():
            if isinstance(below, Mapping) and not environment.names_variable(below):
                inside = _part_of(below, properties.get(name, {}), definitions)
                if inside is not None:
                    properties[name] = {"anyOf": [properties[name], inside]}
        required = [name for name in option.get("required", ()) if name not in base]
        return {**option, "properties": properties, "required": required}
    return None


def _finished(schema: _Schema) -> _Schema:
    """A definition with references to others, and variables allowed for every plain value."""
    return _with_variable(schema) if "anyOf" in schema else _inside(schema)


def _with_variable(schema: _Schema) -> _Schema:
    """The schema of a value, with ``{env: NAME, default: VALUE}`` allowed if it can be plain."""
    plain = _plain(schema)
    schema = _inside(schema)
    if not plain:
        return schema
    annotations = {key: schema[key] for key in _ANNOTATIONS if key in schema}
    rest = {key: value for key, value in schema.items() if key not in annotations}
    variable = {
        "type": "object",
        "properties": {
            "env": {"type": "string", "minLength": 1},
            "default": plain[0] if len(plain) == 1 else {"anyOf": plain},
        },
        "required": ["env"],
        "additionalProperties": False,
    }
    options = rest["anyOf"] if rest.keys() == {"anyOf"} else [rest]
    return {**annotations, "anyOf": [*options, variable]}


def _plain(schema: _Schema) -> list[_Schema]:
    """The options of a schema that are plain values: no lists and no mappings."""
    if "anyOf" in schema:
        return [part for option in schema["anyOf"] for part in _plain(option)]
    if "const" in schema or "enum" in schema or schema.get("type") in _PLAIN:
        return [{key: value for key, value in schema.items() if key not in _ANNOTATIONS}]
    return []


def _inside(schema: _Schema) -> _Schema:
    """The schema of a value, with variables allowed inside its lists and mappings."""
    if "x-definition" in schema:
        rest = {key: schema[key] for key in _ANNOTATIONS if key in schema}
        return {**rest, "$ref": f"#/$defs/{schema['x-definition']}"}
    # Titles only repeat the names of settings.
    result = {key: value for key, value in schema.items() if key != "title"}
    if "anyOf" in schema:
        result["anyOf"] = [_inside(option) for option in schema["anyOf"]]
    if "properties" in schema:
        parts = schema["properties"].items()
        result["properties"] = {name: _with_variable(part) for name, part in parts}
    if "items" in schema:
        result["items"] = _with_variable(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = _with_variable(schema["additionalProperties"])
        # A mapping of this form names a variable.
        result["not"] = {
            "required": ["env"],
            "properties": {"env": {}, "default": {}},
            "additionalProperties": False,
        }
    return result
