"""Comparison of two periods: what is an alarm, what is a note, and what is an error."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from monitored_days import days_of
from sampling import examples
from secondpass import InputError
from secondpass.monitoring.ranking_days import DayCounts, merge_days
from secondpass.monitoring.sketches import Sketch, bin_of
from secondpass_evaluation import drift
from secondpass_evaluation import periods as period_tests
from secondpass_evaluation.periods import FEWEST, Period, share_tests, shift_tests


def sigmoid(score):
    return 1 / (1 + math.exp(-score))


def names(result):
    return {change.name for change in result.alarms}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (sigmoid, {"rerank.highest", "rerank.median"}),
        (lambda score: -score, {"rerank.highest", "rerank.median"}),
        (lambda score: score, set()),
    ],
    ids=["sigmoid", "sign", "none"],
)
def test_scores_that_change(change, found):
    result = drift(days_of(200), days_of(200, seed=1, change=change))
    assert names(result) == found
    assert {one.subject for one in result.alarms} <= {"scores"}
    assert (result.before, result.after) == (200, 200)


@pytest.mark.parametrize(
    ("before", "after", "alarm"), [(0, 25, True), (25, 0, True), (25, 25, False)]
)
def test_a_share_of_one_constant_score(before, after, alarm):
    result = drift(days_of(500, equal=before), days_of(500, seed=1, equal=after))
    assert names(result) == ({"score equal for all candidates"} if alarm else set())
    change = next(one for one in result.changes if one.name == "score equal for all candidates")
    assert (change.before, change.after) == (before / 500, after / 500)
    assert (change.method, change.subject) == ("model", "scores")
    assert change.description == "share of rankings with the score equal for all candidates"


@pytest.mark.parametrize(
    ("after", "found", "subject"),
    [
        ({"statuses": ["ok", "partial"], "issues": ["deadline"]}, "issue deadline", "faults"),
        ({"statuses": ["ok", "unchanged"]}, "status unchanged", "faults"),
        ({"kind": "probability"}, "score kind probability", "scores"),
        ({"method": "lexical"}, "method lexical", "methods"),
        ({"method": "model-2.5"}, "method model-2.5", "methods"),
    ],
    ids=["issue", "status", "kind", "method", "dot"],
)
def test_shares_that_change(after, found, subject):
    result = drift(days_of(100), days_of(100, seed=1, **after))
    change = next(one for one in result.alarms if one.name == found)
    assert (change.subject, change.is_share) == (subject, True)
    assert change.after - change.before == pytest.approx(change.effect)
    assert change.description == f"share of rankings with the {found}"


@pytest.mark.parametrize(
    ("after", "note"),
    [
        ({"version": "1.1"}, "version of secondpass: 1.0 before, 1.1 after"),
        ({"engine": "onnx int8 weights"}, "engine: none before, onnx int8 weights after"),
        ({"reranker": "cascade"}, "reranker: model before, cascade after"),
    ],
)
def test_what_is_known_is_a_note(after, note):
    result = drift(days_of(100), days_of(100, seed=1, **after))
    assert result.notes == (note,)
    assert not result.alarms


@pytest.mark.parametrize(
    ("counts", "text"),
    [((0, 5), "0 rankings before, 5 after"), ((1, 1), "1 ranking before, 1 after")],
)
def test_a_method_of_few_rankings_is_a_note(counts, text):
    periods = days_of(100), days_of(100, seed=1)
    for period, count in zip(periods, counts, strict=True):
        merge_days(period, days_of(count, method="lexical") if count else {})
    (note,) = drift(*periods).notes
    assert note.startswith(f"lexical: {text}")


@pytest.mark.parametrize("count", [19, 1])
def test_too_few_rankings(count):
    noun = "ranking" if count == 1 else "rankings"
    with pytest.raises(InputError, match=f"^after: {count} {noun}; at least 20 are needed"):
        drift(days_of(20), days_of(count))
    with pytest.raises(InputError, match=r"^before: "):
        drift(days_of(count), days_of(20))


@pytest.mark.parametrize(
    ("after", "p"),
    [({"change": lambda score: score + 0.15}, 1e-6), ({"statuses": ["ok"] * 199 + ["partial"]}, 1)],
    ids=["scores", "shares"],
)
def test_small_differences_of_many_rankings_do_not_count(after, p):
    result = drift(days_of(8_000), days_of(8_000, seed=1, **after))
    assert min(change.p for change in result.changes) < p
    assert not result.alarms


def test_alarms_come_first():
    changes = drift(days_of(100), days_of(100, seed=1, change=sigmoid)).changes
    order = [(not change.alarm, change.p) for change in changes]
    assert order == sorted(order)


def test_few_false_alarms():
    """Halves of the same rankings; expected is at most one alarm of 100."""
    rankings = [days_of(1, seed=seed, statuses=["ok"]) for seed in range(120)]
    for number in range(0, 120, 10):
        rankings[number] = days_of(1, seed=number, statuses=["partial"], issues=["deadline"])
    generator = random.Random(1)
    alarms = 0
    for _ in range(100):
        generator.shuffle(rankings)
        halves = [{}, {}]
        for number, ranking in enumerate(rankings):
            merge_days(halves[number % 2], ranking)
        alarms += bool(drift(*halves).alarms)
    assert alarms <= 1


@pytest.mark.parametrize("alpha", [0, 1])
def test_alpha_is_a_share(alpha):
    with pytest.raises(InputError, match=f"alpha: must lie between 0 and 1, not {alpha}"):
        drift(days_of(20), days_of(20), alpha=alpha)


def test_rankings_without_statistics():
    counts = DayCounts()
    for number in range(30):
        counts.add(number, "cancelled", ["cancelled"], {})
    (key,) = days_of(1)
    assert {one.subject for one in drift(days_of(30), {key: counts}).alarms} == {"faults"}


@examples(20)
@given(st.integers(0, 999), st.integers(3, 6), st.sampled_from([0.0, 4.0]))
def test_repeating_every_query_changes_nothing(seed, times, shift):
    def compared(times):
        after = days_of(40, seed=-1 - seed, change=lambda score: score + shift, times=times)
        return drift(days_of(60, seed=seed, times=times), after)

    twice, more = compared(2), compared(times)
    assert twice.changes == more.changes
    assert all("rankings before and" in result.notes[0] for result in (twice, more))
    # Of different queries, a few share a place in the count of repetitions: an alarm may be missed.
    assert names(twice) <= names(compared(1))


def test_a_few_queries_are_too_few():
    few = days_of(4, times=100)
    with pytest.raises(InputError, match="before: 400 rankings repeat few queries, and count as"):
        drift(few, days_of(400, seed=1))


# ---------------------------------------------------------------------- the tests of two periods


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
