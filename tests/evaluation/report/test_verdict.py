from dataclasses import replace

import pytest

from judged_folders import mark
from reports import EDGES, Parsed, evaluation, make, with_reranker
from secondpass_evaluation import Corrected, CorrectedResult, Cost, Result, Stability
from secondpass_evaluation.report.page import fragment, page
from secondpass_evaluation.report.text import p_value
from secondpass_evaluation.report.verdict import verdict

TIMES = "at 20 times the search's time"
ALONE = f"Reranking improves the order, by a model's grades alone, {TIMES}."
IMPROVES = f"Reranking improves the order, {TIMES}."
NO_GAIN = "Reranking has no significant gain over lexical (+0."


def stage(value, name="vector"):
    """Another first stage, with the same value for each query."""
    values = dict.fromkeys(make().queries, value)
    return Result(name, "ran", evaluation=evaluation(values))


def not_run(behind):
    return Result(f"{behind}+cohere", "not_run", "no httpx", behind)


BETTER = stage(0.9)
AS_GOOD = "vector alone is as good as lexical+rerank: nDCG@10 0."


@pytest.mark.parametrize(
    ("comparison", "answer", "because"),
    [
        (make(), IMPROVES, "is significant (p = 0.010)"),
        (make(p=0.3), NO_GAIN, "is not significant"),
        (make(p=0.3), NO_GAIN, "With four times as many judged queries"),
        (make(gain=-0.1, p=0.3), "Reranking does not help: it may make", "0.1000 less"),
        (make(gain=-0.1), "Reranking does not help: it makes things", "0.1000 less"),
        (
            make(gain=0.0, p=1.0, low=-0.177, high=0.177),
            "Reranking makes no difference on average (95% interval -0.1770 to +0.1770).",
            "the same on average as the first stage, lexical",
        ),
        (make(gain=0.0, p=1.0, low=None, high=None), "Reranking makes no difference.", ""),
        (
            make(rerankers=("lexical",)),
            IMPROVES,
            "lexical+lexical, has nDCG@10 0.2250, 0.1000 more than the first stage, lexical (",
        ),
        (make(1, p=None), "1 query is too few to say whether reranking", "4 better"),
        (
            make(5),
            "5 queries are too few to say whether reranking",
            "At least 6 queries are needed to tell a difference from chance, so no interval is",
        ),
        (
            make(results=(stage(0, "given"), not_run("given"))),
            "Nothing was reranked, so there is no verdict.",
            "given+cohere is not run: no httpx.",
        ),
        (
            make(results=(Result("given", "not_run", "no httpx"), not_run("given"))),
            "Nothing was reranked, so there is no verdict.",
            "given and given+cohere are not run: no httpx.",
        ),
        (make(), IMPROVES, "42 ms per query (median), 1 call per query and 2.10"),
        (
            make(),
            IMPROVES,
            "16.7% of its rankings were degraded (a part of the method failed). Shuffled",
        ),
        (
            with_reranker(
                make(),
                statuses={"ok": 1, "degraded": 3, "unchanged": 2},
                degraded_by={"fallback": 3},
                fallbacks={"b": 2, "a": 1},
            ),
            IMPROVES,
            "83.3% of its rankings were not ok: 50.0% were degraded (ranked by the fallbacks a and "
            "b) and 33.3% were unchanged (nothing was judged).",
        ),
        (
            with_reranker(make(), statuses={"degraded": 6}, degraded_by={"language": 6}),
            IMPROVES,
            "All of its rankings were degraded (query or texts are not English, so the original "
            "order has a weight).",
        ),
        (
            with_reranker(make(), statuses={"partial": 3, "unchanged": 1}, degraded_by={}),
            IMPROVES,
            "None of its rankings was ok: 25.0% were unchanged (nothing was judged) and 75.0% were "
            "partial (only some candidates were scored).",
        ),
        (
            with_reranker(make(), statuses={"ok": 1, "partial": 1}, degraded_by={}),
            IMPROVES,
            "50.0% of its rankings were partial (only some candidates were scored).",
        ),
        (
            with_reranker(
                make(),
                statuses={"ok": 1, "degraded": 3},
                degraded_by={"doubtful": 3, "language": 1},
            ),
            IMPROVES,
            "75.0% of its rankings were degraded (query or texts are not English, so the original "
            "order has a weight; the model is doubtful).",
        ),
        (make(rerankers=("a", "b")), IMPROVES, "corrected for 2 comparisons"),
        (EDGES["no systems"], "No verdict.", "No reranker was requested"),
        (
            make(results=(*make().results[:1], not_run("hybrid"), not_run("vector"))),
            "Nothing was reranked, so there is no verdict.",
            "hybrid+cohere and vector+cohere are not run: no httpx.",
        ),
        (
            make(results=(*make().results, not_run("hybrid"))),
            IMPROVES,
            "hybrid+cohere is not run: no httpx.",
        ),
        (EDGES["no differences"], "No verdict.", "no baseline"),
        (
            make(results=(*make().results, BETTER)),
            "vector alone is better than lexical+rerank: nDCG@10 0.9000 against 0.2250, a "
            "difference of +0.6750 (95% interval +0.",
            "The best reranker, lexical+rerank, has nDCG@10 0.2250, 0.1000 more than the first",
        ),
        (make(results=(*make().results, stage(0.23))), AS_GOOD, "0.1000 more than the first"),
        (make(p=0.3, results=(*make(p=0.3).results, stage(0.23))), AS_GOOD, "not significant"),
        (make(results=(*make().results, stage(0.22))), IMPROVES, "0.1000 more than the first"),
        (
            make(5, results=(*make(5).results, stage(0.9))),
            "5 queries are too few to say",
            "vector, without reranking, has a higher mean: 0.9000.",
        ),
        (
            make(gain=-0.1, results=(*make(gain=-0.1).results, stage(0.9))),
            "Reranking does not help: it makes",
            "vector, without reranking, has a higher mean: 0.9000.",
        ),
        (
            make(results=(*make().results, stage(0.9), stage(0.8, "dense"))),
            "vector alone is better than lexical+rerank",
            "dense, without reranking, has a higher mean: 0.8000.",
        ),
        (
            replace(
                EDGES["no differences"], baseline="lexical+rerank", results=make().results[:2]
            ),
            "lexical+rerank over lexical+rerank improves the order, at 1.0 times lexical+rerank",
            "",
        ),
    ],
)  # fmt: skip
def test_verdict(comparison, answer, because):
    outcome = verdict(comparison)
    assert outcome.answer.startswith(answer)
    assert because in outcome.because
    assert outcome.answer in Parsed(fragment(comparison)).texts


