"""The JSON Schema and the loader accept the same; wrong input raises only ConfigurationError."""

import json
import os
import pickle
import re
from collections import Counter
from math import inf
from unittest.mock import patch

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, example, given, reject, settings
from hypothesis import strategies as st

from sampling import examples
from secondpass import ConfigurationError, MissingExtraError, Reranker, config
from secondpass.settings.loading import over_preset

UNSET = "SCHEMA_UNSET"
NULL = "SCHEMA_NULL"
"""Variables: one is not set, the other has to hold ``null``."""

WORDS = [
    *["a", "text", "{query} {documents}", "The document {id} fits.", "https://host/v1", "é"],
    *["NAME_A", "_B", "missing.yaml", "no/such/file.yml"],
]
FREE = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3) | st.just("v"), max_size=2)

ANNOTATIONS = {"title", "description", "default", "not"}
"""Keywords that any schema may have. ``not`` is a filter."""

BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
KEYWORDS = {
    "$ref": {"$ref"},
    "anyOf": {"anyOf"},
    "const": {"const"},
    "enum": {"enum"},
    "object": {
        *("properties", "required", "additionalProperties"),
        *("propertyNames", "minProperties", "maxProperties"),
    },
    "array": {"items", "minItems", "maxItems"},
    "integer": BOUNDS,
    "number": BOUNDS,
    "string": {"minLength", "maxLength", "pattern"},
    "boolean": set(),
    "null": set(),
    None: set(),
}
"""Those that :func:`fitting` follows, by the first of these that a schema has, or its type."""


def fitting(schema, definitions, depth=0):
    """A strategy of values that the schema allows."""
    kind = next((name for name in KEYWORDS if name in schema), schema.get("type"))
    if unknown := set(schema) - KEYWORDS[kind] - ANNOTATIONS - {"type"}:
        raise NotImplementedError(f"no values for {sorted(unknown)} in {schema}")
    values = BY_KIND[kind](schema, definitions, depth)
    if "not" not in schema:
        return values
    unwanted = jsonschema.Draft202012Validator({**schema["not"], "$defs": definitions})
    return values.filter(lambda value: not unwanted.is_valid(value))


def _reference(schema, definitions, depth):
    target = definitions
    for step in schema["$ref"].removeprefix("#/$defs/").split("/"):
        target = target[step]
    return st.deferred(lambda: fitting(target, definitions, depth))


def _any_of(schema, definitions, depth):
    options = schema["anyOf"]
    if depth > 4:  # cascades of cascades end
        shallow = [o for o in options if "enum" in o or o.get("type") not in {None, "object"}]
        options = shallow or options[:1]
    return st.one_of([fitting(option, definitions, depth) for option in options])


def _object(schema, definitions, depth):
    properties = schema.get("properties", {})
    if set(properties) == {"env", "default"}:
        return _variable(properties["default"], definitions, depth)
    if not properties:
        return _mapping(schema, definitions, depth)
    assert not schema.keys() & {"propertyNames", "minProperties", "maxProperties"}
    parts = {name: fitting(part, definitions, depth + 1) for name, part in properties.items()}
    needed = {name: parts.pop(name) for name in schema.get("required", [])}
    some = (
        st.lists(st.sampled_from(sorted(parts)), max_size=3, unique=True) if parts else st.just([])
    )
    return some.flatmap(
        lambda names: st.fixed_dictionaries({**needed, **{name: parts[name] for name in names}})
    )


def _mapping(schema, definitions, depth):
    assert "required" not in schema
    inner = schema.get("additionalProperties", True)
    if inner is False:
        return st.just({})
    names = st.sampled_from("xyz")
    if "propertyNames" in schema:
        names = fitting(schema["propertyNames"], definitions, depth)
    values = fitting(inner if isinstance(inner, dict) else {}, definitions, depth + 1)
    return st.dictionaries(names, values, min_size=schema.get("minProperties", 0), max_size=2)


