"""Arguments of tuning, and its limits."""

from types import SimpleNamespace

import pytest

from secondpass import Candidate, InputError
from secondpass_evaluation.tuning.trials import Attempt, Variant
from secondpass_evaluation.tuning.tuning import check_candidates, check_rerankers, keep_within


def variant(depth, *seconds, cost=0.0):
    return Variant(depth, None, {}, {}, seconds, cost)


def within(*variants, latency=None, latency_of="p95", cost=None):
    attempt = Attempt("a", variants=[*variants])
    keep_within(attempt, latency, latency_of, cost)
    return [item.depth for item in attempt.variants], attempt.reason


FAST, SLOW = variant(10, 0.1, 0.1), variant(100, 0.1, 0.9)
CHEAP, DEAR, UNKNOWN = (
    variant(n, 0.1, cost=cost) for n, cost in ((10, 0.1), (20, 2.0), (30, None))
)


@pytest.mark.parametrize(
    ("variants", "limits", "depths", "reason"),
    [
        ([FAST, SLOW], {}, [10, 100], ""),
        ([FAST, SLOW], {"latency": 0.5}, [10], ""),
        ([FAST, SLOW], {"latency": 0.5, "latency_of": "mean"}, [10, 100], ""),
        ([FAST, SLOW], {"latency": 0.05}, [], "takes 0.1 s a query (p95), more than 0.05"),
        ([SLOW], {"latency": 0.4, "latency_of": "mean"}, [], "takes 0.5 s a query (mean), more"),
        ([CHEAP, DEAR, UNKNOWN], {"cost": 1.0}, [10], ""),
        ([DEAR, UNKNOWN], {"cost": 1.0}, [], "costs 2 a query, and the limit is 1"),
        ([UNKNOWN], {"cost": 1.0}, [], "its cost is unknown, and the limit is 1"),
        ([FAST], {"latency": 0.01, "cost": 0.0}, [], "takes 0.1 s a query"),
        ([], {"latency": 0.1, "cost": 1.0}, [], ""),
    ],
)
def test_variants_within_the_limits(variants, limits, depths, reason):
    kept, why = within(*variants, **limits)
    assert kept == depths
    assert why.startswith(reason)
    assert bool(why) == bool(reason)


@pytest.mark.parametrize(
    ("qrels", "has_any"),
    [({"d1": 1}, True), ({"d1": 0}, False), ({"x": 1}, False), ({}, False)],
    ids=["relevant", "not relevant", "elsewhere", "not judged"],
)
def test_a_candidate_has_to_be_relevant(qrels, has_any):
    suite = SimpleNamespace(qrels={"q": qrels})
    observed = SimpleNamespace(
        suite=suite, stage="given", candidates={"q": [Candidate("a", "d1"), Candidate("b", "d2")]}
    )
    if has_any:
        check_candidates(observed)
        return
    with pytest.raises(InputError, match="no relevant document is among the candidates of given"):
        check_candidates(observed)


@pytest.mark.parametrize(
    ("created", "missing", "message"),
    [
        ("", "", "give at least one"),
        ("abcdefghi", "", "at most 8 can be compared, not 9"),
        ("ab", "bc", "not_run: has b, which is among"),
    ],
)
def test_names_of_rerankers(created, missing, message):
    check_rerankers("abcdefgh", "xyz")
    check_rerankers("", "a")
    with pytest.raises(InputError, match=message):
        check_rerankers(created, missing)
