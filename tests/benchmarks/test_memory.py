"""The benchmarks of memory: what they measure has the size that they say."""

import importlib
import json
from pathlib import Path

import pytest
from benchmarks import command_memory, remembered

from secondpass.scorers.minilm import MAX_TOKENS, load_tokenizer


def test_passages_are_distinct_and_have_that_many_tokens():
    passages = remembered.passages(30, 40)
    tokenizer = load_tokenizer(MAX_TOKENS)
    assert len(set(passages)) == 30
    assert {len(tokenizer.encode(text).ids) for text in passages} <= {39, 40}


def test_resident_memory_grows_with_what_is_kept():
    before = remembered.resident()
    size = 60_000_000  # more than what an allocator keeps for later
    kept = b"x" * size  # written, so that it is resident
    assert remembered.resident() - before == pytest.approx(len(kept) / 1e6, abs=10)


def test_the_command_ranks_all_requests(tmp_path):
    path = command_memory.write_requests(tmp_path / "in.jsonl", queries=3, candidates=4)
    output = tmp_path / "out.jsonl"
    assert command_memory.peak(path, output) > 10
    rankings = [json.loads(line)["ranking"] for line in output.read_text().splitlines()]
    assert [len(ranking) for ranking in rankings] == [4, 4, 4]


def test_a_command_that_fails_ends_it(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("no request\n")
    with pytest.raises(SystemExit, match="ended with"):
        command_memory.peak(path, tmp_path / "out.jsonl")


def test_times_of_diverse_orderings_are_of_passages_of_that_length(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    diversity = importlib.import_module("diversity")
    passages = diversity.passages(5, 60, diversity.random.Random(1))
    assert [len(passage.text.split()) for passage in passages] == [60] * 5
    assert len({passage.id for passage in passages}) == 5
