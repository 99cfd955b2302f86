"""Comparisons: what they measure, and that nothing a suite, a retriever or a reranker does ends one
without a word.
"""

import asyncio
import random
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import ByTable, Model, graded, number_of
from secondpass import (
    Candidate,
    ConfigurationError,
    InputError,
    MissingExtraError,
    Reranker,
)
from secondpass.effects import Completion
from secondpass.errors import ModelLoadError
from secondpass.evaluation import (
    HybridRetriever,
    MeasureError,
    Suite,
    compare,
    evaluate,
    holm,
    make_suite,
    ranking_to_run,
    write_corpus,
    write_qrels,
    write_queries,
)
from secondpass.fusion import reciprocal_rank_fusion
from secondpass.limits import Limits, Prices
from secondpass.strategies.graded import Graded

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "four_modes.py"
TOPICS = ("owls", "seas", "cats", "figs", "bees", "elms")


def passages(*grades: int) -> list[Candidate]:
    """For each topic as many as there are grades; a text begins with its grade."""
    return [
        Candidate(f"{grade} wombats see {topic}", f"{topic}-{grade}")
        for grade in grades
        for topic in TOPICS
    ]


def suite_of(corpus=None, **parts) -> Suite:
    qrels = {f"q-{topic}": {f"{topic}-{grade}": grade for grade in range(4)} for topic in TOPICS}
    corpus = passages(0, 1, 2, 3) if corpus is None and not parts else corpus
    queries = {f"q-{topic}": topic for topic in TOPICS}
    return make_suite("wombats", queries, qrels, corpus=corpus, **parts)


SUITE = suite_of()
"""Of four passages on each topic a search by words puts the worst first."""


class ByGrade:
    """Knows how good a passage is."""

    model_name = "by-grade"

    def __init__(self, sign: int = 1, **members: object) -> None:
        self.sign = sign
        for name, value in members.items():
            setattr(self, name, value)

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        return [float(self.sign * number_of(text)) for text in documents]


class ByTopic:
    """Embeds a text as the topics that it names."""

    def embed(self, texts):
        rows = np.array([[float(topic in text) for topic in TOPICS] for text in texts])
        rows[~rows.any(axis=1)] = 1.0
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def failing(error: BaseException):
    def fails(*_: object) -> None:
        raise error

    return fails


def figures(comparison) -> list[object]:
    """Everything but times."""
    return [replace(result, cost=replace(result.cost, seconds={})) for result in comparison.results]


# ------------------------------------------------------------------ modes


def test_four_modes_side_by_side() -> None:
    retriever = HybridRetriever(SUITE.corpus, ByTopic())
    found = compare({"rerank": Reranker(ByGrade())}, SUITE, retriever=retriever, depth=4)
    assert [one.name for one in found.results] == ["vector", "lexical", "hybrid", "hybrid+rerank"]
    assert found.ran == found.results
    assert (found.baseline, found.measures) == ("hybrid", ("nDCG@10", "RR", "R@100"))
    for mode in ("vector", "lexical", "hybrid"):
        lists = {query: retriever.retrieve(text, 4, mode) for query, text in SUITE.queries.items()}
        assert found[mode].run == ranking_to_run(lists)
        assert found[mode].evaluation == evaluate(found[mode].run, SUITE.qrels)
        assert set(found[mode].cost.seconds) == set(SUITE.queries)
    reranked = found["hybrid+rerank"]
    assert reranked.first_stage == "hybrid"
    assert reranked.evaluation.mean["nDCG@10"] == 1.0
    assert reranked.statuses == {"ok": 6}
    assert reranked.failure_rate == 0.0
    assert found["hybrid"].failure_rate is None
    assert found.settings["versions"]["secondpass"]


def test_without_an_embedder_the_modes_that_need_one_are_skipped() -> None:
    found = compare("lexical", SUITE)
    assert {one.name: one.status for one in found.results} == {
        "vector": "skipped",
        "lexical": "ran",
        "hybrid": "skipped",
        "lexical+lexical": "ran",
    }
    assert "vectors need an embedder" in found["vector"].reason
    assert found.baseline == "lexical"


