"""Gates that are learned: what is accepted, what is refused and why, and the bound that holds."""

import math
from functools import cache

import pytest

from secondpass import Candidate, ConfigurationError, InputError, Ranking, Report, Reranker
from secondpass.evaluation import learn_gate, make_suite
from secondpass.evaluation.gates import regrets
from secondpass.evaluation.measures import Evaluation
from secondpass.types import Ranked


class Right:
    """Scores the relevant passage highest."""

    model_name = "right"

    def score_pairs(self, query, documents):
        return [float("yes" in document) for document in documents]


class Failing:
    """Scores nothing."""

    model_name = "failing"

    def score_pairs(self, query, documents):
        return [math.nan] * len(documents)


def observed(queries, certain, gain=1.0, *, scores=(9.0, 3.0, 2.0, 1.0), wrong=()):
    """A suite on which the pass gains on uncertain queries only, and its rankings.

    Args:
        queries: their number.
        certain: share of them, of which the first score leads.
        gain: share of the uncertain queries on which the pass gains.
        scores: retrieval scores of a certain query.
        wrong: certain queries on which the pass gains all the same.
    """
    candidates, qrels, rankings = {}, {}, {}
    for number in range(queries):
        is_certain = number < certain * queries
        kept = is_certain and number not in wrong
        kept = kept or (not is_certain and number % 10 >= 10 * gain)
        best = 0 if kept else 2
        levels = scores if is_certain else (3.1, 3.0, 2.0, 1.0)
        candidates[f"q{number}"], rankings[f"q{number}"] = ranked(best, tuple(levels))
        qrels[f"q{number}"] = {f"d{best}": 1}
    suite = make_suite("made", {q: q for q in qrels}, qrels, candidates=candidates)
    return suite, candidates, rankings


@cache
def ranked(best, levels):
    """Candidates with these retrieval scores, of which one is relevant, and their ranking."""
    candidates = [
        Candidate("yes" if i == best else "no", f"d{i}", level) for i, level in enumerate(levels)
    ]
    return candidates, Reranker(Right()).rerank("which", candidates)


def test_certain_queries_are_left_out():
    fit = learn_gate(*observed(600, 0.7))
    assert fit.when is not None
    ((name, condition),) = fit.when.items()
    assert name in {"margin", "top_zscore"}
    assert set(condition) == {"below"}
    assert (fit.skipped, fit.saved, fit.regret) == (0.7, 0.7, 0.0)
    assert "leaves the pass out for 70% of the queries" in fit.reason
    reranker = Reranker(Right(), when=fit.when)
    suite, candidates, _ = observed(10, 0.5)
    skipped = [reranker.rerank(q, candidates[q]).report.skipped is not None for q in suite.queries]
    assert skipped == [True] * 5 + [False] * 5


def test_bound_to_the_reranker_it_was_learned_with():
    suite, candidates, _ = observed(100, 1)
    words = Reranker("lexical")
    rankings = {query: words.rerank(query, candidates[query]) for query in suite.queries}
    fit = learn_gate(
        suite, candidates, rankings, max_regret=0.1, reranker=words, first_stage="given"
    )
    assert fit.when["fitted"].items() >= {"method": "lexical", "first_stage": "given"}.items()
    assert Reranker("lexical", when=fit.when).when.fitted.method == "lexical"
    with pytest.raises(ConfigurationError, match=r"when\.fitted\.settings: was fitted for other"):
        Reranker.from_config({"method": {"type": "lexical", "k1": 2.0}, "when": fit.when})


def test_a_smaller_depth():
    # The relevant passage is third: it is found with three candidates, and not with two.
    parts = observed(600, 0.7, wrong=range(420))
    assert learn_gate(*parts).when is None
    assert learn_gate(*parts, depths=(2,)).when is None
    fit = learn_gate(*parts, depths=(0, 2, 3))
    assert fit.when is not None
    assert (fit.when["depth"], fit.skipped, fit.saved) == (3, 1.0, 0.25)


