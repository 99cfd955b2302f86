"""Models are loaded before the clock of a deadline starts, if there is something to rank."""

import json
import time

import pytest

from command_requests import requests
from secondpass import ModelLoadError, Reranker
from secondpass.concurrency.lazy import Lazy

SECONDS = 0.6
"""How long the model takes to load: twice the deadline."""


class SlowToLoad:
    name = "slow to load"
    score_kind = "unbounded"

    def __init__(self, error=None):
        self.error = error
        self.warmed = 0
        self.loads = 0
        self._value = Lazy()

    def _load(self):
        self.loads += 1
        time.sleep(SECONDS)
        if self.error is not None:
            raise self.error
        return "model"

    def warm_up(self):
        self.warmed += 1
        self._value.retry(self._load)

    def score_pairs(self, query, documents):
        self._value.get(self._load)
        return [float(len(documents) - index) for index, _ in enumerate(documents)]


@pytest.fixture
def scorer(monkeypatch):
    scorer = SlowToLoad()

    def load(config):
        limits = {"deadline": SECONDS / 2} if config.get("limits") else None
        fallback = ["lexical"] if config.get("fallback") == ["lexical"] else ()
        return Reranker(scorer, limits=limits, fallback=fallback, log_level="debug")

    monkeypatch.setattr("secondpass.cli.options.load", load)
    return scorer


LIMITED = ("--set", "limits.deadline=0.3")


@pytest.mark.parametrize("command", ["rerank", "pack"])
@pytest.mark.parametrize("options", [LIMITED, ()])
def test_the_load_takes_nothing_of_the_deadline(secondpass, write, scorer, command, options):
    file = write("in.jsonl", requests(3))
    tokens = ("--tokens", 100) if command == "pack" else ()
    told = secondpass(command, file, "--batch", 1, "--quiet", *tokens, *options)
    assert (told.code, told.err) == (0, "")
    assert scorer.loads == 1
    assert scorer.warmed == (1 if options else 0)


def test_a_request_may_set_the_deadline(secondpass, write, scorer):
    file = write("in.jsonl", [{**request, "deadline": 0.3} for request in requests(2)])
    told = secondpass("rerank", file, "--quiet")
    assert [line["report"]["status"] for line in told.lines()] == ["ok", "ok"]
    assert scorer.warmed == 1


@pytest.mark.parametrize(
    ("options", "lines"),
    [((), []), ((), [{"query": "a", "candidates": []}]), (("--dry-run",), requests(2))],
    ids=["no query", "no candidate", "dry run"],
)
def test_nothing_is_loaded_if_nothing_is_ranked(secondpass, write, scorer, options, lines):
    file = write("in.jsonl", lines)
    secondpass("rerank", file, *LIMITED, *options)
    assert (scorer.loads, scorer.warmed) == (0, 0)


@pytest.mark.parametrize("fallback", [False, True])
def test_a_failing_load_is_reported_once_and_leaves_the_time_to_the_fallback(
    secondpass, write, scorer, fallback
):
    scorer.error = ModelLoadError("no such model")
    options = ("--set", "fallback=[lexical]") if fallback else ()
    file = write("in.jsonl", requests(2))
    told = secondpass("rerank", file, "--batch", 1, "--quiet", *LIMITED, *options)
    reports = [line["report"] for line in told.lines()]
    assert [report["status"] for report in reports] == ["degraded" if fallback else "unchanged"] * 2
    assert {issue["code"] for report in reports for issue in report["issues"]} == {
        "model_not_loaded"
    }
    assert scorer.loads == 1
    assert json.dumps(reports).count("no such model") == 2