def test_significant_gain_is_preferred():
    small, large = make(gain=0.05).results[1], make(gain=0.2, p=0.4).results[1]
    large = replace(large, name="lexical+large")
    outcome = verdict(make(results=(make().results[0], large, small)))
    assert outcome.best is small
    assert outcome.because.startswith("The reranker with the surest gain, lexical+rerank, has ")
    assert (
        "lexical+large scored higher (0.2750), but its gain over lexical is not significant "
        "(p = 0.400)." in outcome.because
    )


def test_one_configuration_by_two_names_is_named_once():
    small, large = make(gain=0.05).results[1], make(gain=0.2, p=0.4).results[1]
    names = ("lexical+fast", "lexical+shallow", "lexical+other")
    others = [replace(large, name=name) for name in names]
    others[2] = replace(others[2], config={"method": {"type": "other"}})
    because = verdict(make(results=(make().results[0], *others, small))).because
    assert "lexical+fast (the same configuration as lexical+shallow) scored higher (" in because
    assert "lexical+shallow scored" not in because
    assert "lexical+other scored higher (" in because
    unknown = [replace(other, config=None) for other in others]
    because = verdict(make(results=(make().results[0], *unknown, small))).because
    assert "same configuration" not in because
    assert "lexical+shallow scored higher (" in because


