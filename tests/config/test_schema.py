"""The JSON Schema of configurations; tests/properties compares it with the loader."""

import json

import jsonschema
import pytest

from secondpass import ConfigurationError, Reranker, config


@pytest.fixture(scope="module")
def validator():
    return jsonschema.Draft202012Validator(config.json_schema())


def test_it_is_a_json_schema(validator):
    jsonschema.Draft202012Validator.check_schema(each_once(validator.schema, set()))


def each_once(value, seen):
    """The same with ``True``, a schema too, for all but the first of equal schemas.

    The schema of each setting stands in many places, and checking them all takes seconds.
    """
    if not isinstance(value, dict):
        return [each_once(item, seen) for item in value] if isinstance(value, list) else value
    if (
        isinstance(value.get("type"), str)
        or isinstance(value.get("anyOf"), list)
        or isinstance(value.get("$ref"), str)
    ):
        text = json.dumps(value, sort_keys=True)
        if text in seen:
            return True
        seen.add(text)
    return {name: each_once(item, seen) for name, item in value.items()}


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
    described = {"preset": "graded_passages", "orders": {"learn": {"window": 3}}, "order": "learn"}
    assert Reranker.from_config(described).order.window == 3
    assert validator.is_valid(described)
    assert not validator.is_valid({**described, "orders": {"learn": {"windw": 3}}})
    assert not validator.is_valid({**described, "orders": {"other": {"window": 3}}})
