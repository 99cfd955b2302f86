"""Configurations in which a given language model is asked."""

import pytest

from fakes import Model
from secondpass import ConfigurationError, config

LLM = {"type": "openai", "model": "m"}

REPLACED = {
    "bare method": {"method": "graded"},
    "method": {"method": {"type": "graded", "llm": LLM, "scale": [0, 3]}},
    "stage": {"method": {"type": "cascade", "stages": ["lexical", "listwise"]}},
    "method beside settings": {"method": {"type": "cascade", "stages": [{"method": "graded"}]}},
    "fallbacks": {"method": "lexical", "fallback": ["lexical", {"type": "graded", "llm": LLM}]},
    "bare fallback": {"method": "lexical", "fallback": "listwise"},
}


@pytest.mark.parametrize("described", REPLACED.values(), ids=REPLACED)
def test_asks_the_given_model(described):
    before = repr(described)
    changed = config.with_llm(described, "MODEL")
    assert repr(changed).count("'llm': 'MODEL'") == 1
    assert repr(LLM) not in repr(changed)
    assert repr(described) == before


@pytest.mark.parametrize("method", ["lexical", {"type": "lexical"}, "zork", None, object()])
def test_something_must_ask_it(method):
    with pytest.raises(
        ConfigurationError, match=r"no method asks one; these do: graded, pointwise, listwise"
    ):
        config.with_llm({"method": method}, Model())


VARIABLES = {
    "method": {"method": {"env": "M"}},
    "type": {"method": {"type": {"env": "M"}}},
    "fallback": {"method": "lexical", "fallback": {"env": "M"}},
    "listed fallback": {"method": "lexical", "fallback": [{"env": "M"}]},
    "default": {"method": {"env": "UNSET", "default": "listwise"}},
}


@pytest.mark.parametrize("described", VARIABLES.values(), ids=VARIABLES)
def test_reads_variables(described, monkeypatch):
    monkeypatch.setenv("M", "listwise")
    monkeypatch.delenv("UNSET", raising=False)
    result = config.with_llm(described, Model())
    assert "Model object" in str(result)


def test_the_timeout_is_that_of_the_model_it_replaces(monkeypatch):
    monkeypatch.setenv("T", "5")
    described = {"method": {"type": "listwise", "llm": {**LLM, "timeout": {"env": "T"}}}}
    assert config.with_llm(described, Model(timeout=1.0))["method"]["llm"].timeout == 5
