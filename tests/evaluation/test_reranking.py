from dataclasses import replace

import pytest

from fakes import ByTable, Model, graded
from rerank_answers import rows
from secondpass import Candidate, Reranker
from secondpass.errors import ModelLoadError
from secondpass.limits import Limits, Prices
from secondpass.questions import Completion
from secondpass.strategies.graded import Graded
from secondpass_evaluation import Cost, Result, compare, evaluate, make_suite
from secondpass_evaluation.results import percentiles
from topic_suites import (
    CANDIDATES,
    FIRST_IS_BEST,
    SUITE,
    TOPICS,
    ByGrade,
    failing,
    figures,
    passages,
    suite_of,
)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModelLoadError("no such folder"), "no model can be loaded: no such folder"),
        (RuntimeError("a key"), "no model can be loaded: RuntimeError"),
    ],
)
def test_model_that_cannot_be_loaded(error, reason) -> None:
    broken = Reranker(ByGrade(warm_up=failing(error)))
    found = compare({"broken": broken, "x": Reranker(ByGrade())}, SUITE, first_stages=["lexical"])
    assert (found["lexical+broken"].status, found["lexical+broken"].reason) == ("not_run", reason)
    assert found["lexical+x"].status == "ran"


@pytest.mark.parametrize(
    ("settings", "kept"), [({"floor": 1.5}, 2), ({"top_k": 1}, 4), ({"floor": 9.0}, 0)]
)
def test_documents_left_out(settings, kept) -> None:
    found = compare(
        {"x": Reranker(ByGrade(), **settings)}, SUITE, first_stages=["lexical"], shuffles=1
    )
    result = found["lexical+x"]
    assert {len(documents) for documents in result.run.values()} == {kept}
    assert ("top_k of x is not applied" in " ".join(found.notes)) == ("top_k" in settings)
    assert result.evaluation == evaluate(result.run, SUITE.qrels)
    assert set(result.evaluation.per_query["RR"]) == set(SUITE.queries)


@pytest.mark.parametrize(
    "listed",
    [
        [],
        [Candidate("1 wombats", "owls-1")],
        [Candidate("1 wombats", "owls-1"), Candidate("3 wombats", "owls-1"), Candidate("2 w", "x")],
        [Candidate(None, "owls-1"), Candidate("3 wombats", "owls-3")],  # type: ignore[arg-type]
        [Candidate("1 wombats \ud800", "owls-1"), Candidate("3 wombats", "owls-3")],
    ],
    ids=["none", "one", "an id twice", "no text", "a lone surrogate"],
)
def test_odd_candidates(listed) -> None:
    others = {f"q-{topic}": [Candidate("3 wombats", f"{topic}-3")] for topic in TOPICS}
    suite = suite_of(candidates={**others, "q-owls": listed})
    found = compare({"x": Reranker(ByGrade())}, suite, shuffles=2)
    result = found["given+x"]
    assert set(result.run["q-owls"]) == {one.id for one in listed}
    assert result.evaluation == evaluate(result.run, suite.qrels)
    assert result.cost.pairs == 5 + sum(isinstance(one.text, str) for one in listed)
    assert result.stability.tau == 1.0


def test_unreported_usage_is_none() -> None:
    told = Model(lambda shown: Completion(graded(shown), input_tokens=10, output_tokens=2))
    priced = Model(told.replies[0], prices=Prices(input=1.0, output=10.0))
    rerankers = {
        "silent": Reranker(Graded(Model())),
        "told": Reranker(Graded(told)),
        "priced": Reranker(Graded(priced)),
        "scorer": Reranker(ByGrade()),
    }
    empty = {**CANDIDATES, "q-owls": []}  # for which nothing is asked
    found = compare(rerankers, suite_of(candidates=empty))
    costs = {name: found[f"given+{name}"].cost for name in rerankers}
    calls = costs["told"].calls
    assert calls >= 5
    tokens = 10 * calls, 2 * calls
    assert {
        name: (cost.calls, cost.pairs, cost.input_tokens, cost.output_tokens, cost.cost)
        for name, cost in costs.items()
    } == {
        "silent": (calls, 60, None, None, None),
        "told": (calls, 60, *tokens, None),
        "priced": (calls, 60, *tokens, pytest.approx(calls * 30 / 1e6)),
        "scorer": (0, 60, None, None, None),
    }
    assert found["given"].cost.seconds == {}


def test_statuses_and_issues_are_counted() -> None:
    starved = Reranker(Graded(Model()), limits=Limits(calls=1), depth=None)
    suite = suite_of(candidates={**CANDIDATES, "q-owls": SUITE.corpus[:4]})
    half = Reranker(ByTable({"0 wombats see owls": float("nan")}))
    found = compare({"half": half, "starved": starved}, suite)
    assert found["given+half"].statuses == {"partial": 6}
    assert found["given+half"].failure_rate == 1.0
    assert found["given+half"].issues == {"score_not_finite": 6}
    assert sum(found["given+starved"].statuses.values()) == 6