def test_without_a_reranker_that_mode_is_skipped() -> None:
    for none in ({}, []):
        found = compare(none, SUITE, first_stages=["lexical"])
        assert [one.name for one in found.ran] == ["lexical"]
        assert found["lexical+rerank"].reason == "no reranker was given"


CANDIDATES = dict.fromkeys(SUITE.queries, SUITE.corpus[:12])


@pytest.mark.parametrize(
    ("parts", "settings", "modes", "behind"),
    [
        ({}, {}, ["vector", "lexical", "hybrid"], "hybrid"),
        ({}, {"first_stages": ["lexical", "vector"]}, ["lexical", "vector"], "lexical"),
        ({}, {"first_stages": ["lexical"], "behind": "vector"}, ["lexical", "vector"], "vector"),
        ({}, {"first_stages": ["vector", "vector"]}, ["vector"], "vector"),
        ({"candidates": CANDIDATES}, {}, ["given"], "given"),
        ({"candidates": CANDIDATES}, {"first_stages": ["hybrid"]}, ["hybrid"], "hybrid"),
        (
            {"candidates": CANDIDATES},
            {"first_stages": ["hybrid", "given"]},
            ["hybrid", "given"],
            "given",
        ),
    ],
)
def test_which_first_stages_are_measured(parts, settings, modes, behind) -> None:
    suite = suite_of(SUITE.corpus, **parts)
    retriever = HybridRetriever(SUITE.corpus, ByTopic())
    found = compare({"x": Reranker(ByGrade())}, suite, retriever=retriever, **settings)
    assert [one.name for one in found.ran] == [*modes, f"{behind}+x"]
    assert found.baseline == behind


def test_given_candidates_are_not_searched_for() -> None:
    suite = suite_of(candidates=CANDIDATES)
    found = compare({"x": Reranker(ByGrade())}, suite, depth=7)
    assert list(found["given"].run["q-owls"]) == [one.id for one in SUITE.corpus[:7]]
    assert set(found["given+x"].run["q-owls"]) == set(found["given"].run["q-owls"])
    searched = compare([], suite, first_stages=["given", "lexical"])
    assert searched["lexical"].reason == "the suite has no corpus to search"
    assert compare([], SUITE, first_stages=["given"])["given"].reason == (
        "the suite has no candidates of its own"
    )


def test_a_retriever_that_returns_more_than_was_asked_for_gains_nothing_by_it() -> None:
    class Generous:
        def retrieve(self, query: str, k: int, mode: str = "hybrid") -> list[Candidate]:
            return SUITE.corpus

    found = compare([], SUITE, retriever=Generous(), first_stages=["vector"], depth=3)
    assert {len(documents) for documents in found["vector"].run.values()} == {3}


def test_more_than_the_corpus_holds_may_be_asked_for() -> None:
    retriever = HybridRetriever(SUITE.corpus, ByTopic(), depth=1000)
    found = compare({"x": Reranker(ByGrade())}, SUITE, retriever=retriever, depth=1000)
    assert {len(documents) for documents in found["hybrid+x"].run.values()} == {len(SUITE.corpus)}


# ------------------------------------------------------------------ rerankers and their names


@pytest.mark.parametrize(
    ("rerankers", "names"),
    [
        ("lexical", ["lexical"]),
        (["lexical", "lexical"], ["lexical", "lexical-2"]),
        (Reranker("lexical"), ["rerank"]),
        ({"method": "lexical"}, ["rerank"]),
        (
            [{"method": "lexical"}, Reranker("lexical"), "lexical"],
            ["rerank", "rerank-2", "lexical"],
        ),
        ({"a b": "lexical", "b": {"method": "lexical"}}, ["a b", "b"]),
    ],
)
def test_rerankers_and_their_names(rerankers, names) -> None:
    found = compare(rerankers, SUITE, first_stages=["lexical"])
    assert [one.name for one in found.ran[1:]] == [f"lexical+{name}" for name in names]
    assert all(one.config["method"] == {"type": "lexical"} for one in found.ran[1:])


def test_a_configuration_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("method: lexical\ndepth: 3\n")
    found = compare([path, Reranker(ByGrade())], SUITE, first_stages=["lexical"])
    assert found["lexical+mine"].config["depth"] == 3
    assert found["lexical+rerank"].config is None  # an object without a name


