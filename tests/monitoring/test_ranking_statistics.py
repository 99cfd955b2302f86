"""Statistics of a ranking: their values, and when there are none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from fakes import Answering, InOrder
from secondpass import Candidate, Reranker
from secondpass.monitoring.ranking_statistics import STATISTICS, ranking_statistics
from secondpass.strategies.cascade import Cascade, CascadeStage


def statistics(scores, originals=None, scorer=None, **settings):
    originals = originals or [None] * len(scores)
    candidates = [Candidate(f"text {at}", score=one) for at, one in enumerate(originals)]
    reranker = Reranker(scorer or InOrder(scores), log_level="debug", **settings)
    trace = reranker.rerank("q", candidates).trace
    assert trace is not None
    return ranking_statistics(trace)


def test_scores():
    found = statistics([0.1, 0.9, 0.5, 0.5])
    assert found["rerank.highest"] == 0.9
    assert found["rerank.median"] == 0.5
    assert found["rerank.lowest"] == 0.1
    assert found["rerank.lead"] == pytest.approx(0.4)
    assert found["rerank.ties"] == 0.5
    assert found["rerank.deviation"] == pytest.approx(math.sqrt(0.08))


def test_candidates():
    found = statistics([1, 2, 3], [0.7, None, 0.2], depth=2)
    assert found["candidates.count"] == 3
    assert found["candidates.scored"] == 2
    assert (found["candidates.highest"], found["candidates.lowest"]) == (0.7, 0.2)
    assert found["candidates.lead"] == pytest.approx(0.5)


def test_moves():
    scores = [0] * 10 + [3, 2, 0, 0]
    found = statistics(scores)
    assert found["moves.first"] == 11
    assert found["moves.replaced"] == pytest.approx(0.2)


@given(st.lists(st.integers(0, 20), min_size=2, max_size=30, unique=True))
def test_correlation_is_spearmans(scores):
    expected = spearmanr(range(len(scores)), [-score for score in scores]).statistic
    assert statistics(scores)["moves.correlation"] == pytest.approx(expected)


def test_final_scores_only_with_a_blend():
    plain = statistics([1, 2], [2, 1])
    assert not any(name.startswith("final") for name in plain)
    blended = statistics([1, 2], [2, 1], blend={"original": 0.25, "normalize": "minmax"})
    assert blended["final.highest"] == 0.75
    assert blended["rerank.highest"] == 2


@pytest.mark.parametrize("settings", [{"top_k": 1}, {"floor": 5.0}])
def test_what_is_left_out_counts(settings):
    assert statistics([1, 9, 2], **settings) == statistics([1, 9, 2])


def test_stages_of_a_cascade():
    first, second = InOrder([1, 5, 3, 2]), InOrder([7, 8])
    found = statistics([0] * 4, scorer=Cascade([CascadeStage(first, 4), CascadeStage(second, 2)]))
    assert found["stage1.highest"] == 5
    assert found["stage1.median"] == 3
    assert found["stage2.highest"] == 8
    assert found["rerank.highest"] == 1


def fail(_count):
    raise RuntimeError


@pytest.mark.parametrize(("scores", "scorer"), [([], None), ([1.0], Answering(fail))])
def test_nothing_was_scored(scores, scorer):
    assert statistics(scores, scorer=scorer).keys() == {"candidates.count"}


def test_one_candidate():
    found = statistics([0.5], [0.1])
    assert found["rerank.highest"] == found["rerank.lowest"] == 0.5
    assert not {"rerank.lead", "moves.correlation", "candidates.lead"} & found.keys()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=12), st.booleans())
def test_any_scores(scores, blended):
    settings = {"blend": {"original": 0.5, "normalize": "minmax"}} if blended else {}
    found = statistics(scores, [*scores], **settings)
    assert found.keys() <= STATISTICS.keys()
    assert found["candidates.count"] == len(scores)