def test_share_of_candidates_that_were_not_read_whole() -> None:
    class Short(ByTable):
        def truncated(self, query, documents):
            return [0, 2]

    suite = suite_of(candidates={**CANDIDATES, "q-owls": SUITE.corpus[:4]})
    whole = compare({"short": Reranker(Short(), depth=3), "whole": Reranker(ByTable())}, suite)
    assert whole["given+short"].truncated == pytest.approx(2 / 3)
    assert whole["given+short"].record()["truncated"] == pytest.approx(2 / 3)
    assert whole["given+whole"].truncated == 0.0


@pytest.mark.parametrize("method", [FIRST_IS_BEST, Graded(Model()), "lexical"])
def test_concurrency_gives_same_figures(method) -> None:
    call = {"first_stages": ["lexical"], "shuffles": 2}
    one, many = (
        compare({"x": Reranker(method)}, SUITE, **call, concurrency=number) for number in (1, 4)
    )
    assert figures(one) == figures(many)


def test_interrupt_stops_other_queries() -> None:
    asked: list[str] = []

    class Stopping(ByGrade):
        def score_pairs(self, query: str, documents: list[str]) -> list[float]:
            asked.append(query)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare({"x": Reranker(Stopping())}, SUITE, first_stages=["lexical"], concurrency=2)
    assert len(asked) < len(SUITE.queries)


def test_billed_units(provider):
    provider.play(rows(list, len))
    settings = {"model": "m", "base_url": provider.base_url("cohere"), "api_key": "k"}
    method = {"type": "endpoint", "api": "cohere", "scores": "unbounded", **settings}
    found = compare({"x": {"method": method}}, SUITE, first_stages=["lexical"])
    cost = found["lexical+x"].cost
    assert cost.units == 2 * cost.calls
    assert cost.units_per_query == cost.units / len(SUITE.queries)
    assert found["lexical"].cost.units_per_query is None
    assert found["lexical+x"].record()["usage"]["units"] == cost.units
    text = found.to_markdown().replace("\\", "")
    line = f"lexical+x: {cost.units:g} billed units, {cost.units_per_query:.3g} per query."
    assert line in text
    assert "lexical: 0 billed" not in text


def test_skipped_queries_are_counted():
    when = {"margin": {"below": 0.5}}
    levels = {True: (9.0, 2.0, 1.0, 0.5), False: (2.1, 2.0, 1.0, 0.5)}
    candidates = {
        query: [
            replace(item, score=score)
            for item, score in zip(CANDIDATES[query], levels[number < 2], strict=False)
        ]
        for number, query in enumerate(SUITE.queries)
    }
    suite = suite_of(candidates=candidates)
    found = compare({"x": Reranker(ByGrade(), when=when), "y": Reranker(ByGrade())}, suite)
    pairs = sum(len(candidates[query]) for query in [*SUITE.queries][:2])
    cost = found["given+x"].cost
    assert (cost.skipped, cost.saved_pairs) == (2, pairs)
    assert cost.pairs + pairs == found["given+y"].cost.pairs
    text = found.to_markdown().replace("\\", "")
    what = "reranking was skipped, or made shorter, for 2 of 6 queries, which saved"
    assert f"given+x: {what} {pairs}" in text
    assert "given+y: reranking was skipped" not in text
    assert found["given+x"].statuses == {"ok": 6}


# ---------------------------------------------------------------------- stability


def test_order_sensitivity() -> None:
    rerankers = {"grade": Reranker(ByGrade()), "first": Reranker(FIRST_IS_BEST)}
    suite = suite_of(candidates=dict.fromkeys(SUITE.queries, SUITE.corpus))
    found = compare(rerankers, suite, shuffles=3, measures=["nDCG@5"])
    steady, shaken = (found[f"given+{name}"].stability for name in rerankers)
    assert (steady.shuffles, steady.measure, len(steady.means)) == (3, "nDCG@5", 3)
    assert steady.overlap < 1.0  # of equal grades those that come first stand first
    assert abs(shaken.tau) < 0.3
    assert shaken.tau < steady.tau < 1.0
    assert shaken.overlap < steady.overlap
    assert len(set(shaken.means)) > 1
    assert found["given"].stability is None


def test_tail_keeps_its_place() -> None:
    suite = suite_of(candidates=dict.fromkeys(SUITE.queries, SUITE.corpus))
    seen: list[list[str]] = []

    class Watching(ByGrade):
        def score_pairs(self, query: str, documents: list[str]) -> list[float]:
            seen.append(documents)
            return super().score_pairs(query, documents)

    found = compare({"x": Reranker(Watching(), depth=2)}, suite, shuffles=4)
    assert {frozenset(documents) for documents in seen} == {frozenset(seen[0])}
    assert len({tuple(documents) for documents in seen}) == 2
    first = compare({"x": Reranker(FIRST_IS_BEST, depth=2)}, suite, shuffles=4)
    # Two that are now and then swapped; the 22 behind them would hide it.
    assert first["given+x"].stability.tau < 0.9
    assert found["given+x"].stability.shuffles == 4


