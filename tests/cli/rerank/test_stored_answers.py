"""Answers of an interrupted output are not asked for again."""

import json

import pytest

from fake_provider import INPUT_TOKENS, OUTPUT_TOKENS
from fakes import numbered
from secondpass.cli.resuming import Resumable

COUNT = 3
REQUESTS = [
    {"query": f"query {number}", "candidates": [{"text": text} for text in numbered([1, 5, 3, 9])]}
    for number in range(COUNT)
]


@pytest.fixture
def call(write, tmp_path, provider):
    """A call that asks two questions for each of three requests, one request at a time."""
    llm = json.dumps(provider.llm("openai", prices={"input": 1000, "output": 0}))
    config = write("graded.yaml", f"method: {{type: graded, batch_size: 2, llm: {llm}}}\n")
    file = write("in.jsonl", REQUESTS)
    return ["rerank", file, "-c", config, "--batch", 1, "-o", tmp_path / "out"]


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C when the second ranking is made and not yet written."""

    def arm(number=2):
        write, calls = Resumable.write, []

        def stopping(self, text, counts):
            calls.append(text)
            if len(calls) == number:
                raise KeyboardInterrupt
            write(self, text, counts)

        monkeypatch.setattr(Resumable, "write", stopping)

    return arm


def files(folder):
    return {file.name for file in folder.iterdir()} - {"graded.yaml", "in.jsonl"}


def test_no_answer_is_asked_for_twice(secondpass, call, tmp_path, provider, interrupted):
    interrupted()
    assert secondpass(*call).code == 130
    assert provider.calls == 4
    assert files(tmp_path) == {"out", "out.state", "out.answers.sqlite"}
    interrupted(0)
    told = secondpass(*call, "--resume")
    assert (told.code, provider.calls) == (0, 2 * COUNT)
    assert "cached answers: 2" in told.flat
    assert files(tmp_path) == {"out", "out.state"}
    usages = [
        json.loads(line)["report"]["usage"] for line in (tmp_path / "out").read_text().splitlines()
    ]
    assert [usage["calls"] for usage in usages] == [2, 0, 2]
    assert [usage["cached"] for usage in usages] == [0, 2, 0]


def test_answers_of_the_first_query_are_said_to_be_kept(secondpass, call, interrupted):
    interrupted(1)
    stopped = "stopped; continue with --resume, which uses the answers so far"
    assert stopped in secondpass(*call).flat


def test_only_resume_uses_answers_of_before(secondpass, call, provider, interrupted, tmp_path):
    interrupted()
    assert secondpass(*call).code == 130
    interrupted(0)
    assert secondpass(*call, "--force").code == 0
    assert provider.calls == 4 + 2 * COUNT
    assert files(tmp_path) == {"out", "out.state"}


def test_a_configured_cache_is_the_only_one(secondpass, call, tmp_path, provider, interrupted):
    call += ["--set", f"cache={tmp_path / 'mine.sqlite'}"]
    interrupted()
    assert secondpass(*call).code == 130
    assert "out.answers.sqlite" not in files(tmp_path)
    interrupted(0)
    assert secondpass(*call, "--resume").code == 0
    assert provider.calls == 2 * COUNT
    assert "out.answers.sqlite" not in files(tmp_path)


def test_totals_of_a_resumed_output_are_those_of_an_uninterrupted_one(secondpass, call, write):
    write("in.jsonl", REQUESTS[:1])
    assert secondpass(*call).code == 0
    write("in.jsonl", REQUESTS)
    told = secondpass(*call, "--resume")
    tokens = f"tokens: {6 * INPUT_TOKENS} in, {6 * OUTPUT_TOKENS} out"
    assert told.err.strip().endswith(f"{tokens}; cost: {6 * INPUT_TOKENS / 1000:.4g}")