def _variable(default, definitions, depth):
    kinds = [option.get("type") for option in default.get("anyOf", [default])]
    unset = fitting(default, definitions, depth).map(lambda d: {"env": UNSET, "default": d})
    held = [{"env": NULL}] if "null" in kinds else []
    return st.one_of([unset, *map(st.just, held)])


def _array(schema, definitions, depth):
    fewest = schema.get("minItems", 0)
    most = schema.get("maxItems", max(3, fewest))
    return st.lists(
        fitting(schema.get("items", {}), definitions, depth + 1), min_size=fewest, max_size=most
    )


def _number(schema, _definitions, _depth):
    least, above = schema.get("minimum", -5), schema.get("exclusiveMinimum", -inf)
    most, below = schema.get("maximum", 900), schema.get("exclusiveMaximum", inf)
    return st.floats(
        max(least, above),
        min(most, below),
        exclude_min=above >= least,
        exclude_max=below <= most,
        allow_subnormal=False,
    ).map(lambda x: x if x != int(x) else int(x))


def _integer(schema, _definitions, _depth):
    least = max(schema.get("minimum", -3), schema.get("exclusiveMinimum", -inf) + 1)
    most = min(schema.get("maximum", 999), schema.get("exclusiveMaximum", inf) - 1)
    return st.integers(least, most)


def _string(schema, _definitions, _depth):
    words = [
        word
        for word in WORDS
        if re.search(schema.get("pattern", ""), word)
        and schema.get("minLength", 0) <= len(word) <= schema.get("maxLength", inf)
    ]
    return st.sampled_from(words)


BY_KIND = {
    "$ref": _reference,
    "anyOf": _any_of,
    "const": lambda schema, *_: st.just(schema["const"]),
    "enum": lambda schema, *_: st.sampled_from(schema["enum"]),
    "object": _object,
    "array": _array,
    "integer": _integer,
    "number": _number,
    "string": _string,
    "boolean": lambda *_: st.booleans(),
    "null": lambda *_: st.none(),
    None: lambda *_: FREE,
}


def changed(config, data):
    """The configuration with one of its parts replaced, removed or added, at a place drawn."""
    places = [*_places(config)]
    holder, key = data.draw(st.sampled_from(places))
    values = [None, 0, 1, -1, 0.5, True, "", "text", "lexical", [], ["text"], {}]
    values += [{"env": UNSET, "default": v} for v in (None, 1, "text", 0.5, [], {})]
    values += [{"type": "lexical"}, {"preset": "lexical"}, "sk-SECRET"]
    values += [{"env": 5}, {"env": NULL}, {"env": ""}]
    value = data.draw(st.sampled_from(values))
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


SCHEMA = config.json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
RERANKERS = fitting(SCHEMA["else"], SCHEMA["$defs"])
OVER_PRESETS = {
    case["if"]["properties"]["preset"].get("const"): case["then"]
    for case in SCHEMA["then"]["allOf"]
}
PRESETS = st.sampled_from(config.preset_names()).flatmap(
    lambda name: fitting(OVER_PRESETS[name], SCHEMA["$defs"]).map(
        lambda value: {**value, "preset": name}
    )
)


def _copy(value):
    return json.loads(json.dumps(value))


CONFIGURATIONS = (RERANKERS | PRESETS).map(_copy)

NOT_IN_A_SCHEMA = re.compile(
    r"cannot make scores of kind|give one of|names a tier twice|is not one of the tiers"
    r"|no ordering is named|is required|is needed|has no such|cannot be set|is not supported"
    r"|self-hosted"
    r"|not supported by this|no preset is named .* environment variable"
    r"|must be larger than at_least|names a field twice"
    r"|must be smaller than the (window|size)|give the lowest and the highest|is for arrays"
    r"|must differ in more than case|has to hold|must contain"
    r"|must be \w+( or \w+)* with run.model|cannot be '\w+' with run.model"
    r"|must be \d+ at most|the prices of|placeholder|http|is not shown"
    r"|fitted|the name of a variable|no threshold holds"
    r"|is not set, and there is no default|\(from the environment variable SCHEMA_NULL\)"
)
"""Messages about two settings together, the meaning of a text, or the environment."""


