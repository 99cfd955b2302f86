"""What is tried of a reranker."""

from types import SimpleNamespace

import pytest

from secondpass import Candidate, Reranker, Usage
from secondpass.ranking.blending import Blend
from secondpass_evaluation.tuning.result import Variant
from secondpass_evaluation.tuning.trials import (
    INSTALLED,
    Attempt,
    _share_known,
    bare,
    named,
    prepare,
)

LLM = {"type": "openai", "model": "m", "base_url": "http://127.0.0.1:9"}
GRADED = {"type": "graded", "llm": LLM}
MODEL = {"method": {"type": "cross_encoder", "model": "some/model"}}

TERM = {"type": "number", "field": "clicks", "high": 1, "weight": 0.1}


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")


def observed(count=60):
    suite = SimpleNamespace(queries={"q": "owl"})
    items = [Candidate(f"an owl {number}", str(number)) for number in range(count)]
    return SimpleNamespace(suite=suite, candidates={"q": items})


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        (None, {name: name for name in INSTALLED}),
        ("lexical", {"lexical": "lexical"}),
        ("some/model", {"model": MODEL}),
        (["lexical", "a/mine.yaml", "lexical"],
         {"lexical": "lexical", "mine": "a/mine.yaml", "lexical-2": "lexical"}),
        ({"x": "some/model", "y": "lexical"}, {"x": MODEL, "y": "lexical"}),
        ({"method": "lexical"}, {"method": "lexical"}),
        ([{"method": "lexical"}], {"rerank": {"method": "lexical"}}),
    ],
    ids=["none", "preset", "model", "several", "mapping", "configuration", "configurations"],
)  # fmt: skip
def test_names(specs, expected):
    assert named(specs) == expected


@pytest.mark.parametrize(
    ("config", "depths", "expected"),
    [
        ({"method": "lexical", "depth": 30}, None, (20, 30, 50, 100)),
        ({"method": "lexical"}, None, (20, 50, 100)),
        ({"method": "lexical"}, [70, 5, 80], (5, 70)),
        ({"method": "lexical", "order": "lost_in_the_middle"}, [5], ()),
        ({"method": "lexical", "terms": [TERM]}, [5], ()),
        ({"method": GRADED, "depth": 30}, None, (30,)),
        ({"method": GRADED}, [5], (5,)),
    ],
    ids=["own depth", "all depths", "given", "ordering", "terms", "service", "service, given"],
)
def test_depths(config, depths, expected):
    reranker = Reranker.from_config(config)
    attempt = prepare("a", reranker, observed(), depths, None)
    assert (attempt.depths, attempt.reason) == (expected, "")
    reranker.close()


@pytest.mark.parametrize(
    ("prices", "cost", "reason"),
    [
        ({}, 1.0, "its cost is not known; set `prices`"),
        ({"prices": {"input": 1e6, "output": 1e6}}, 1.0, "a query is expected to cost "),
        ({"prices": {"input": 1e-6, "output": 1e-6}}, 1.0, ""),
        ({}, None, ""),
    ],
    ids=["not known", "too much", "within", "no limit"],
)
def test_cost_of_services(prices, cost, reason):
    reranker = Reranker.from_config({"method": {**GRADED, "llm": {**LLM, **prices}}})
    attempt = prepare("a", reranker, observed(5), None, cost)
    assert attempt.asks
    assert attempt.reason.startswith(reason)
    assert bool(attempt.reason) == bool(reason)
    reranker.close()


def test_settings_that_are_fitted_are_left_out():
    config = {"method": "lexical", "floor": 0.5, "blend": 0.2, "top_k": 3, "tail": "drop"}
    reranker = bare({**config, "dedupe": True}, 7)
    assert (reranker.depth, reranker.dedupe) == (7, True)
    assert (reranker.floor, reranker.blend, reranker.top_k, reranker.tail) == (
        None, None, None, "keep",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("depth", "blend", "label"),
    [
        (None, None, "all candidates, no blend"),
        (5, None, "depth 5, no blend"),
        (5, Blend(0.2, "minmax"), "depth 5, blend 0.2 minmax"),
    ],
)
def test_labels(depth, blend, label):
    assert Variant(depth, blend, {}, {}, (), None).label == label


def test_the_time_within_which_most_queries_are_reranked():
    seconds = tuple(number / 100 for number in range(1, 101))
    assert Variant(5, None, {}, {}, seconds, None).p95 == 0.95
    assert Variant(5, None, {}, {}, (), None).p95 == 0.0


def test_the_share_of_passages_that_were_known():
    """Times say little of a new corpus if an earlier depth, or another query, encoded most."""

    def ranking(**usage):
        return SimpleNamespace(report=SimpleNamespace(usage=Usage(**usage)))

    assert _share_known({"q": ranking(known=3), "r": ranking(known=3, encoded=2)}) == 0.75
    assert _share_known({"q": ranking(encoded=2)}) == _share_known({"q": ranking()}) == 0.0


def test_pointwise_methods_are_run_once():
    assert Attempt("a", depths=(5, 10), pointwise=True).runs == (10,)
    assert Attempt("a", depths=(5, 10)).runs == (5, 10)
    assert Attempt("a", pointwise=True).runs == ()