def test_what_cannot_be_made_for_want_of_a_package_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    found = compare(["embedded", "lexical"], SUITE, first_stages=["lexical"])
    assert 'pip install "secondpass[embedded]"' in found["lexical+embedded"].reason
    assert found["lexical+lexical"].status == "ran"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModelLoadError("no such folder"), "no model can be loaded: no such folder"),
        (RuntimeError("a key"), "no model can be loaded: RuntimeError"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_skipped(error, reason) -> None:
    broken = Reranker(ByGrade(warm_up=failing(error)))
    found = compare({"broken": broken, "x": Reranker(ByGrade())}, SUITE, first_stages=["lexical"])
    assert (found["lexical+broken"].status, found["lexical+broken"].reason) == ("skipped", reason)
    assert found["lexical+x"].status == "ran"


def test_what_others_could_not_make_is_told() -> None:
    found = compare([], SUITE, first_stages=["lexical"], skipped={"far": "no key"})
    assert found["lexical+far"].reason == "no key"


def test_rerankers_behind_a_first_stage_that_cannot_run_are_skipped() -> None:
    found = compare({"x": Reranker(ByGrade())}, SUITE, behind="vector", baseline="vector")
    assert found["vector+x"].reason.startswith("vector: vectors need an embedder")
    assert found.baseline is None
    assert found.notes == ("vector could not run, so nothing is compared with it",)
    assert found["lexical"].differences == {}


def test_what_is_made_here_is_closed_and_what_is_ready_stays_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    monkeypatch.setattr(Reranker, "close", lambda _: done.append("closed"))
    rerankers = {"a": "lexical", "ready": Reranker(ByGrade()), "b": {"method": "lexical"}}
    compare(
        rerankers,
        SUITE,
        first_stages=["lexical"],
        progress=lambda name, at, count: done.append(name) if at == count else None,
    )
    assert done == [
        "lexical", "lexical+a", "closed", "lexical+ready", "lexical+b", "closed",
    ]  # fmt: skip


# ------------------------------------------------------------------ what rankings may be like


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"floor": 1.5}, 2),
        ({"top_k": 1}, 1),
        ({"depth": 3, "tail": "drop"}, 3),
        ({"floor": 9.0}, 0),
    ],
)
def test_rerankers_may_leave_documents_out(settings, kept) -> None:
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
def test_odd_candidates_are_measured_as_they_are(listed) -> None:
    others = {f"q-{topic}": [Candidate("3 wombats", f"{topic}-3")] for topic in TOPICS}
    suite = suite_of(candidates={**others, "q-owls": listed})
    found = compare({"x": Reranker(ByGrade())}, suite, shuffles=2)
    result = found["given+x"]
    assert set(result.run["q-owls"]) == {one.id for one in listed}
    assert result.evaluation == evaluate(result.run, suite.qrels)
    assert result.cost.pairs == 5 + sum(isinstance(one.text, str) for one in listed)
    assert result.stability.tau == 1.0


# ------------------------------------------------------------------ differences and changes


def test_every_difference_is_from_the_baseline_and_corrected_for_its_family() -> None:
    rerankers = {
        "good": Reranker(ByGrade()),
        "bad": Reranker(ByGrade(-1)),
        "words": Reranker("lexical"),
    }
    measures = ("nDCG@3", "RR(rel=2)", "P@1")
    suite = suite_of(passages(1, 0, 3, 2))
    found = compare(rerankers, suite, measures=measures, first_stages=["lexical"], seed=4)
    others = [one for one in found.ran if one.name != "lexical"]
    assert found["lexical"].differences == {}
    for measure in measures:
        family = [one.differences[measure] for one in others]
        assert [one.corrected_p for one in family] == holm([one.p for one in family])
        for result, one in zip(others, family, strict=True):
            gain = result.evaluation.mean[measure] - found["lexical"].evaluation.mean[measure]
            assert one.mean == pytest.approx(gain)
    assert found["lexical+good"].differences["nDCG@3"].wins == 6
    named = compare(rerankers, suite, baseline="lexical+good", first_stages=["lexical"])
    assert named["lexical"].differences["nDCG@10"].losses == 6


