"""Rankings that fail leave no cycles: what they used is released without a garbage collection."""

import contextlib
import gc
import time
import weakref

import pytest

from rotation import rotated
from secondpass import Reranker, RerankError

SECONDS = 60
TEXTS = ["a", "b", "c"]


class Failing:
    model_name = "failing"

    def __init__(self, outcome):
        self.outcome = outcome

    def score_pairs(self, query, documents):
        return self.outcome()

    def __call__(self, messages):
        return self.score_pairs("", [])


def fail():
    raise ValueError("a text")


OUTCOMES = {
    "raised": fail,
    "too few": lambda: [1.0],
    "no numbers": lambda: ["x", "y", "z"],
    "no reply": lambda: "no",
}


LIMITS = {"none": {}, "deadline": {"deadline": 60.0}, "target": {"target": 60.0}}


@pytest.mark.parametrize(
    ("outcome", "method", "limit", "strict"),
    rotated(OUTCOMES, ["scorer", "graded", "listwise"], LIMITS, [False, True]),
)
def test_a_failed_ranking_keeps_nothing(outcome, method, limit, strict):
    failing = Failing(OUTCOMES[outcome])
    kind = failing if method == "scorer" else {"type": method, "llm": failing}
    reranker = Reranker(
        kind, limits={**LIMITS[limit], "retries": 0}, log_level="debug", strict=strict
    )
    reference = weakref.ref(failing)
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(RerankError):
            reranker.rerank("q", TEXTS)
        del failing, kind, reranker
        until = time.monotonic() + SECONDS
        while reference() is not None:  # a thread may still end
            assert time.monotonic() < until
            time.sleep(0.001)
    finally:
        gc.enable()