def test_the_answer_has_the_gain_over_the_best_search_alone():
    """Compared with one search, a gain can be large where another search is nearly as good."""
    comparison = make(results=(*make().results, stage(0.2), stage(0.05, "dense")))
    answer = verdict(comparison).answer
    assert answer.startswith(
        f"{IMPROVES} Over vector alone, the best search, it gains +0.0250 (95% interval "
    )
    assert answer.endswith("), which is not significant.")  # the interval includes 0
    values = make().results[1].evaluation.per_query["nDCG@10"]
    less = (0.02, 0.03)
    always_less = evaluation(
        {query: value - less[at % 2] for at, (query, value) in enumerate(values.items())}
    )
    search = replace(stage(0), evaluation=always_less)
    answer = verdict(make(results=(*make().results, search))).answer
    assert answer.endswith("it gains +0.0250 (95% interval +0.0193 to +0.0307).")
    by_person = by_model(0.05)
    (corrected,) = by_person.corrected
    names = {"lexical": 0.01, "vector": 0.03}
    others = [
        replace(corrected, name=name, mean=replace(corrected.mean, mean=value))
        for name, value in names.items()
    ]
    by_person = replace(
        by_person, results=(*by_person.results, stage(0.1)), corrected=(corrected, *others)
    )
    assert verdict(by_person).answer.endswith(
        "Over vector alone, the best search, it gains +0.0200, corrected by a person's judgements."
    )
    for worse in (make(results=(*make().results, stage(0.05))), make(5), make(gain=-0.1)):
        assert "the best search" not in verdict(worse).answer


@pytest.mark.parametrize(
    ("rerankers", "p", "low", "says"),
    [
        ("ab", 0.126, 0.006, "The interval excludes 0, but only p is corrected"),
        ("ab", 0.01, 0.006, ""),
        ("ab", 0.3, -0.1, ""),
        ("a", 0.126, 0.006, "The interval excludes 0, but it assumes that the differences are"),
        ("a", 0.01, -0.006, "The interval includes 0, but it assumes that the differences are"),
    ],
)
def test_an_interval_that_contradicts_p_is_explained(rerankers, p, low, says):
    outcome = verdict(make(rerankers=tuple(rerankers), p=p, low=low, high=0.2))
    assert says in outcome.because
    assert (" 0, but " in outcome.because) is bool(says)


@pytest.mark.parametrize("level", [0.05, 0.1])
@pytest.mark.parametrize("distance", [1e-4, 1e-5, 1e-7])
def test_a_rounded_p_is_on_the_side_of_the_level_that_the_verdict_says(level, distance):
    assert p_value(level) == f"{level:.3f}"
    for p in (level - distance, level + distance):
        shown = p_value(p).removeprefix("just below ")
        is_below = "just below" in p_value(p) or float(shown) < level
        assert is_below is (p < level)
    assert p_value(0.0123456) == "0.012"


STABLE = Stability(2, 0.9996, 1.0, "nDCG@10", (0.5, 0.5))


@pytest.mark.parametrize(
    ("rerankers", "stability", "sentence"),
    [
        (("a",), None, ""),
        (
            ("a", "b"),
            Stability(2, 0.833, 0.93, "nDCG@10", (0.4, 0.5)),
            "Shuffled input: lexical+a keeps 93% of its top 10 (tau 0.833); lexical+b keeps",
        ),
        (("a",), STABLE, "Shuffled input: lexical+a does not depend on the order."),
        (("a",), replace(STABLE, overlap=0.99), "lexical+a keeps 99% of its top 10 (tau 1.000)."),
    ],
)
def test_the_effect_of_input_order_is_told(rerankers, stability, sentence):
    because = verdict(with_reranker(make(rerankers=rerankers), stability=stability)).because
    assert sentence in because
    assert ("Shuffled" in because) is bool(sentence)


def test_no_significant_gain_is_said_once():
    comparison = make(p=0.3, results=(*make(p=0.3).results, stage(0.2)))
    assert verdict(comparison).answer == (
        "Reranking has no significant gain over lexical (+0.1000) or over vector alone (+0.0250), "
        f"{TIMES}."
    )
    assert verdict(make(p=0.3)).answer == (
        f"Reranking has no significant gain over lexical (+0.1000), {TIMES}."
    )
    first, best, _ = comparison.results[:3]
    other = replace(stage(0.1), cost=Cost({"q0": 1.0}))
    answer = verdict(replace(comparison, baseline="vector", results=(first, other, best))).answer
    assert answer.startswith("lexical+rerank has no significant gain over vector (+0.1000) or")


def test_a_baseline_is_no_first_stage_of_the_reranker():
    """A search that is the baseline is named so, and the time is that of the reranker's search."""
    comparison = make()
    first, best, _ = comparison.results
    other = replace(stage(0.1), cost=Cost({"q0": 1.0}))
    outcome = verdict(replace(comparison, baseline="vector", results=(first, other, best)))
    assert outcome.answer.startswith(
        "lexical+rerank over vector improves the order, at 20 times lexical's time."
    )
    assert "has nDCG@10 0.2250, 0.1000 more than the baseline, vector (" in outcome.because
    ranked = replace(best, name="lexical+other")
    outcome = verdict(replace(comparison, baseline="lexical+other", results=(first, ranked, best)))
    assert "more than the baseline, lexical+other (" in outcome.because


