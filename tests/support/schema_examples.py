"""Hypothesis strategies of values that fit a JSON Schema of the kind that secondpass writes."""

from __future__ import annotations

from hypothesis import strategies as st

UNSET = "SCHEMA_UNSET"
NULL = "SCHEMA_NULL"
"""Variables: one is not set, the other has to hold ``null``."""

WORDS = ["a", "text", "{query} {documents}", "The document {id} fits.", "https://host/v1", "é"]
FREE = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3) | st.just("v"), max_size=2)


def fitting(schema, definitions, depth=0):
    """A strategy of values that the schema allows."""
    if "$ref" in schema:
        target = definitions
        for step in schema["$ref"].removeprefix("#/$defs/").split("/"):
            target = target[step]
        return st.deferred(lambda: fitting(target, definitions, depth))
    if "anyOf" in schema:
        options = schema["anyOf"]
        if depth > 4:  # cascades of cascades end
            shallow = [o for o in options if "enum" in o or o.get("type") not in {None, "object"}]
            options = shallow or options[:1]
        return st.one_of([fitting(option, definitions, depth) for option in options])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    return BY_TYPE[schema.get("type", "any")](schema, definitions, depth)


def _object(schema, definitions, depth):
    properties = schema.get("properties", {})
    if set(properties) == {"env", "default"}:
        return _variable(properties["default"], definitions, depth)
    if not properties:
        inner = schema.get("additionalProperties", True)
        if not isinstance(inner, dict):
            return FREE
        names = schema.get("propertyNames", {}).get("enum", "xyz")
        values = fitting(inner, definitions, depth + 1)
        return st.dictionaries(st.sampled_from(names), values, max_size=2)
    required = schema.get("required", [])
    parts = {name: fitting(part, definitions, depth + 1) for name, part in properties.items()}
    needed = {name: parts.pop(name) for name in required}
    some = (
        st.lists(st.sampled_from(sorted(parts)), max_size=3, unique=True) if parts else st.just([])
    )
    return some.flatmap(
        lambda names: st.fixed_dictionaries({**needed, **{name: parts[name] for name in names}})
    )


def _variable(default, definitions, depth):
    kinds = [option.get("type") for option in default.get("anyOf", [default])]
    unset = fitting(default, definitions, depth).map(lambda d: {"env": UNSET, "default": d})
    held = [{"env": NULL}] if "null" in kinds else []
    return st.one_of([unset, *map(st.just, held)])


def _number(schema, _definitions, _depth):
    return st.floats(
        schema.get("minimum", schema.get("exclusiveMinimum", -5)),
        schema.get("maximum", schema.get("exclusiveMaximum", 900)),
        exclude_min="exclusiveMinimum" in schema,
        exclude_max="exclusiveMaximum" in schema,
        allow_subnormal=False,
    ).map(lambda x: x if x != int(x) else int(x))


def _words(schema):
    if "ya?ml" in schema.get("pattern", ""):
        return ["missing.yaml", "no/such/file.yml"]
    return ["NAME_A", "_B"] if "pattern" in schema else WORDS


BY_TYPE = {
    "object": _object,
    "array": lambda s, d, depth: st.lists(
        fitting(s.get("items", {}), d, depth + 1),
        min_size=s.get("minItems", 0),
        max_size=min(s.get("maxItems", 3), max(3, s.get("minItems", 0))),
    ),
    "integer": lambda s, d, depth: st.integers(s.get("minimum", -3), s.get("maximum", 999)),
    "number": _number,
    "string": lambda s, d, depth: st.sampled_from(_words(s)),
    "boolean": lambda s, d, depth: st.booleans(),
    "null": lambda s, d, depth: st.none(),
    "any": lambda s, d, depth: FREE,
}


def changed(config, data):
    """The configuration with one of its parts replaced, removed or added, at a place drawn."""
    places = [*_places(config)]
    holder, key = data.draw(st.sampled_from(places))
    value = data.draw(
        st.sampled_from(
            [
                None,
                0,
                1,
                -1,
                0.5,
                True,
                "",
                "text",
                "lexical",
                [],
                ["text"],
                {},
                {"type": "lexical"},
            ]
            + [{"env": UNSET, "default": v} for v in (None, 1, "text", 0.5, [], {})]
            + [{"env": 5}, {"env": NULL}, {"env": ""}, "sk-SECRET", {"preset": "lexical"}]
        )
    )
    action = data.draw(st.sampled_from(["replace", "remove", "add"]))
    if action == "remove":
        del holder[key]
    elif action == "add" and isinstance(holder, dict):
        names = ["depth", "floor", "type", "preset", "zork", "api_key", "env", "default", "stages"]
        holder[data.draw(st.sampled_from(names))] = value
    else:
        holder[key] = value
    return config


def _places(value):
    if isinstance(value, dict):
        for key, item in value.items():
            yield value, key
            yield from _places(item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from _places(item)
