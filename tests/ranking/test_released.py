"""Rankings that fail leave no cycles: what they used is released without a garbage collection."""

import contextlib
import gc
import time
import weakref

import pytest

from rotation import rotated
from secondpass import Reranker, RerankError

SECONDS = 60
LIMITS = {"none": {}, "deadline": {"deadline": 60.0}}


class Method:
    """A scorer, and a function for a language model."""

    model_name = "a method"

    def __init__(self, outcome):
        self.outcome = outcome

    def score_pairs(self, query, documents):
        return self.outcome()

    def __call__(self, messages):
        return self.outcome()


def fail():
    raise ValueError("a text")


METHODS = {
    "scorer that raises": (lambda method: method, fail),
    "too few scores": (lambda method: method, lambda: [1.0]),
    "no numbers": (lambda method: method, lambda: ["x", "y", "z"]),
    "no reply": (lambda method: {"type": "graded", "llm": method}, lambda: "no"),
}


@pytest.mark.parametrize(("name", "limit", "strict"), rotated(METHODS, LIMITS, [False, True]))
def test_a_failed_ranking_keeps_nothing(name, limit, strict):
    make, outcome = METHODS[name]
    method = Method(outcome)
    limits = {**LIMITS[limit], "retries": 0}
    reranker = Reranker(make(method), limits=limits, log_level="debug", strict=strict)
    reference = weakref.ref(method)
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(RerankError):
            reranker.rerank("q", ["a", "b", "c"])
        del method, reranker
        until = time.monotonic() + SECONDS
        while reference() is not None:  # a thread may still end
            assert time.monotonic() < until
            time.sleep(0.001)
    finally:
        gc.enable()
