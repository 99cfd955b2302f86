"""The JSON Schema of configurations.

It is derived from the signatures that validate settings, so that both accept the same. Only the
loader checks what depends on two settings, such as a blend and the kind of a method's scores.

Each class is described once, in ``$defs``. A mapping with the settings of two classes, or one that
is laid over a preset, refers to their properties one by one. ``unevaluatedProperties`` would be
shorter, but the language server for YAML ignores it (redhat-developer/yaml-language-server#478).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from secondpass.settings import definition, environment, model_of, registry
from secondpass.settings.loading import preset
from secondpass.settings.registry import preset_names

_Schema: TypeAlias = dict[str, Any]
_Definitions: TypeAlias = dict[str, _Schema]

_PLAIN = frozenset({"string", "integer", "number", "boolean", "null"})


def json_schema(whole: type, around: Mapping[str, type]) -> _Schema:
    """The JSON Schema (2020-12) of configurations, for editors and validators.

    Args:
        whole: the class that a configuration describes.
        around: classes around a method, by name, whose settings may stand beside the method's.
    """
    # Signatures refer to these names, so nothing else may be defined under them.
    definitions: _Definitions = {name: {} for name in ("method", "llm", *around)}
    kinds = registry.schemas("methods")
    bare = {"enum": registry.bare_names(kinds)}
    methods = [_shared(kind, definitions) for kind in kinds]
    definitions["method"] = {"anyOf": [bare, *methods]}
    llms = [_shared(kind, definitions) for kind in registry.schemas("llms")]
    definitions["llm"] = {"anyOf": llms}
    for name, cls in around.items():
        definitions[name] = {"anyOf": [bare, *_beside(cls, methods, definitions)]}
    reranker = _shared(model_of(whole).model_json_schema(), definitions)
    presets = {
        name: _part_of(preset(name), reranker, definitions, {"preset": {}})
        for name in preset_names()
    }
    # The preset is named by a variable, so what it leaves out is unknown.
    any_preset = {
        "properties": {key: {} for key in ["preset", *_properties(reranker, definitions)]},
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "secondpass configuration",
        "type": "object",
        "if": {"required": ["preset"]},
        "then": {
            "properties": {"preset": _with_variable({"enum": preset_names()})},
            "allOf": [
                *(_when({"const": name}, part) for name, part in presets.items()),
                _when({"type": "object"}, any_preset),
            ],
        },
        "else": _inside(reranker),
        "$defs": {name: _with_variable(part) for name, part in definitions.items()},
    }


def _when(preset_schema: _Schema, schema: _Schema) -> _Schema:
    return {"if": {"properties": {"preset": preset_schema}}, "then": _inside(schema)}


# ---------------------------------------------------------------------- definitions


def _shared(schema: _Schema, definitions: _Definitions) -> _Schema:
    """The schema of a value, with references in place of what settings have in common.

    These are the objects that classes describe, and plain values, such as ``integer_minimum_1``.
    They are added to the definitions.
    """
    options = _options(schema)
    plain = [_without_annotations(option) for option in options if _is_plain(option)]
    if plain and not any(option.keys() & {"const", "enum"} for option in plain):
        name = "_or_".join(map(_words, plain))
        plain = [_defined(name, {"anyOf": plain}, definitions)]
    others = [_shared_inside(option, definitions) for option in options if not _is_plain(option)]
    shared = [*others, *plain]
    return {**_annotations(schema), **(shared[0] if len(shared) == 1 else {"anyOf": shared})}


def _shared_inside(option: _Schema, definitions: _Definitions) -> _Schema:
    """:func:`_shared` for one option: the schema of lists or mappings, or a reference."""
    result = _mapped(option, lambda part: _shared(part, definitions))
    title = result.pop("title", None)
    return _defined(title, result, definitions) if title and "properties" in result else result


def _words(plain: _Schema) -> str:
    """The schema of a plain value in words, which need not be unambiguous."""
    bounds = (
        f"{key}_{bound:g}" if isinstance(bound, int | float) else key
        for key, bound in plain.items()
        if key != "type"
    )
    return "_".join([plain["type"], *bounds])


def _defined(name: str, schema: _Schema, definitions: _Definitions) -> _Schema:
    """A reference to a definition of this name, which is added unless it is there.

    The name gets a number if another schema has it: other packages name kinds and classes too.
    """
    name = re.sub(r"[^\w.-]", "_", name)  # references are JSON pointers
    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return definition(next(n for n in names if definitions.setdefault(n, schema) == schema))


def _properties(reference: _Schema, definitions: _Definitions) -> _Schema:
    """References to the properties of a definition."""
    name = reference["x-definition"]
    return {key: definition(f"{name}/properties/{key}") for key in definitions[name]["properties"]}


def _beside(cls: type, methods: list[_Schema], definitions: _Definitions) -> list[_Schema]:
    """The schemas of an object around a method: its settings and the method's in one mapping."""
    whole = _shared(model_of(cls).model_json_schema(), definitions)
    own = _properties(whole, definitions)
    del own["method"]
    options = []
    for method in methods:
        properties = {**_properties(method, definitions), **own}
        options.append({**definitions[method["x-definition"]], "properties": properties})
    return [*options, whole]


