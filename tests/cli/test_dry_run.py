"""``--dry-run``: calls, tokens and cost, estimated; the model must not be asked."""

import json
import sys

import pytest

from command_requests import requests
from terminals import on_a_terminal


def test_requests_are_estimated_and_nothing_is_written(secondpass, write, priced, tmp_path):
    output = tmp_path / "out.jsonl"
    empty = {"query_id": "q", "query": "none", "candidates": []}
    file = write("in.jsonl", [*requests(3, candidates=12), empty])
    told = secondpass("rerank", file, "-c", priced, "-o", output, "--dry-run")
    found = json.loads(told.out)
    assert (told.code, output.exists()) == (0, False)
    assert (found["dry_run"], found["queries"], found["candidates"]) == (True, 4, 36)
    (model,) = found["models"]
    assert (model["calls"], model["pairs"]) == (9, 36)
    assert model["input_tokens"] > 36 * 30 / 4
    assert model["cost"] == pytest.approx(model["input_tokens"], abs=1)
    assert model == {"model": "m", **found["total"]}
    assert "no model was called. Tokens are an estimate: four bytes each" in told.flat


def test_the_packages_of_models_are_not_needed(secondpass, write, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    file = write("in.jsonl", requests(3, candidates=12))
    told = secondpass("rerank", file, "--preset", "cheap", "--dry-run")
    assert json.loads(told.out)["total"]["calls"] == 3
    assert secondpass("rerank", file, "--preset", "cheap").code == 1


def test_a_limit_of_tokens_splits_requests(secondpass, write, unasked):
    address = unasked.base_url("voyage")
    config = write(
        "voyage.yaml", f"method: {{type: endpoint, api: voyage, model: m, base_url: '{address}'}}\n"
    )
    candidates = [{"id": str(number), "text": "word " * 40_000} for number in range(12)]
    file = write("in.jsonl", [{"query_id": "q", "query": "none", "candidates": candidates}])
    told = secondpass("rerank", file, "-c", config, "--dry-run")
    assert json.loads(told.out)["total"]["calls"] == 2


def test_a_terminal_shows_a_table(write, priced):
    file = write("in.jsonl", requests(3, candidates=12))
    shown = on_a_terminal("rerank", str(file), "-c", str(priced), "--dry-run")
    assert "tokens in" in shown
    assert "Cost is in the currency of `prices`" in shown
    assert "3 queries, 36 candidates" in shown
    assert '"models"' not in shown
