"""By what of a configuration a job is known again."""

import pytest

from secondpass.adapters.ray.coordination import Budget
from secondpass.adapters.ray.worker import inspected

LLM = {
    "type": "openai",
    "model": {"env": "A_MODEL", "default": "m"},
    "api_key": {"env": "A_KEY"},
    "prices": {"input": 1, "output": 1},
}
CONFIG = {"method": {"type": "graded", "llm": LLM}}


def hash_of(config=CONFIG, **budget):
    return inspected(config, Budget(**budget))["hash"]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("A_KEY", "sk-one-0123456789")


def test_keys_and_budgets_may_change(monkeypatch):
    before = hash_of()
    monkeypatch.setenv("A_KEY", "sk-two-0123456789")
    assert hash_of() == before == hash_of(tokens=5) == hash_of(cost=0.5, tokens=7)


def test_variables_and_settings_may_not(monkeypatch):
    before = hash_of()
    assert hash_of({**CONFIG, "depth": 7}) != before
    monkeypatch.setenv("A_MODEL", "other")
    assert hash_of() != before


def test_what_asks_services_and_what_cannot_be_built():
    assert inspected(CONFIG, Budget())["asks"] is True
    assert inspected({"method": "lexical"}, Budget())["asks"] is False
    assert "unknown key" in inspected({"method": "lexical", "nope": 1}, Budget())["error"]
