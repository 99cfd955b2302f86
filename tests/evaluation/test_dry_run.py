"""What rankings and comparisons would take, against what they take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import ByTable, Model, numbered, ranked
from sampling import examples
from secondpass import Candidate, InputError, Reranker
from secondpass.asking.planning import total
from secondpass.questions import estimate_tokens
from secondpass.strategies.blocks import Blocks
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise
from secondpass_evaluation import compare, dry_run, make_suite
from secondpass_evaluation.dry_run import expected_comparison

sizes = st.integers(1, 12)


@st.composite
def rerankers(draw):
    """A reranker, its model, and a fallback that must not count."""
    kind = draw(st.sampled_from(["graded", "listwise", "blocks", "cascade"]))
    model = Model() if kind in {"graded", "cascade"} else Model(ranked)
    shuffles = draw(st.integers(1, 3))
    if kind == "listwise":
        window = draw(st.integers(2, 8))
        stride = draw(st.integers(1, window - 1))
        method = Listwise(model, window=window, stride=stride, shuffles=shuffles)
    elif kind == "blocks":
        block, final = draw(st.integers(2, 8)), draw(st.integers(0, 8))
        method = Blocks(model, block=block, final=final, shuffles=shuffles)
    else:
        size, single = draw(sizes), draw(st.booleans())
        method = Graded(model, batch_size=size, judge_single=single, shuffles=shuffles)
    if kind == "cascade":
        method = Cascade(
            [{"method": ByTable(), "depth": 12}, {"method": method, "depth": draw(sizes)}]
        )
    limits = {"calls": draw(sizes)} if draw(st.booleans()) else None
    depth = draw(sizes)
    return Reranker(method, depth=depth, limits=limits, fallback=[ByTable()]), model


@examples(25)
@given(rerankers(), st.integers(0, 25))
def test_a_dry_run_expects_the_calls_and_pairs_of_the_ranking(made, count):
    reranker, model = made
    # Grades up to 10; equal lengths, so that the order of the candidates changes no estimate.
    texts = [f"{number % 10} wombats, {number:02}" for number in range(count)]
    expected = total(reranker.expected_use([("wombats", texts)]))
    assert model.prompts == []
    ranking = reranker.rerank("wombats", texts)
    assert expected.calls == len(model.prompts)
    assert expected.pairs == ranking.report.usage.pairs


def test_tokens_are_those_of_the_prompts():
    model = Model()
    reranker = Reranker(Graded(model, batch_size=4))
    texts = numbered([*range(10)])
    (expected,) = reranker.expected_use([("wombats", texts)])
    reranker.rerank("wombats", texts)
    prompts = [part for prompt in model.prompts for part in (prompt.system, prompt.turns[0].text)]
    assert expected.input_tokens == pytest.approx(sum(map(estimate_tokens, prompts)))
    assert expected.output_tokens > 10
    assert expected.cost is None


def test_options_of_a_call_count():
    reranker = Reranker(Graded(Model(), batch_size=5))
    requests = [("wombats", numbered([*range(10)]))] * 3
    assert [use.calls for use in reranker.expected_use(requests)] == [6]
    assert [use.calls for use in reranker.expected_use(requests, depth=5)] == [3]
    with pytest.raises(InputError, match="depth"):
        reranker.expected_use(requests, depth=0)


def test_without_packages_the_fallback_is_expected(monkeypatch):
    from secondpass.concurrency import lazy

    monkeypatch.setattr(lazy, "is_installed", lambda module: module != "openai")
    method = Graded({"type": "openai", "model": "m"})
    reranker = Reranker(method, fallback=[ByTable()])
    assert [use.model for use in reranker.expected_use([("q", ["a", "b"])])] == ["by-table"]


SUITE = make_suite(
    "suite",
    {"q1": "owl", "q2": "sea"},
    {"q1": {"d1": 1}, "q2": {"d2": 1}},
    candidates={
        query: [Candidate(f"{number} owls", f"d{number}") for number in range(6)]
        for query in ("q1", "q2")
    },
)


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


def given_suite(count):
    """Queries with six candidates each."""
    candidates = [Candidate(f"{number} owls", f"d{number}") for number in range(6)]
    queries = {f"q{number}": "owl" for number in range(count)}
    qrels = {query: {"d1": 1} for query in queries}
    return make_suite("suite", queries, qrels, candidates=dict.fromkeys(queries, candidates))


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