def test_the_queries_that_change_most_come_with_their_documents() -> None:
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
    assert sorted(result.moves[:3]) == [(1, 3), (2, 1), (4, 2)]


def test_the_largest_changes_come_first() -> None:
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


def test_of_equal_changes_the_first_queries_are_shown() -> None:
    found = compare(
        {"x": Reranker(ByGrade()), "y": Reranker(ByGrade(-1))},
        suite_of(passages(1, 0, 3, 2)),
        first_stages=["lexical"],
    )
    first = [f"q-{topic}" for topic in TOPICS[:5]]
    assert [change.query for change in found["lexical+x"].gains] == first
    assert [change.query for change in found["lexical+y"].losses] == first


# ------------------------------------------------------------------ cost


def test_usage_is_none_where_nothing_was_told() -> None:
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


def test_failures_are_counted_by_kind() -> None:
    starved = Reranker(Graded(Model()), limits=Limits(calls=1), depth=None)
    suite = suite_of(candidates={**CANDIDATES, "q-owls": SUITE.corpus[:4]})
    half = Reranker(ByTable({"0 wombats see owls": float("nan")}))
    found = compare({"half": half, "starved": starved}, suite)
    assert found["given+half"].statuses == {"partial": 6}
    assert found["given+half"].failure_rate == 1.0
    assert found["given+half"].issues == {"score_not_finite": 6}
    assert sum(found["given+starved"].statuses.values()) == 6


# ------------------------------------------------------------------ order, seeds, side by side


class FirstIsBest:
    """Believes in whatever comes first."""

    model_name = "first-is-best"

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        return [float(-at) for at in range(len(documents))]


def test_how_much_the_order_matters() -> None:
    rerankers = {"grade": Reranker(ByGrade()), "first": Reranker(FirstIsBest())}
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


def test_what_is_not_judged_keeps_its_place() -> None:
    suite = suite_of(candidates=dict.fromkeys(SUITE.queries, SUITE.corpus))
    seen: list[list[str]] = []

    class Watching(ByGrade):
        def score_pairs(self, query: str, documents: list[str]) -> list[float]:
            seen.append(documents)
            return super().score_pairs(query, documents)

    found = compare({"x": Reranker(Watching(), depth=2)}, suite, shuffles=4)
    assert {frozenset(documents) for documents in seen} == {frozenset(seen[0])}
    assert len({tuple(documents) for documents in seen}) == 2
    first = compare({"x": Reranker(FirstIsBest(), depth=2)}, suite, shuffles=4)
    # Two that are now and then swapped; the 22 behind them would hide it.
    assert first["given+x"].stability.tau < 0.9
    assert found["given+x"].stability.shuffles == 4


def test_the_same_seed_gives_the_same_and_another_does_not() -> None:
    suite = suite_of(candidates=dict.fromkeys(SUITE.queries, SUITE.corpus))
    one, again, other = (
        compare({"x": Reranker(FirstIsBest())}, suite, shuffles=2, seed=seed) for seed in (1, 1, 2)
    )
    assert figures(one) == figures(again)
    assert one["given+x"].stability != other["given+x"].stability


@pytest.mark.parametrize("method", [FirstIsBest(), Graded(Model()), "lexical"])
def test_side_by_side_gives_what_one_after_the_other_gives(method) -> None:
    one, many = (
        compare({"x": Reranker(method)}, SUITE, shuffles=2, concurrency=number) for number in (1, 4)
    )
    assert figures(one) == figures(many)


def test_a_fault_side_by_side_ends_the_others() -> None:
    asked: list[str] = []

    class Stopping(ByGrade):
        def score_pairs(self, query: str, documents: list[str]) -> list[float]:
            asked.append(query)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare({"x": Reranker(Stopping())}, SUITE, first_stages=["lexical"], concurrency=2)
    assert len(asked) < len(SUITE.queries)


def test_progress_is_told_for_every_system() -> None:
    told: list[tuple[str, int, int]] = []
    compare(
        {"x": Reranker(ByGrade())},
        SUITE,
        first_stages=["lexical"],
        shuffles=1,
        concurrency=2,
        progress=lambda *step: told.append(step),
    )
    labels = ("lexical", "lexical+x", "lexical+x, shuffle 1 of 1")
    assert told == [(label, done, 6) for label in labels for done in range(1, 7)]


