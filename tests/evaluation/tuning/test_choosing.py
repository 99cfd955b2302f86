"""The choice among variants of given quality, time and cost."""

from types import SimpleNamespace

import pytest

from secondpass_evaluation.tuning.result import Variant
from secondpass_evaluation.tuning.selection import Held, Selection
from secondpass_evaluation.tuning.trials import Attempt
from secondpass_evaluation.tuning.tuning import _more, choose, keep_within
from tuning_suites import LAST

SETTINGS = {"smallest_gain": 0.01, "seed": 0}
BEST, WORST = ({q: {f"d{q[1:]}-{place}": 1.0} for q in LAST.queries} for place in (5, 0))


def variant(depth, run, seconds=0.1, cost=0.0):
    return Variant(depth, None, {"depth": depth}, run, (seconds,), cost)


def chosen(*attempts, **options):
    observed = SimpleNamespace(suite=LAST, stage="given")
    return choose(observed, dict.fromkeys(LAST.queries, 0.0), attempts, "RR", SETTINGS, **options)


def test_the_best_variant_of_the_best_reranker_is_adopted():
    found = chosen(
        Attempt("good", variants=[variant(3, WORST), variant(6, BEST)]),
        Attempt("bad", variants=[variant(3, WORST)]),
        Attempt("missing", reason="no key"),
    )
    assert (found.adopted, found.config, found.baseline) == ("good", {"depth": 6}, 0.0)
    assert found.gain.mean == found["good"].mean == 1.0
    assert [(trial.status, trial.variants) for trial in found.trials] == [
        ("adopted", 2), ("tried", 1), ("not_tried", 0),
    ]  # fmt: skip
    assert found["bad"].reason == "it changes the measure for no query"
    assert found["missing"].reason == "no key"


HALF = dict.fromkeys(LAST.queries, 0.5)
ALONE = "But vector alone, without a reranker, has RR 0.5000 (given 0.0000). "
BEHIND = " To tune behind it: --behind vector."


@pytest.mark.parametrize(
    ("run", "others", "told"),
    [
        (
            BEST,
            {"vector": HALF},
            f"{ALONE}Over vector, the gain of this configuration is +0.5000 (",
        ),
        (BEST, {"vector": dict.fromkeys(HALF, 1.0)}, "is +0.0000 (95% interval"),
        (WORST, {"lexical": dict.fromkeys(HALF, 0.1), "vector": HALF}, ALONE + BEHIND.strip()),
        (BEST, {"vector": dict.fromkeys(HALF, 0.0)}, ""),
        (BEST, {}, ""),
    ],
    ids=["gain over it", "no gain over it", "nothing adopted", "not better", "none"],
)
def test_a_better_search_is_named(run, others, told):
    found = chosen(Attempt("a", variants=[variant(6, run)]), others=others)
    assert ("But" in found.verdict, BEHIND in found.verdict) == (bool(told), bool(told))
    assert told in found.verdict
    maybe = "which is not significant" in found.verdict.split("alone")[-1]
    assert maybe is (told.startswith("is +0.0000"))
    assert (found.to_dict()["better_search"] is None) is not bool(told)
    assert found.provenance()[1] == found.verdict


def test_nothing_to_choose_from():
    found = chosen(Attempt("missing", reason="no key"))
    assert (found.adopted, found.gain, found.more_queries) == (None, None, None)


def test_failures_are_noted_of_what_was_tried():
    tried = Attempt("a", reason="out of memory", variants=[variant(3, BEST)])
    tried.statuses.update(ok=3, partial=1, degraded=1200)
    missing = Attempt("b", reason="no key")
    missing.statuses.update(unchanged=3)
    assert chosen(tried, missing).notes == (
        "a was not tried at all depths: out of memory",
        "a: of 1,204 rankings, not all were ok (1,200 degraded, 1 partial); "
        "the figures include these",
    )


@pytest.mark.parametrize(
    ("mean", "smallest", "fewest"),
    [(0.1, 0.01, 1), (0.0, 0.5, 0)],
    ids=["a gain that may be chance", "too small a gain"],
)
def test_more_queries(mean, smallest, fewest):
    best, worst = (Held(gain, None, None, 0.2, 0.01, 7) for gain in (mean, -1.0))
    selection = Selection({"a": best, "b": worst}, best, {}, {"a": 2.0, "b": 2.0}, 0.0)
    needed, target = _more(selection, 0, smallest)
    assert target == max(mean, smallest)
    assert needed > 1
    assert _more(selection, needed - 1, smallest)[0] == 1
    assert _more(selection, 10_000, smallest)[0] == fewest


def timed(depth, *seconds, cost=0.0):
    return Variant(depth, None, {}, {}, seconds, cost)


def within(*variants, latency=None, cost=None):
    attempt = Attempt("a", variants=[*variants])
    keep_within(attempt, latency, cost)
    return [item.depth for item in attempt.variants], attempt.reason


FAST, SLOW = timed(10, 0.1, 0.1), timed(100, 0.1, 0.9)
CHEAP, DEAR, UNKNOWN = (timed(n, 0.1, cost=cost) for n, cost in ((10, 0.1), (20, 2.0), (30, None)))


@pytest.mark.parametrize(
    ("variants", "limits", "depths", "reason"),
    [
        ([FAST, SLOW], {}, [10, 100], ""),
        ([FAST, SLOW], {"latency": 0.5}, [10], ""),
        (
            [FAST, SLOW],
            {"latency": 0.05},
            [],
            "it takes 0.1 s a query (95th percentile), more than 0.05",
        ),
        ([CHEAP, DEAR, UNKNOWN], {"cost": 1.0}, [10], ""),
        ([DEAR, UNKNOWN], {"cost": 1.0}, [], "it costs 2 a query, and the limit is 1"),
        ([UNKNOWN], {"cost": 1.0}, [], "its cost is unknown, and the limit is 1"),
        ([FAST], {"latency": 0.01, "cost": 0.0}, [], "it takes 0.1 s a query"),
        ([], {"latency": 0.1, "cost": 1.0}, [], ""),
    ],
)
def test_variants_within_the_limits(variants, limits, depths, reason):
    kept, why = within(*variants, **limits)
    assert kept == depths
    assert why.startswith(reason)
    assert bool(why) == bool(reason)
