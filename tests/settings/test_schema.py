"""The JSON Schema of configurations; tests/properties compares it with the loader."""

from importlib.metadata import EntryPoint
from typing import Annotated

import jsonschema
import pytest
from annotated_types import Ge

from secondpass import ConfigurationError, Reranker, config
from secondpass.settings import configurable, registry


@pytest.fixture(scope="module")
def validator():
    return jsonschema.Draft202012Validator(config.json_schema())


def test_it_is_a_json_schema(validator):
    jsonschema.Draft202012Validator.check_schema(validator.schema)


@pytest.mark.parametrize("name", ["llm", "Blend", "a/b #1"])
def test_kinds_of_other_packages_may_have_any_name(monkeypatch, name):
    """Names of definitions, and characters that references cannot have."""

    @configurable
    class Blend:
        def __init__(self, *, size: Annotated[int, Ge(1)] = 3) -> None: ...

    point = EntryPoint(name, "elsewhere:Blend", "secondpass.methods")
    monkeypatch.setattr(EntryPoint, "load", lambda _: Blend)
    monkeypatch.setattr(registry, "_entry_points", lambda _: {name: point})
    validator = jsonschema.Draft202012Validator(config.json_schema())
    stages = [{"type": name, "size": 2, "depth": 5}, {"type": "lexical", "depth": 2}]
    valid = {"method": {"type": "cascade", "stages": stages}, "blend": {"original": 0.5}}
    validator.validate(valid)
    validator.validate({"preset": "graded_passages", "method": {"llm": {"temperature": 1}}})
    validator.validate({"method": name})
    assert not validator.is_valid({**valid, "blend": {"original": 2}})
    assert not validator.is_valid({"method": {"type": name, "size": 0}})


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
    "too few fields": {**LEXICAL, "render": {"fields": []}},
}


@pytest.mark.parametrize("described", WRONG.values(), ids=WRONG)
def test_refuses_what_the_loader_refuses(validator, described):
    assert not validator.is_valid(described)
    with pytest.raises(ConfigurationError):
        Reranker.from_config(described)
