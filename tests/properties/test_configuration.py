"""The JSON Schema and the loader accept the same; wrong input raises only ConfigurationError."""

import json
import os
import re
from unittest.mock import patch

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sampling import examples
from schema_examples import NULL, changed, fitting
from secondpass import ConfigurationError, MissingExtraError, Reranker, config

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
    r"cannot make scores of kind|give one of them|names a tier twice|is not one of the tiers"
    r"|no ordering is named|is required|has no such|cannot be set|is not supported|self-hosted"
    r"|not supported by this"
    r"|must be larger than at_least|names a field twice"
    r"|must be smaller than the (window|size)|give the lowest and the highest|is for arrays"
    r"|must differ in more than case|has to hold|must contain"
    r"|must be \d+ at most|the prices of|placeholder|http"
    r"|fitted|the name of a variable"
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
def test_what_the_schema_allows_loads(path, configuration):
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


TOKENS = [
    *"[]{},:-?&*!|>%@`'\"#~=\n\t \x00\x85\ud800\ufeff",
    *["<<: ", "&a ", "*a", "&b ", "*b", "!!int ", "!!float ", "!!set ", "!!omap ", "!!binary "],
    *["!!timestamp ", "!!python/name:os.system ", "---\n", "...\n", "\n  ", ": ", "- ", "1", "0x"],
    *[
        "1:1:1",
        ".5",
        ".inf",
        ".nan",
        "1e999",
        "2024-01-01",
        "null",
        "true",
        "\\ud800",
        '"A\\ud800"',
    ],
    *["method: ", "lexical", "type: ", "depth: ", "preset: ", "embedded", "fallback: ", "stages: "],
    *[
        "cascade",
        "order: ",
        "orders: ",
        "render: ",
        "fields: ",
        "blend: ",
        "original: ",
        "limits: ",
    ],
    *["{env: ", "env: ", "default: ", "SCHEMA_NULL", "FUZZED", "llm: ", "openai", "api_key: "],
    *["{type: cascade, stages: [", "f" * 300, "9" * 300, "[" * 100, "{a: " * 50, "1:" * 100],
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
LEAVES = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        10**399,
        0.5,
        "",
        "lexical",
        "cascade",
        "graded",
        "openai",
        "FUZZED",
        "\ud800",
    ]
) | st.text(max_size=3)
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
