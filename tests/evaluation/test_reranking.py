from dataclasses import replace

import pytest

from fake_provider import FakeProvider
from fakes import ByTable, Model, graded
from rerank_answers import answer
from secondpass import Candidate, Reranker
from secondpass.effects import Completion
from secondpass.errors import ModelLoadError
from secondpass.limits import Limits, Prices
from secondpass.strategies.graded import Graded
from secondpass_evaluation import compare, evaluate
from topic_suites import CANDIDATES, SUITE, TOPICS, ByGrade, FirstIsBest, failing, figures, suite_of


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
    ("settings", "kept"),
    [
        ({"floor": 1.5}, 2),
        ({"top_k": 1}, 1),
        ({"depth": 3, "tail": "drop"}, 3),
        ({"floor": 9.0}, 0),
    ],
)
def test_documents_left_out(settings, kept) -> None:
    found = compare(
        {"x": Reranker(ByGrade(), **settings)}, SUITE, first_stages=["lexical"], shuffles=1
    )
    result = found["lexical+x"]
    assert {len(documents) for documents in result.run.values()} == {kept}
    assert result.evaluation == evaluate(result.run, SUITE.qrels)
    assert set(result.evaluation.per_query["RR"]) == set(SUITE.queries)
    assert sum(after is None for _, after in result.moves) == sum(
        f"{topic}-{grade}" not in result.run[f"q-{topic}"]
        for topic in TOPICS
        for grade in (1, 2, 3)
    )


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
    usage = {
        one.name.removeprefix("given+"): (
            one.cost.calls, one.cost.pairs, one.cost.input_tokens, one.cost.output_tokens,
        )
        for one in found.ran[1:]
    }  # fmt: skip
    calls = usage["told"][0]
    assert calls >= 5
    assert usage == {
        "silent": (calls, 60, None, None),
        "told": (calls, 60, 10 * calls, 2 * calls),
        "priced": (calls, 60, 10 * calls, 2 * calls),
        "scorer": (5, 60, None, None),
    }
    assert found["given+told"].cost.cost is None
    assert found["given+priced"].cost.cost == pytest.approx(calls * 30 / 1e6)
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
    assert whole["given+short"].to_dict()["truncated"] == pytest.approx(2 / 3)
    assert whole["given+whole"].truncated == 0.0


@pytest.mark.parametrize("method", [FirstIsBest(), Graded(Model()), "lexical"])
def test_concurrency_gives_same_figures(method) -> None:
    one, many = (
        compare(
            {"x": Reranker(method)},
            SUITE,
            first_stages=["lexical"],
            shuffles=2,
            concurrency=number,
        )
        for number in (1, 4)
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


def test_billed_units():
    with FakeProvider() as provider:
        provider.play(answer(len))
        settings = {"model": "m", "base_url": provider.base_url("cohere"), "api_key": "k"}
        method = {"type": "endpoint", "api": "cohere", "scores": "unbounded", **settings}
        reranker = Reranker(method)
        found = compare({"x": reranker}, SUITE, first_stages=["lexical"])
        reranker.close()
    cost = found["lexical+x"].cost
    assert cost.units == 2 * cost.calls
    assert cost.units_per_query == cost.units / len(SUITE.queries)
    assert found["lexical"].cost.units_per_query is None
    usage = next(item for item in found.to_dict()["systems"] if item["name"] == "lexical+x")
    assert usage["usage"]["units"] == cost.units
    line = f"lexical+x: {cost.units:g} billed units, {cost.units_per_query:.3g} per query."
    text = found.to_markdown().replace("\\", "")
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
    assert cost.saved_seconds is not None
    line = (
        f"given+x: the pass was skipped, or made shorter, for 2 of 6 queries, which saved {pairs}"
    )
    assert line in found.to_markdown().replace("\\", "")
    assert "given+y: the pass was skipped" not in found.to_markdown()
    assert found["given+x"].statuses == {"ok": 6}
