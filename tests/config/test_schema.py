"""The JSON Schema of configurations; tests/properties compares it with the loader."""

import jsonschema
import pytest

from secondpass import ConfigurationError, Reranker, config


@pytest.fixture(scope="module")
def validator():
    schema = config.json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", config.preset_names())
def test_presets_fit(validator, name):
    validator.validate(config.preset(name))
    validator.validate(Reranker.from_preset(name).to_config())


LEXICAL = {"method": {"type": "lexical"}}
WRONG = {
    "empty": {},
    "unknown key": {**LEXICAL, "depht": 3},
    "out of range": {**LEXICAL, "depth": 0},
    "unknown kind": {"method": {"type": "lexicla"}},
    "unknown key of a method": {"method": {"type": "lexical", "k2": 1}},
    "blend": {**LEXICAL, "blend": {"original": 2}},
    "fallback": {**LEXICAL, "fallback": [{"type": "lexical", "flor": 0.1}]},
    "preset": {"preset": "embeded"},
    "too few stages": {"method": {"type": "cascade", "stages": []}},
    "unknown prompt": {"method": {"type": "late_interaction", "model": "a", "prompts": {"x": "a"}}},
    "too few fields": {**LEXICAL, "render": {"fields": []}},
}


@pytest.mark.parametrize("described", WRONG.values(), ids=WRONG)
def test_refuses_what_the_loader_refuses(validator, described):
    assert not validator.is_valid(described)
    with pytest.raises(ConfigurationError):
        Reranker.from_config(described)


def test_orders_over_those_of_a_preset(validator):
    described = {"preset": "objlib", "orders": {"learn": {"window": 3}}, "order": "learn"}
    assert Reranker.from_config(described).order.window == 3
    assert validator.is_valid(described)
    assert not validator.is_valid({**described, "orders": {"learn": {"windw": 3}}})
    assert not validator.is_valid({**described, "orders": {"other": {"window": 3}}})
