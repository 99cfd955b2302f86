"""The tests of two periods are scipy's, and only what may differ is tested."""

import random

import pytest
from scipy import stats

from monitored_days import days_of
from secondpass.monitoring.sketches import Sketch, bin_of
from secondpass_evaluation import periods as period_tests
from secondpass_evaluation.periods import FEWEST, Period, share_tests, shift_tests


def test_a_period_adds_up_its_days():
    days = {
        **days_of(30, statuses=["ok", "partial"], issues=["timeout"]),
        **days_of(10, seed=1, day="2026-11-24", engine="onnx"),
        **days_of(5, seed=2, method=None, kind=None),
    }
    period = Period(days)
    assert period.rankings == 45
    assert period.methods == {"model": 40, "none": 5}
    assert period.shares == {
        "method model": 40, "method none": 5, "score kind logit": 40, "score kind none": 5,
        "status ok": 30, "status partial": 15, "issue timeout": 15,
    }  # fmt: skip
    # What the retriever returned is of all methods together.
    assert period.sketches[None]["candidates.highest"].count == 45
    assert period.sketches["model"]["rerank.highest"].count == 40
    assert period.values(lambda key: key.engine) == {"onnx"}


def test_shares_are_compared_by_fishers_exact_test():
    before = Period(days_of(40, statuses=["ok", "ok", "ok", "partial"]))
    after = Period(days_of(30, statuses=["ok", "partial"]))
    found = {test.name: test for test in share_tests(before, after)}
    assert found.keys() == {"status ok", "status partial"}  # all have the same method and kind
    test = found["status partial"]
    assert (test.before, test.after, test.effect) == (0.25, 0.5, 0.25)
    assert test.p == pytest.approx(stats.fisher_exact([[10, 15], [30, 15]]).pvalue)
    assert (test.method, test.is_share) == (None, True)


@pytest.mark.parametrize(("first", "second"), [(30, 30), (25, 40), (600, 30)])
def test_values_are_compared_by_kolmogorov_and_smirnov(first, second):
    rng = random.Random(3)
    samples = [rng.gauss(4, 2) for _ in range(first)], [rng.gauss(5, 2) for _ in range(second)]
    sketches = Sketch(), Sketch()
    for sketch, sample in zip(sketches, samples, strict=True):
        for value in sample:
            sketch.add(value)
    effect, p = period_tests._kolmogorov_smirnov(*sketches, each=1.0)
    bins = [[bin_of(value) for value in sample] for sample in samples]
    method = "exact" if max(first, second) <= period_tests._EXACT_UP_TO else "asymp"
    expected = stats.ks_2samp(*bins, method=method)
    assert effect == pytest.approx(expected.statistic)
    assert p == pytest.approx(expected.pvalue, rel=1e-6)


def test_only_enough_values_that_vary_are_compared():
    before, after = Period(days_of(FEWEST)), Period(days_of(FEWEST, seed=1))
    found = {(test.method, test.name) for test in shift_tests(before, after)}
    assert found == {
        (None, "candidates.highest"),  # of which the number is always 100
        ("model", "moves.correlation"),
        ("model", "rerank.highest"),
        ("model", "rerank.median"),
    }
    assert not [*shift_tests(before, Period(days_of(FEWEST - 1)))]
    # A method is compared only if it is in both periods.
    others = Period(days_of(FEWEST, method="other"))
    assert {test.method for test in shift_tests(before, others)} == {None}
