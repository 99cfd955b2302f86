"""A worker: its messages, what it reserves, and by what of a configuration a job is known again."""

import json
from dataclasses import asdict

import pytest

from command_requests import requests
from fake_provider import FakeProvider
from secondpass.config import load
from secondpass.errors import InputError
from secondpass_ray.blocks import Block, Row
from secondpass_ray.coordination import Budget
from secondpass_ray.parts import Part, Todo
from secondpass_ray.ranking import Choices, RowRanker
from secondpass_ray.worker import Outcome, Spending, describe_error, inspected, parse_todo

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


def test_todos_and_outcomes_are_json():
    todo = Todo(Block("f", "f", "lines", 0, 9, 1, 4, 2), Part(4, 5))
    assert parse_todo(json.dumps(asdict(todo))) == todo
    outcome = Outcome(2, {"ok": 2}, ["a key is unknown"], "", True)
    assert Outcome(**json.loads(json.dumps(asdict(outcome)))) == outcome


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (InputError("a file is missing"), "a file is missing"),
        (FileNotFoundError(2, "No such file", "a.jsonl"), "a.jsonl: No such file"),
        (OSError("text of a row"), "OSError"),
        (ValueError("text of a row"), "internal error: ValueError"),
    ],
    ids=["ours", "file", "system", "internal"],
)
def test_errors_hold_no_text_of_a_row(error, text):
    assert describe_error(error) == text


@pytest.mark.parametrize("repair", [0, 1])
def test_what_is_reserved_for_a_row_is_enough(repair):
    with FakeProvider() as provider:
        llm = {"type": "openai", "model": "m", "api_key": "k", "prices": {"input": 3, "output": 7}}
        llm["base_url"] = provider.base_url("openai")
        limits = {"repair": repair, "tokens": 100_000, "cost": 10}
        reranker = load({"method": {"type": "graded", "llm": llm}, "limits": limits})
        spending, ranker = Spending(reranker, {}), RowRanker(reranker, Choices({}))
        for number, one in enumerate(requests(12)):
            row = Row(number, "f", number + 1, json.dumps(one).encode())
            parsed = ranker.parse(row)
            need = spending.need([parsed])
            ranked = ranker.lines([row], [parsed], spending.limited(need))
            (usage,) = ranked.usages
            assert usage.calls >= 1, ranked.lines
            spent = spending.spent([usage], need)
            assert spent.tokens <= need.tokens
            assert spent.cost <= need.cost