@pytest.fixture(autouse=True, scope="module")
def _variables():
    with patch.dict(os.environ, {NULL: "null"}):
        yield


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("configuration") / "rerank.yaml"


UNREADABLE = {"title": "a", "match": {}, "run": {"model": "causal"}, "read": {}}
"""A family whose parts do not go together."""


def problems_of(path, configuration):
    path.write_text(yaml.safe_dump(configuration))
    try:
        Reranker.from_config(path)
    except ConfigurationError as error:
        return error.problems
    except MissingExtraError:
        pass
    return ()


SLOW = settings(
    examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SLOW
@given(CONFIGURATIONS)
@example({"method": {"type": "cross_encoder", "family": {"title": "a", "match": {}}}})
@example({"method": {"type": "cross_encoder", "family": UNREADABLE}})
def test_what_the_schema_allows_loads(path, configuration):
    VALIDATOR.validate(configuration)
    for problem in problems_of(path, configuration):
        assert NOT_IN_A_SCHEMA.search(str(problem)), (str(problem), configuration)


DESCRIPTIONS = {
    "Family": ("cross_encoder", "family"),
    "RerankApi": ("endpoint", "api"),
    "DecisionApi": ("decisions", "api"),
}
"""Parts of the schema that examples of whole configurations rarely have -> where they stand."""


@pytest.mark.parametrize("part", DESCRIPTIONS)
@SLOW
@given(st.data())
def test_what_the_schema_allows_of_a_description_loads(path, part, data):
    method, key = DESCRIPTIONS[part]
    description = data.draw(fitting(SCHEMA["$defs"][part], SCHEMA["$defs"]).map(_copy))
    configuration = {"method": {"type": method, key: description}}
    VALIDATOR.validate(configuration)
    for problem in problems_of(path, configuration):
        assert NOT_IN_A_SCHEMA.search(str(problem)), (str(problem), configuration)


def test_examples_follow_all_keywords_of_the_schema():
    for part in SCHEMA["$defs"].values():
        fitting(part, SCHEMA["$defs"]).validate()


@SLOW
@given(CONFIGURATIONS, st.data())
def test_schema_and_loader_accept_the_same(path, configuration, data):
    for _ in range(data.draw(st.integers(1, 2))):
        if configuration:
            configuration = changed(configuration, data)
    problems = problems_of(path, configuration)
    if VALIDATOR.is_valid(configuration):
        for problem in problems:
            assert NOT_IN_A_SCHEMA.search(str(problem)), (str(problem), configuration)
    else:
        assert problems, configuration


NOT_SETTINGS = {"options", "model_kwargs", "tokenizer_kwargs", "config_kwargs", "preset"}
"""What is passed on to other libraries, and what is no setting of the reranker."""


def with_variables(value, chosen):
    """A configuration with variables in place of the plain values that are ``chosen``."""
    if isinstance(value, dict) and not value.keys() <= {"env", "default"}:
        return {
            key: item if key in NOT_SETTINGS else with_variables(item, chosen)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_variables(item, chosen) for item in value]
    if isinstance(value, dict) or not chosen():
        return value
    return {"env": UNSET, "default": value}


def _variables_in(value):
    """The variables that a configuration names, each as often as it does."""
    if isinstance(value, dict) and "env" in value:
        return Counter([value["env"]])
    inside = value.values() if isinstance(value, dict) else value
    return (
        sum(map(_variables_in, inside), Counter()) if isinstance(value, dict | list) else Counter()
    )


EVERYWHERE = {
    "method": {
        "type": "cascade",
        "stages": [
            {"type": "lexical", "k1": 1.5},
            {"type": "graded", "depth": 9, "llm": {"type": "openai", "model": "m"}},
        ],
    },
    "blend": {"original": 0.5, "normalize": "rrf"},
    "fallback": ["lexical", {"type": "endpoint", "api": "cohere", "model": "m", "floor": 0.5}],
    "orders": {"a": "lost_in_the_middle", "b": {"type": "tiers", "field": "f", "tiers": ["x"]}},
    "order": "a",
    "terms": [{"type": "recency", "weight": 0.1, "field": "date", "half_life_days": 3}],
    "limits": {"deadline": 5.0},
    "cache": "file.cache",
    "depth": 100,
}


def written_by_name(named):
    reranker = Reranker.from_config(named)
    written = reranker.to_config()
    assert _variables_in(written) == _variables_in(over_preset(named)), (named, written)
    assert pickle.loads(pickle.dumps(reranker)).to_config() == written
    assert reranker.changed().to_config() == written
    return written


def test_every_setting_that_came_from_a_variable_is_written_by_name():
    named = with_variables(EVERYWHERE, lambda: True)
    assert written_by_name(named) == named


@SLOW
@given(CONFIGURATIONS, st.data())
def test_what_came_from_variables_is_written_by_name(configuration, data):
    try:
        written_by_name(with_variables(configuration, lambda: data.draw(st.booleans())))
    except (ConfigurationError, MissingExtraError):
        reject()


TOKENS = [
    *"[]{},:-?&*!|>%@`'\"#~=\n\t \x00\x85\ud800\ufeff",
    *["<<: ", "&a ", "*a", "&b ", "*b", "!!int ", "!!float ", "!!set ", "!!omap ", "!!binary "],
    *["!!timestamp ", "!!python/name:os.system ", "---\n", "...\n", "\n  ", ": ", "- "],
    *'1 0x 1:1:1 .5 .inf .nan 1e999 2024-01-01 null true \\ud800 "A\\ud800"'.split(),
    *"lexical embedded cascade SCHEMA_NULL FUZZED openai".split(),
    *(f"{key}: " for key in "method type depth preset fallback stages order orders".split()),
    *(f"{key}: " for key in "render fields blend original limits env default llm api_key".split()),
    *["{type: cascade, stages: [", "{env: "],
    *["f" * 300, "9" * 300, "[" * 100, "{a: " * 50, "1:" * 100],
]


@SLOW
@given(
    st.lists(st.sampled_from(TOKENS) | st.text(max_size=3), max_size=40).map("".join),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
    | st.sampled_from(["0x" + "f" * 900, "1:" * 175 + "1.5", "{a: b}", "[1]", "<<", "1" * 5000]),
)
def test_any_text_raises_only_configuration_errors(path, text, held):
    path.write_bytes(text[:1000].encode("utf-8", "surrogatepass"))
    with patch.dict(os.environ, {"FUZZED": held}):
        try:
            Reranker.from_config(path)
        except (ConfigurationError, MissingExtraError) as error:
            str(error).encode()


KEYS = ["method", "depth", "floor", "blend", "order", "orders", "fallback", "render", "limits"]
KEYS += ["type", "stages", "llm", "model", "env", "default", "preset", "scale", "prompt", "fields"]
KEYS += ["when", "margin", "agreement", "below", "at_least"]
NAMES = ["", "lexical", "cascade", "graded", "openai", "FUZZED", "\ud800"]
LEAVES = st.sampled_from([None, True, 0, -1, 10**399, 0.5, *NAMES]) | st.text(max_size=3)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)


@SLOW
@given(st.dictionaries(st.sampled_from(KEYS), TREES, max_size=4))
def test_any_value_raises_only_configuration_errors(path, tree):
    path.write_text(json.dumps(tree))
    with patch.dict(os.environ, {"FUZZED": "lexical"}):
        try:
            Reranker.from_config(path)
        except (ConfigurationError, MissingExtraError) as error:
            str(error).encode()