def test_it_works_inside_a_running_event_loop() -> None:
    rerankers = {"model": Reranker(Graded(Model())), "scorer": Reranker(ByGrade())}

    async def notebook():
        return compare(rerankers, SUITE, first_stages=["lexical"], concurrency=2)

    inside = asyncio.run(notebook())
    assert [one.statuses for one in inside.ran[1:]] == [{"ok": 6}, {"ok": 6}]
    outside = compare(rerankers, SUITE, first_stages=["lexical"], concurrency=2)
    assert figures(inside) == figures(outside)


# ------------------------------------------------------------------ wrong calls


@pytest.mark.parametrize(
    ("settings", "error", "problem"),
    [
        ({"depth": 0}, InputError, "depth: must be a whole number of 1 or more"),
        ({"depth": True}, InputError, "depth: must be"),
        ({"concurrency": 0}, InputError, "concurrency: must be a whole number of 1 or more"),
        ({"shuffles": -1}, InputError, "shuffles: must be a whole number of 0 or more"),
        ({"shuffles": 1.5}, InputError, "shuffles: must be"),
        ({"seed": -1}, InputError, "seed: must be a whole number of 0 or more"),
        ({"suite": "wombats"}, InputError, "suite: give one of load_suite or make_suite, not"),
        ({"measures": []}, InputError, "measures: give at least one"),
        ({"measures": ["nDGC@10"]}, MeasureError, "did you mean 'nDCG'"),
        ({"test": "wilcoxon"}, InputError, "test: must be randomization or t"),
        ({"first_stages": ["dense"]}, InputError, "first_stages, behind: must be of given, vector"),
        ({"first_stages": []}, InputError, "first_stages: give at least one"),
        ({"behind": "dense"}, InputError, "first_stages, behind: must be of"),
        ({"baseline": "hybrid"}, InputError, "baseline: 'hybrid' is none of lexical, lexical[+]x"),
        ({"skipped": {"x": "why"}}, InputError, "skipped: x is among the rerankers, too"),
        ({"rerankers": "no-such"}, ConfigurationError, "no preset is named 'no-such'"),
        ({"rerankers": [3]}, ConfigurationError, "give a preset name"),
        ({"rerankers": {"a": {"method": "no-such"}}}, ConfigurationError, "a: method.*no-such"),
        ({"rerankers": {"a": 3}}, ConfigurationError, "a: give a preset name"),
    ],
)
def test_a_wrong_call_is_told_before_anything_is_run(settings, error, problem: str) -> None:
    asked: list[str] = []

    class Watched:
        def retrieve(self, query: str, k: int, mode: str = "hybrid") -> list[Candidate]:
            asked.append(query)
            return []

    class Ranks(ByGrade):
        def score_pairs(self, query: str, documents: list[str]) -> list[float]:
            asked.append("reranked")
            return super().score_pairs(query, documents)

    call = {"rerankers": {"x": Reranker(Ranks())}, "suite": SUITE, **settings}
    call.setdefault("first_stages", ["lexical"])
    with pytest.raises(error, match=problem):
        compare(call.pop("rerankers"), call.pop("suite"), retriever=Watched(), **call)
    assert "reranked" not in asked
    assert not asked or "baseline" in settings


@pytest.mark.skipif(shutil.which("perl") is None, reason="ERR is computed by a program in Perl")
def test_judgements_that_a_measure_cannot_take_are_told_before_anything_is_run() -> None:
    told: list[object] = []
    suite = make_suite("s", {"q": "cat"}, {"q": {"a": 9}}, corpus=[Candidate("a cat", "a")])
    with pytest.raises(MeasureError, match="measure 'ERR@10': its program failed"):
        compare("lexical", suite, measures=["ERR@10"], progress=lambda *step: told.append(step))
    assert told == []
    assert compare("lexical", SUITE, measures=["ERR@10"]).ran


@pytest.mark.parametrize(
    ("retrieved", "error", "problem"),
    [
        (lambda *_: [Candidate("x")], InputError, r"\.id: a run needs ids"),
        (failing(ConnectionError("refused")), ConnectionError, "refused"),
    ],
)
def test_what_is_wrong_with_a_retriever_of_your_own_is_yours_to_see(
    retrieved, error, problem
) -> None:
    class Mine:
        retrieve = staticmethod(retrieved)

    with pytest.raises(error, match=problem):
        compare([], SUITE, retriever=Mine(), first_stages=["lexical"])


