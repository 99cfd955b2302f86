"""A worker: what goes to it and comes back, and by what of a configuration a job is known again."""

import json
from dataclasses import asdict

import pytest

from secondpass.errors import InputError
from secondpass_ray.blocks import Block
from secondpass_ray.coordination import Budget
from secondpass_ray.parts import Part, Todo
from secondpass_ray.worker import (
    Outcome,
    describe_error,
    dump_todo,
    inspected,
    parse_outcome,
    parse_todo,
)

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
    assert parse_todo(dump_todo(todo)) == todo
    outcome = Outcome(2, {"ok": 2}, (), "", True)
    found = parse_outcome(json.dumps(asdict(outcome)))
    assert (found.rows, found.counts, found.exhausted) == (2, {"ok": 2}, True)


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