def _part_of(
    base: Mapping[str, Any],
    schema: _Schema,
    definitions: _Definitions,
    further: Mapping[str, _Schema] = {},
) -> _Schema:
    """The schema of mappings that are merged into ``base``; empty if none can be.

    Settings that ``base`` has are not required. ``further`` are properties beside the settings.
    """
    name = schema.get("x-definition", "")
    schema = definitions[name] if name else schema
    if "anyOf" in schema:
        parts = (_part_of(base, option, definitions) for option in schema["anyOf"])
        return next(filter(None, parts), {})
    if "properties" in schema:
        whole = schema["properties"]
        if whole.get("type", {}).get("const") != base.get("type"):
            return {}
        properties = {**further, **_properties(definition(name), definitions)}
        properties.pop("type", None)  # a mapping with a type would replace the base
    elif isinstance(item := schema.get("additionalProperties"), dict):
        whole = dict.fromkeys(base, item)  # a mapping by name, such as orders
        properties = dict(whole)
    else:
        return {}
    for key, below in base.items():
        merges = isinstance(below, Mapping) and not environment.names_variable(below)
        if merges and (inside := _part_of(below, whole[key], definitions)):
            properties[key] = {"anyOf": [properties[key], inside]}
    required = [key for key in schema.get("required", ()) if key not in base]
    part = {**schema, "properties": properties, "required": required}
    return _defined(f"{name}.over_preset", part, definitions) if name else part


# ---------------------------------------------------------------------- variables


def _with_variable(schema: _Schema) -> _Schema:
    """The schema of a value, with ``{env: NAME, default: VALUE}`` allowed if it can be plain."""
    options = _options(_without_annotations(schema))
    plain = [option for option in options if _is_plain(option)]
    if not plain:
        return _inside(schema)
    # A long list of names is not repeated; the loader checks which of them it is.
    defaults = [
        {"type": "string"} if len(option.get("enum", ())) > 9 else option for option in plain
    ]
    variable = {
        "type": "object",
        "properties": {
            "env": {"type": "string", "minLength": 1},
            "default": defaults[0] if len(defaults) == 1 else {"anyOf": defaults},
        },
        "required": ["env"],
        "additionalProperties": False,
    }
    return {**_annotations(schema), "anyOf": [*map(_inside, options), variable]}


def _inside(schema: _Schema) -> _Schema:
    """The schema of a value, with variables allowed inside its lists and mappings."""
    if "x-definition" in schema:
        return {**_annotations(schema), "$ref": f"#/$defs/{schema['x-definition']}"}
    result = _mapped(schema, _with_variable)
    if "anyOf" in schema:
        result["anyOf"] = [_inside(option) for option in schema["anyOf"]]
    if isinstance(schema.get("additionalProperties"), dict):
        # A mapping of this form names a variable.
        result["not"] = {
            "required": ["env"],
            "properties": {"env": {}, "default": {}},
            "additionalProperties": False,
        }
    return result


# ---------------------------------------------------------------------- parts of a schema


def _options(schema: _Schema) -> list[_Schema]:
    """The alternatives of a schema; itself if it has none."""
    if "anyOf" not in schema:
        return [schema]
    return [option for part in schema["anyOf"] for option in _options(part)]


def _is_plain(option: _Schema) -> bool:
    """Whether the values are plain: no lists and no mappings."""
    return "const" in option or "enum" in option or option.get("type") in _PLAIN


def _annotations(schema: _Schema) -> _Schema:
    return {key: schema[key] for key in ("default", "description") if key in schema}


def _without_annotations(schema: _Schema) -> _Schema:
    # Titles only repeat the names of settings.
    annotations = ("default", "description", "title")
    return {key: value for key, value in schema.items() if key not in annotations}


def _mapped(schema: _Schema, change: Callable[[_Schema], _Schema]) -> _Schema:
    """The schema with ``change`` applied to the schemas of its properties, items and values."""
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {name: change(part) for name, part in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = change(schema[key])
    return result
