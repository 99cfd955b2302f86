"""What rankings and comparisons would take, against what they take."""

import pytest

from fakes import ByTable, Model
from secondpass import Candidate, Reranker
from secondpass.strategies.graded import Graded
from secondpass_evaluation import compare, dry_run, make_suite
from secondpass_evaluation.dry_run import expected_comparison


def test_without_packages_the_fallback_is_expected(monkeypatch):
    from secondpass.concurrency import lazy

    monkeypatch.setattr(lazy, "is_installed", lambda module: module != "openai")
    method = Graded({"type": "openai", "model": "m"})
    reranker = Reranker(method, fallback=[ByTable()])
    assert [use.model for use in reranker.expected_use([("q", ["a", "b"])])] == ["by-table"]


def given_suite(count):
    """Queries with six candidates each."""
    candidates = [Candidate(f"{number} owls", f"d{number}") for number in range(6)]
    queries = {f"q{number}": "owl" for number in range(count)}
    qrels = {query: {"d1": 1} for query in queries}
    return make_suite("suite", queries, qrels, candidates=dict.fromkeys(queries, candidates))


SUITE = given_suite(2)


def test_a_comparison_is_expected_per_system():
    graded, scorer = Reranker(Graded(Model(), batch_size=3)), Reranker(ByTable())
    expected = expected_comparison({"graded": graded, "scorer": scorer}, SUITE, shuffles=1)
    assert expected.queries == 2
    assert {
        name: [(use.model, use.calls, use.pairs) for use in uses]
        for name, uses in expected.systems.items()
    } == {
        "given+graded": [("model", 8, 24)],
        "given+scorer": [("by-table", 0, 24)],
    }
    assert expected.not_run == {}


def test_a_first_stage_that_cannot_run_is_a_reason_to_skip():
    expected = expected_comparison({"scorer": Reranker(ByTable())}, SUITE, behind="lexical")
    assert expected.systems == {}
    assert "no corpus" in expected.not_run["lexical+scorer"]


@pytest.mark.parametrize(
    ("queries", "sampled", "shuffles"),
    [(3, None, 0), (3, None, 1), (10, None, 0), (13, 10, 1)],
)
def test_the_cost_is_known_before_a_model_is_asked(queries, sampled, shuffles, monkeypatch):
    monkeypatch.setattr(dry_run, "_SAMPLE", 10)
    model = Model()
    rerankers = {"graded": Reranker(Graded(model, batch_size=4)), "scorer": Reranker(ByTable())}
    seen = []
    compare(
        rerankers,
        given_suite(queries),
        shuffles=shuffles,
        expected=lambda expected: seen.append((expected, len(model.prompts))),
    )
    ((expected, asked_before),) = seen
    assert asked_before == 0
    assert (expected.queries, expected.sampled) == (queries, sampled)
    ((name, (use,)),) = expected.systems.items()
    assert name == "given+graded"
    assert use.calls == len(model.prompts) == 2 * queries * (1 + shuffles)


def test_a_hundred_queries_are_sampled():
    seen = []

    def stop(expected):
        seen.append((expected.queries, expected.sampled))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare({"graded": Reranker(Graded(Model()))}, given_suite(101), expected=stop)
    assert seen == [(101, 100)]


def test_no_service_no_cost():
    seen = []
    compare({"scorer": Reranker(ByTable())}, SUITE, expected=seen.append)
    assert seen == []


def test_candidates_without_text_cost_nothing():
    seen = []
    suite = make_suite(
        "suite", {"q": "owl"}, {"q": {"d": 1}}, candidates={"q": [Candidate(None, "d")]}
    )
    found = compare({"graded": Reranker(Graded(Model()))}, suite, expected=seen.append)
    assert seen == []
    assert found["given+graded"].status == "not_measured"