def test_calls_are_named_if_a_service_is_asked():
    local = with_reranker(make(), cost=Cost({"q0": 0.04}))
    assert "It takes 40 ms per query (median)." in verdict(local).because
    assert "calls per query" not in Parsed(page(local)).texts
    assert "calls per query" in Parsed(page(make())).texts


def test_equal_means_are_no_difference():
    comparison = make(p=0.3)
    best = comparison.results[1]
    same = replace(stage(0.2), evaluation=best.evaluation)
    answer = verdict(replace(comparison, results=(*comparison.results, same))).answer
    assert answer == "vector alone is as good as lexical+rerank, with the same nDCG@10, 0.2250."


def test_times_of_known_passages_are_named():
    seconds, first = {"q0": 0.8, "q1": 0.04, "q2": 0.04}, frozenset({"q0"})
    cost = Cost(seconds, known=57, encoded=3, first_seen=first)
    comparison = with_reranker(make(), cost=cost)
    assert (
        "It takes 40 ms per query (median). 95% of the passages had been "
        "encoded before, for another query or in a store. With passages seen for the first time "
        "it takes 800 ms (median of 1 query)." in verdict(comparison).because
    )
    assert "95% within 40 ms, passages encoded before" in Parsed(page(comparison)).texts
    assert "encoded" not in verdict(make()).because


def test_a_first_stage_alone_is_compared_by_corrected_means():
    comparison = by_model(0.05)
    (corrected,) = comparison.corrected
    vector = replace(corrected, name="vector", mean=replace(corrected.mean, mean=0.06))
    both = replace(
        comparison, results=(*comparison.results, stage(0.1)), corrected=(corrected, vector)
    )
    assert verdict(both).answer == (
        "vector alone is as good as lexical+rerank: nDCG@10 0.0600 against 0.0500, both corrected "
        "by a person's judgements."
    )
    by_grades = by_model()
    by_grades = replace(by_grades, results=(*by_grades.results, stage(0.9)))
    assert verdict(by_grades).answer.startswith(
        "vector alone is better than lexical+rerank, by a model's grades alone: nDCG@10 0.9000"
    )


def test_a_higher_mean_without_a_gain_is_explained():
    comparison = make(rerankers=("a", "b"))
    base, a, b, *_ = comparison.results
    loss = {name: replace(change, mean=-0.1) for name, change in b.differences.items()}
    vector = stage(0.6)
    behind = replace(
        b, name="vector+b", first_stage="vector", differences=loss, evaluation=stage(0.5).evaluation
    )
    outcome = verdict(replace(comparison, baseline=None, results=(base, a, vector, behind)))
    assert "vector+b scored higher (0.5000), but that is no gain over vector." in outcome.because


MARK = mark(model="judge-1")


def by_model(mean=None, half=0.02, rerankers=("rerank",), **changes):
    """A comparison on a model's grades, with the difference by a person's if there is one."""
    comparison = make(rerankers=rerankers, judged_by=MARK, **changes)
    if mean is None:
        return comparison
    interval = Corrected(
        "nDCG@10", 6, 12, 0.1, mean, mean - half, mean + half, mean, -1.0, 1.0, 0.5, 0.95
    )
    results = [result for result in comparison.results if result.differences]
    corrected = [CorrectedResult(each.name, interval, "lexical", interval) for each in results]
    return replace(comparison, corrected=tuple(corrected))


TWO = ("a", "b")


@pytest.mark.parametrize(
    ("comparison", "answer", "because"),
    [
        (by_model(), ALONE, "judge-1 made the judgements"),
        (
            by_model(gain=0.0, p=1.0),
            "Reranking makes no difference on average, by a model's grades alone (95%",
            "no person",
        ),
        (by_model(0.05), IMPROVES, "+0.0500 (95% interval +0.0300 to +0.0700)"),
        (by_model(0.05, p=0.3), IMPROVES, "which is significant. The verdict"),
        (by_model(0.01), NO_GAIN, "is not significant. The verdict"),
        (by_model(-0.01), "Reranking does not help: it may make", "of 12 queries"),
        (by_model(-0.05), "Reranking does not help: it makes things worse.", ""),
        (
            by_model(0.0),
            "Reranking makes no difference on average (95% interval -0.0200 to +0.0200).",
            "",
        ),
        (by_model(0.0205), IMPROVES, "which is significant. The verdict"),
        (by_model(0.0205, rerankers=TWO), NO_GAIN, "is not significant. The"),
    ],
)
def test_verdict_on_a_models_grades(comparison, answer, because):
    outcome = verdict(comparison)
    assert outcome.answer.startswith(answer)
    assert because in outcome.because
    assert "judge-1" in outcome.because