@pytest.mark.parametrize("package", ["ir_measures", "scipy"])
def test_a_package_that_is_missing_is_told_before_anything_is_run(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    told: list[object] = []
    with pytest.raises(MissingExtraError, match=r'pip install "secondpass\[evaluation\]"'):
        compare("lexical", SUITE, progress=lambda *step: told.append(step))
    assert told == []


def test_without_bm25s_searching_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    found = compare("lexical", SUITE)
    assert found.ran == ()
    assert found.baseline is None
    assert 'pip install "secondpass[evaluation]"' in found["lexical"].reason


# ------------------------------------------------------------------ the benchmark


def test_the_benchmark_prints_what_was_compared(tmp_path: Path) -> None:
    folder = tmp_path / "wombats"
    folder.mkdir()
    write_corpus(folder / "corpus.jsonl", SUITE.corpus)
    write_queries(folder / "queries.jsonl", SUITE.queries)
    write_qrels(folder / "qrels.tsv", SUITE.qrels)
    command = [sys.executable, str(BENCHMARK), "--data", str(tmp_path), "--sets", "wombats", "none"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "no such folder in" in done.stdout
    for name in ("vector", "lexical", "hybrid", "hybrid+rerank"):
        assert re.search(rf"^\| {re.escape(name)} \| .*0\.\d{{4}}", done.stdout, re.M)


# ------------------------------------------------------------------ promises


@given(
    st.permutations(range(4)),
    st.lists(st.sampled_from([-1, 1]), min_size=1, max_size=3),
    st.integers(1, 30),
)
@settings(max_examples=25)
def test_figures_are_those_of_ir_measures_on_the_runs(order, signs, depth) -> None:
    suite = suite_of(passages(*order))
    rerankers = {f"r{at}": Reranker(ByGrade(sign)) for at, sign in enumerate(signs)}
    measures = ("nDCG@3", "AP(rel=2)", "RR", "P@2")
    found = compare(rerankers, suite, measures=measures, depth=depth, first_stages=["lexical"])
    parsed = [ir_measures.parse_measure(name) for name in measures]
    for result in found.ran:
        for measure, value in ir_measures.calc_aggregate(parsed, suite.qrels, result.run).items():
            assert result.evaluation.mean[str(measure)] == pytest.approx(value, abs=1e-12)
        assert all(len(documents) <= depth for documents in result.run.values())


@pytest.mark.long
def test_reciprocal_rank_fusion_is_that_of_ranx() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that ranx brings
        ranx = pytest.importorskip("ranx")
        rng = random.Random(5)
        documents = [f"d{at}" for at in range(50)]
        for k in (1, 10, 60):
            lists = {
                f"q{at}": [rng.sample(documents, rng.randint(1, 50)) for _ in range(3)]
                for at in range(10)
            }
            runs = [
                ranx.Run(
                    {
                        query: {one: float(-rank) for rank, one in enumerate(each[number])}
                        for query, each in lists.items()
                    }
                )
                for number in range(3)
            ]
            theirs = ranx.fuse(runs, norm=None, method="rrf", params={"k": k}).to_dict()
            for query, each in lists.items():
                fused = reciprocal_rank_fusion(
                    [[Candidate("", one) for one in one_list] for one_list in each], rrf_k=k
                )
                ours = {str(one.id): one.score for one in fused}
                assert ours == pytest.approx(theirs[query], abs=1e-9)


def test_a_reranker_may_be_called_method() -> None:
    suite = make_suite("s", {"q": "cat"}, {"q": {"a": 1}}, corpus=[Candidate("a cat", "a")])
    named = compare({"method": Reranker("lexical"), "other": "lexical"}, suite)
    assert [one.name for one in named.results][-2:] == ["lexical+method", "lexical+other"]
    assert compare({"method": "lexical"}, suite).results[-1].name == "lexical+rerank"
    assert compare({"method": {"method": "lexical"}}, suite).results[-1].name == "lexical+method"