def test_seed() -> None:
    suite = suite_of(candidates=dict.fromkeys(SUITE.queries, SUITE.corpus))
    one, again, other = (
        compare({"x": Reranker(FIRST_IS_BEST)}, suite, shuffles=2, seed=seed) for seed in (1, 1, 2)
    )
    assert figures(one) == figures(again)
    assert one["given+x"].stability != other["given+x"].stability


# ---------------------------------------------------------------------- changes


def test_changes_with_documents() -> None:
    table = {f"{grade} wombats see owls": grade for grade in range(4)}
    table |= {f"{grade} wombats see seas": -grade for grade in range(4)}
    table |= {f"{grade} wombats see {topic}": 0.0 for grade in range(4) for topic in TOPICS[2:]}
    suite = suite_of(passages(1, 3, 0, 2))
    found = compare({"x": Reranker(ByTable(table))}, suite, first_stages=["lexical"])
    result = found["lexical+x"]
    assert [change.query for change in result.gains] == ["q-owls"]
    assert [change.query for change in result.losses] == ["q-seas"]
    change = result.gains[0]
    assert (change.text, change.after) == ("owls", 1.0)
    assert change.before == found["lexical"].evaluation.per_query["nDCG@10"]["q-owls"]
    assert [(one.rank, one.id, one.relevance, one.before) for one in change.top] == [
        (1, "owls-3", 3, 2), (2, "owls-2", 2, 4), (3, "owls-1", 1, 1), (4, "owls-0", 0, 3),
    ]  # fmt: skip
    assert [(one.id, one.before) for one in change.top_before] == [
        ("owls-1", 3), ("owls-3", 1), ("owls-0", 4), ("owls-2", 2),
    ]  # fmt: skip
    assert change.top[0].text == "3 wombats see owls"


def test_changes_have_the_relevant_documents_that_moved() -> None:
    documents = {f"d{number:02}": f"owl {number}" for number in range(20)}
    table = {text: float(-number) for number, text in enumerate(documents.values())}
    table[documents["d14"]] = -5.5  # from rank 15 to 7
    suite = make_suite(
        "owls",
        {"q": "owl"},
        {"q": {"d14": 2, "d03": 1, "d19": 1}},
        candidates={"q": [{"id": name, "text": text} for name, text in documents.items()]},
    )
    table[documents["d19"]] = -15.5  # from rank 20 to 17, which no measure at 10 sees
    (change,) = compare({"x": Reranker(ByTable(table))}, suite)["given+x"].gains
    assert [(one.rank, one.id, one.before) for one in change.top[5:]] == [(7, "d14", 15)]
    assert [(one.rank, one.id, one.before) for one in change.top_before[5:]] == [(15, "d14", 7)]
    assert [one.rank for one in change.top[:5]] == [1, 2, 3, 4, 5]


def test_largest_first() -> None:
    # Each further topic is left a little less wrong.
    table = {
        f"{grade} wombats see {topic}": float(grade if grade >= at else -grade)
        for at, topic in enumerate(TOPICS)
        for grade in range(4)
    }
    result = compare({"x": Reranker(ByTable(table))}, SUITE, first_stages=["lexical"])["lexical+x"]
    gains = [change.after - change.before for change in result.gains]
    assert gains == sorted(gains, reverse=True)
    assert 1 < len(gains) <= 5


def test_equal_changes_in_query_order() -> None:
    found = compare(
        {"x": Reranker(ByGrade()), "y": Reranker(ByGrade(sign=-1))},
        suite_of(passages(1, 0, 3, 2)),
        first_stages=["lexical"],
    )
    first = [f"q-{topic}" for topic in TOPICS[:5]]
    assert [change.query for change in found["lexical+x"].gains] == first
    assert [change.query for change in found["lexical+y"].losses] == first


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1.0), (0.5, 5.0), (0.51, 6.0), (0.95, 10.0), (1.0, 10.0)]
)
def test_percentiles_by_hand(share, expected) -> None:
    assert Cost({str(at): float(at) for at in range(10, 0, -1)}).percentile(share) == expected


def test_reported_percentiles():
    assert percentiles([3.0, 1.0, 2.0]) == {"p50": 2.0, "p95": 3.0, "p99": 3.0, "max": 3.0}
    assert {*percentiles([]).values()} == {None}


@pytest.mark.parametrize(
    ("cost", "units"),
    [
        (Cost({"q": 1.0, "r": 1.0}, units=3.0), 1.5),
        (Cost({"q": 1.0}, units=0.0), 0.0),
        (Cost({"q": 1.0}), None),
        (Cost(units=3.0), None),
    ],
    ids=["some", "zero", "not known", "no query"],
)
def test_units_per_query(cost, units):
    assert cost.units_per_query == units


@pytest.mark.parametrize(
    ("statuses", "rate"), [({}, None), ({"ok": 3}, 0.0), ({"ok": 9, "partial": 1}, 0.1)]
)
def test_failure_rates(statuses, rate) -> None:
    assert Result("x", "ran", statuses=statuses).failure_rate == rate