def test_a_verdict_says_how_much_of_the_pools_has_no_grade():
    half = mark(documents=9, ungraded=9)
    because = verdict(replace(by_model(), judged_by=half)).because
    assert "9 of 18 documents of the pools, 50.0%, have no grade" in because
    assert "no grade" not in verdict(by_model()).because


def test_the_best_reranker_is_that_of_the_corrected_difference():
    comparison = by_model(0.05, rerankers=("first", "second"))
    worse, better = comparison.corrected
    comparison = replace(
        comparison, corrected=(replace(worse, difference=replace(worse.mean, mean=-0.05)), better)
    )
    assert verdict(comparison).best.name == "lexical+second"


@pytest.mark.parametrize(
    ("search", "cost", "at"),
    [
        (0.003, Cost({"q0": 0.042}), ", at 14 times the search's time."),
        (0.04, Cost({"q0": 0.042}), ", at 1.1 times the search's time."),
        (1.0, Cost({"q0": 0.002}), ", at less than a tenth of the search's time."),
        (None, Cost({"q0": 0.042}), ", at 42 ms a query."),
        (0.003, Cost({"q0": 0.042}, cached=1), "."),
        (
            0.003,
            Cost({"q0": 0.042}, known=1, encoded=1, first_seen=frozenset()),
            ". It takes 42 ms a query (new passages: longer), the search 3 ms.",
        ),
        (
            0.003,
            Cost({"q0": 0.042, "q1": 9}, known=1, encoded=1, first_seen=frozenset({"q1"})),
            ". It takes 42 ms a query (new passages: 9,000 ms), the search 3 ms.",
        ),
        (
            None,
            Cost({"q0": 0.042, "q1": 0.664}, known=1, encoded=1, first_seen=frozenset({"q1"})),
            ". It takes 42 ms a query (new passages: 664 ms).",
        ),
        (
            0.003,
            Cost({"q0": 0.042}, known=39, encoded=61, first_seen=frozenset({"q0"})),
            ", at about 14 times the search's time (42 ms a query; 39% of the passages were "
            "encoded before).",
        ),
        (
            None,
            Cost({"q0": 0.042}, known=39, encoded=61, first_seen=frozenset({"q0"})),
            ", at about 42 ms a query (39% of the passages were encoded before).",
        ),
        (0.003, Cost(), "."),
    ],
)
def test_a_gain_is_weighed_against_time(search, cost, at):
    comparison = with_reranker(make(), cost=cost)
    stage, *others = comparison.results
    stage = replace(stage, cost=Cost({} if search is None else {"q0": search}))
    answer = verdict(replace(comparison, results=(stage, *others))).answer
    assert answer == f"Reranking improves the order{at}"


@pytest.mark.parametrize(
    ("shares", "settings", "depth"),
    [
        ({10: 0.5, 20: 0.93, 50: 0.95, 100: 1}, {}, "first 20 of 100 candidates would keep 93% of"),
        ({10: 1.2, 20: 1}, {}, "first 10 of 20 candidates would keep 120% of"),
        ({10: 0.5, 20: 1}, {}, None),
        ({}, {}, None),
        ({10: 1, 20: 1}, {"p": 0.3}, None),
        ({10: 1, 20: 1}, {"gain": -0.1}, None),
    ],
)
def test_the_depth_at_which_most_of_the_gain_is_kept(shares, settings, depth):
    comparison = make(**settings)
    (result, *_) = [each for each in comparison.ran if each.first_stage]
    gain = result.differences["nDCG@10"].mean
    before = result.evaluation.mean["nDCG@10"] - gain
    depths = {count: before + share * gain for count, share in shares.items()}
    because = verdict(with_reranker(comparison, depths=depths)).because
    assert ("would keep" in because) == (depth is not None)
    assert depth is None or depth in because