def test_skipping_is_preferred_to_a_smaller_depth():
    fit = learn_gate(*observed(800, 0.5), depths=(0, 3))
    assert fit.when is not None
    assert "depth" not in fit.when


@pytest.mark.parametrize(
    ("parts", "options", "reason"),
    [
        ({"queries": 0, "certain": 0}, {}, "there are no queries"),
        ({"queries": 40, "certain": 1}, {}, "with 470 or more queries, and there are 40"),
        ({"queries": 40, "certain": 1}, {"max_regret": 0.3}, None),
        ({"queries": 500, "certain": 1, "scores": [1.0] * 4}, {}, "no retrieval scores that fall"),
        ({"queries": 500, "certain": 1, "scores": [None] * 4}, {}, "no retrieval scores that fall"),
        (
            {"queries": 600, "certain": 1, "wrong": range(0, 600, 9)},
            {},
            "would save 0% of the pairs only",
        ),
        ({"queries": 600, "certain": 0.05, "gain": 1}, {}, "would save 5% of the pairs only"),
        ({"queries": 500, "certain": 1}, {"measure": "NumRet"}, "values outside 0 to 1, such as 4"),
        ({"queries": 500, "certain": 1}, {"measure": "P(rel=2)@1"}, "no query has a relevant"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_off_where_it_cannot_help(parts, options, reason):
    if not parts["queries"]:
        suite, candidates, _ = observed(1, 1)
        fit = learn_gate(suite, candidates, {}, **options)
    else:
        fit = learn_gate(*observed(**parts), **options)
    assert (fit.when is None) == (reason is not None)
    assert (reason or "leaves the pass out") in fit.reason
    assert (fit.saved > 0) == (reason is None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_regret": 0}, "max_regret: must lie between 0 and 1, not 0"),
        ({"confidence": 1}, "confidence: must lie between 0 and 1, not 1"),
        ({"depths": ()}, "depths: give at least one"),
        ({"depths": (-1,)}, "depths"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(InputError) as raised:
        learn_gate(*observed(3, 1), **options)
    assert message in str(raised.value)


def test_incomplete_rankings_are_refused():
    suite, candidates, rankings = observed(3, 1)
    cut = {
        query: Ranking("", ranking.items[:2], Report("ok")) for query, ranking in rankings.items()
    }
    with pytest.raises(InputError, match="must hold each candidate once"):
        learn_gate(suite, candidates, cut)
    with pytest.raises(InputError, match="the query 'x' is not in the suite"):
        learn_gate(suite, candidates, {"x": rankings["q0"]})
    assert isinstance(rankings["q0"][0], Ranked)


def test_rankings_with_a_gate_are_refused():
    suite, candidates, _ = observed(3, 1)
    gated = Reranker(Right(), when={"words": {"below": 1}})
    rankings = {query: gated.rerank(query, candidates[query]) for query in suite.queries}
    with pytest.raises(InputError, match=r"rankings\['q0'\]: was made with a gate"):
        learn_gate(suite, candidates, rankings)


def test_a_pass_that_failed_is_no_evidence_that_it_gains_nothing():
    suite, candidates, rankings = observed(600, 0.7)
    failing = Reranker(Failing(), log_level="error")
    failed = dict.fromkeys(suite.queries, failing.rerank("q0", candidates["q0"]))
    assert failed["q0"].report.status == "unchanged"
    assert "there are no queries to learn from" in learn_gate(suite, candidates, failed).reason
    some = {**failed, **{query: rankings[query] for query in [*rankings][:100]}}
    assert "and there are 100" in learn_gate(suite, candidates, some).reason


def test_values_that_are_no_numbers_are_refused(monkeypatch):
    def undefined(run, qrels, measures):
        return Evaluation({measures[0]: dict.fromkeys(qrels, math.nan)}, {})

    monkeypatch.setattr(regrets, "evaluate", undefined)
    fit = learn_gate(*observed(500, 1))
    assert fit.when is None
    assert "values outside 0 to 1, such as nan" in fit.reason


# ---------------------------------------------------------------------- the bound
