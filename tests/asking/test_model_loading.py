"""What the report says if a deadline passes because a model had to be loaded first."""

import asyncio
import re
import threading
import time

import pytest

from secondpass import ModelLoadError, Reranker
from secondpass.concurrency.lazy import LOADING, Lazy, LoadingTime

ADVICE = "call warm_up() when the process starts"


class Loading:
    """A scorer that loads something; it stops in ``load`` or in ``score`` until it is released."""

    score_kind = "unbounded"

    def __init__(self, stops_in, seconds=0.0):
        self.stops_in, self.seconds = stops_in, seconds
        self.name = f"stops in {stops_in}"
        self.released = threading.Event()
        self._value = Lazy()

    def _load(self):
        time.sleep(self.seconds)
        if self.stops_in == "load":
            self.released.wait(20)
        return "model"

    def warm_up(self):
        self._value.get(self._load)

    def score_pairs(self, query, documents):
        self._value.get(self._load)
        if self.stops_in == "score":
            self.released.wait(20)
        return [1.0] * len(documents)


class InBatches(Loading):
    def score_batches(self, requests, deadline):
        ((query, documents),) = requests
        scores = self.score_pairs(query, documents)
        yield [(0, index, score) for index, score in enumerate(scores)]


def messages(reranker, asynchronous):
    """The messages of the report about the deadline."""
    call = "a", ["a", "b"]
    ranking = asyncio.run(reranker.arerank(*call)) if asynchronous else reranker.rerank(*call)
    return [issue.message for issue in ranking.report.issues if issue.code == "deadline"]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kind", [Loading, InBatches])
@pytest.mark.parametrize(
    ("stops_in", "seconds", "pattern"),
    [
        (
            "load",
            0,
            r"the deadline of 0\.5 s passed while the model was being loaded \(0\.\d+ s so far\)",
        ),
        (
            "score",
            0.2,
            r"the deadline of 0\.5 s passed before these were scored; 0\.[2345]\d* s of it went "
            "into loading the model:",
        ),
        ("score", 0, r"the deadline of 0\.5 s passed before these were scored$"),
    ],
)
def test_a_missed_deadline_names_the_loading(kind, stops_in, seconds, pattern, asynchronous):
    scorer = kind(stops_in, seconds)
    reranker = Reranker(scorer, limits={"deadline": 0.5}, log_level="debug")
    try:
        (message,) = messages(reranker, asynchronous)
    finally:
        scorer.released.set()
    assert re.match(pattern, message), message
    assert message.endswith(ADVICE) != pattern.endswith("$")


def test_a_warm_model_is_not_named():
    scorer = Loading("score", 0.3)
    scorer.warm_up()
    try:
        (message,) = messages(Reranker(scorer, limits={"deadline": 0.2}, log_level="debug"), False)
    finally:
        scorer.released.set()
    assert message == "the deadline of 0.2 s passed before these were scored"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_load_of_an_abandoned_method_is_not_that_of_its_fallback(asynchronous):
    first, second = Loading("load"), Loading("score")
    second.warm_up()
    reranker = Reranker(first, fallback=[second], limits={"deadline": 0.4}, log_level="debug")
    try:
        loading, waiting = messages(reranker, asynchronous)
    finally:
        first.released.set()
        second.released.set()
    assert "while the model was being loaded" in loading
    assert waiting == "the deadline of 0.4 s passed before these were scored"


def test_loading_that_failed_before_counts_as_no_part_of_a_running_one():
    class Failing(Loading):
        def _load(self):
            time.sleep(0.3)
            raise ModelLoadError("no such model")

    second = Loading("load")
    method = Failing("load")
    reranker = Reranker(method, fallback=[second], limits={"deadline": 0.8}, log_level="debug")
    try:
        (message,) = messages(reranker, False)
    finally:
        second.released.set()
    assert 0.1 < float(re.search(r"\((0\.\d+) s so far", message)[1]) < 0.55


@pytest.mark.parametrize("instruction", [None, "prefer recent"])
def test_whether_an_instruction_is_taken_is_asked_only_with_one(instruction):
    """A scorer may read a file for it, in the thread of the caller."""

    class Asked(Loading):
        asked = 0

        @property
        def takes_instruction(self):
            self.asked += 1
            return False

    scorer = Asked("")
    Reranker(scorer, log_level="error").rerank("a", ["a", "b"], instruction=instruction)
    assert (scorer.asked > 0) == (instruction is not None)


def test_nested_loads_and_waits_for_a_load_count_once():
    inner, outer, counted = Lazy(), Lazy(), LoadingTime()
    token = LOADING.set([counted])
    try:
        began = time.monotonic()
        outer.get(lambda: inner.get(lambda: time.sleep(0.05) or "x"))
        took = time.monotonic() - began
        assert 0.05 <= counted.seconds <= took
        before = counted.seconds
        assert outer.get(pytest.fail) == "x"
    finally:
        LOADING.reset(token)
    assert counted.seconds == before
    assert counted.running is None
