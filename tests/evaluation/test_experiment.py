import asyncio
import shutil
from pathlib import Path

import pytest

from fakes import Model
from letter_embedder import LetterEmbedder
from secondpass import Candidate, ConfigurationError, InputError, Reranker
from secondpass.strategies.graded import Graded
from secondpass_evaluation import (
    HybridRetriever,
    MeasureError,
    compare,
    evaluate,
    holm,
    make_suite,
    ranking_to_run,
)
from secondpass_evaluation.report import charts
from secondpass_evaluation.report.verdict import verdict
from topic_suites import CANDIDATES, SUITE, ByGrade, figures, passages, suite_of

WORDS = HybridRetriever(SUITE.corpus)
"""It has no vectors."""


def test_four_modes() -> None:
    retriever = HybridRetriever(SUITE.corpus, LetterEmbedder())
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


def test_first_stage_that_cannot_run() -> None:
    found = compare(
        {"x": Reranker(ByGrade())}, SUITE, retriever=WORDS, behind="vector", baseline="vector"
    )
    assert found["vector+x"].reason.startswith("vectors need an embedder")
    assert found.baseline is None
    assert found.notes == ("vector could not run, so nothing is compared with it",)
    assert found["lexical"].differences == {}


def test_only_own_rerankers_are_closed(monkeypatch) -> None:
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


def test_differences_are_corrected() -> None:
    rerankers = {
        "good": Reranker(ByGrade()),
        "bad": Reranker(ByGrade(sign=-1)),
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


def test_progress() -> None:
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


def test_inside_event_loop() -> None:
    rerankers = {"model": Reranker(Graded(Model())), "scorer": Reranker(ByGrade())}

    async def notebook():
        return compare(rerankers, SUITE, first_stages=["lexical"], concurrency=2)

    inside = asyncio.run(notebook())
    assert [one.statuses for one in inside.ran[1:]] == [{"ok": 6}, {"ok": 6}]
    outside = compare(rerankers, SUITE, first_stages=["lexical"], concurrency=2)
    assert figures(inside) == figures(outside)


@pytest.mark.parametrize(
    ("settings", "error", "problem"),
    [
        ({"depth": 0}, InputError, "depth: must be a whole number of 1 or more"),
        ({"concurrency": 0}, InputError, "concurrency: must be a whole number of 1 or more"),
        ({"shuffles": -1}, InputError, "shuffles: must be a whole number of 0 or more"),
        ({"seed": -1}, InputError, "seed: must be a whole number of 0 or more"),
        ({"suite": "wombats"}, InputError, "suite: give one of load_suite or make_suite, not"),
        ({"measures": ["nDGC@10"]}, MeasureError, "did you mean 'nDCG@10'"),
        ({"first_stages": ["dense"]}, InputError, "first_stages: must be one of given, vector"),
        ({"first_stages": []}, InputError, "first_stages: give at least one"),
        ({"behind": "dense"}, InputError, "behind: must be one of .*, not 'dense'"),
        ({"behind": ["lexical", "dense"]}, InputError, "behind: must be one of"),
        ({"baseline": "hybrid"}, InputError, "baseline: 'hybrid' is none of lexical, lexical[+]x"),
        ({"rerankers": "no-such"}, ConfigurationError, "no preset is named 'no-such'"),
        ({"rerankers": 5}, ConfigurationError, "a preset name, a mapping, a YAML path"),
        ({"rerankers": [5]}, ConfigurationError, "a preset name, a mapping, a YAML path"),
        ({"rerankers": {"a": 5}}, ConfigurationError, "a preset name, a mapping, a YAML path"),
        ({"rerankers": {"a": {"method": "no-such"}}}, ConfigurationError, "a: method.*no-such"),
    ],
)
def test_wrong_calls_fail_first(settings, error, problem: str) -> None:
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
def test_unfit_judgements_fail_first() -> None:
    told: list[object] = []
    suite = make_suite("s", {"q": "cat"}, {"q": {"a": 9}}, corpus=[Candidate("a cat", "a")])
    with pytest.raises(MeasureError, match="measure 'ERR@10': its program failed"):
        compare("lexical", suite, measures=["ERR@10"], progress=lambda *step: told.append(step))
    assert told == []
    assert compare("lexical", SUITE, measures=["ERR@10"]).ran


def test_behind_several_first_stages() -> None:
    retriever = HybridRetriever(SUITE.corpus, LetterEmbedder())
    modes = ("vector", "lexical", "hybrid")
    settings = {"retriever": retriever, "depth": 4, "shuffles": 1}
    rerankers = {"a": Reranker(ByGrade()), "b": Reranker(ByGrade(sign=-1))}
    found = compare(rerankers, SUITE, behind=modes, **settings)
    names = [f"{mode}+{name}" for name in rerankers for mode in modes]
    assert [one.name for one in found.results] == [*modes, *names]
    assert found.baseline is None
    for mode in modes:
        alone = compare(rerankers, SUITE, behind=mode, **settings)
        for name in (f"{mode}+a", f"{mode}+b"):
            several, single = found[name], alone[name]
            assert (several.run, several.gains) == (single.run, single.gains)
            assert found.base_of(several) == mode
            for measure, one in several.differences.items():
                gain = several.evaluation.mean[measure] - found[mode].evaluation.mean[measure]
                assert one.mean == pytest.approx(gain)
    for measure in found.measures:
        family = [found[name].differences[measure] for name in names]
        assert [one.corrected_p for one in family] == holm([one.p for one in family])
    assert not any(found[mode].differences for mode in modes)
    assert "## Against the first stage of each" in found.to_markdown()
    assert "from its own first stage" in charts.differences(found, "")
    judged = verdict(found)
    assert f" more than the first stage, {judged.best.first_stage}" in judged.because
    named = compare(rerankers, SUITE, behind=modes, baseline="hybrid", **settings)
    assert {found.base_of(one) for one in named.ran} == {"vector", "lexical", "hybrid", None}
    assert {named.base_of(one) for one in named.ran} == {"hybrid"}
    assert named["lexical"].differences["RR"].mean == pytest.approx(
        named["lexical"].evaluation.mean["RR"] - named["hybrid"].evaluation.mean["RR"]
    )


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
def test_choice_of_stages(parts, settings, modes, behind) -> None:
    suite = suite_of(SUITE.corpus, **parts)
    retriever = HybridRetriever(SUITE.corpus, LetterEmbedder())
    found = compare({"x": Reranker(ByGrade())}, suite, retriever=retriever, **settings)
    assert [one.name for one in found.ran] == [*modes, f"{behind}+x"]
    assert found.baseline == behind


def test_given_candidates() -> None:
    suite = suite_of(candidates=CANDIDATES)
    found = compare({"x": Reranker(ByGrade())}, suite, depth=7)
    assert list(found["given"].run["q-owls"]) == [one.id for one in SUITE.corpus[:7]]
    assert set(found["given+x"].run["q-owls"]) == set(found["given"].run["q-owls"])
    searched = compare([], suite, first_stages=["given", "lexical"])
    assert searched["lexical"].reason == "the suite has no corpus to search"
    assert compare([], SUITE, first_stages=["given"])["given"].reason == (
        "the suite has no candidates of its own; add candidates.jsonl, or --run on the command line"
    )
    behind = compare({"x": Reranker(ByGrade())}, SUITE, first_stages=["given"])
    assert "given and given+x are not run: the suite has no candidates" in behind.verdict
    assert behind.to_markdown(details=False).count("of its own") == 1
    assert behind.to_dict()["verdict"] == behind.verdict


def test_too_many_candidates_are_cut() -> None:
    class Generous:
        def retrieve(self, query: str, k: int, mode: str = "hybrid") -> list[Candidate]:
            return SUITE.corpus

    found = compare([], SUITE, retriever=Generous(), first_stages=["vector"], depth=3)
    assert {len(documents) for documents in found["vector"].run.values()} == {3}


def test_no_reranker_is_not_run() -> None:
    for none in ({}, []):
        found = compare(none, SUITE, first_stages=["lexical"])
        assert [one.name for one in found.ran] == ["lexical"]
        assert found["lexical+rerank"].reason.startswith("no reranker was given")


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
def test_names(rerankers, names) -> None:
    found = compare(rerankers, SUITE, first_stages=["lexical"])
    assert [one.name for one in found.ran[1:]] == [f"lexical+{name}" for name in names]
    assert all(one.config["method"] == {"type": "lexical"} for one in found.ran[1:])


def test_configuration_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("method: lexical\ndepth: 3\n")
    found = compare([path, Reranker(ByGrade())], SUITE, first_stages=["lexical"])
    assert found["lexical+mine"].config["depth"] == 3
    assert found["lexical+rerank"].config is None  # an object without a name


def test_reranker_named_method() -> None:
    suite = make_suite("s", {"q": "cat"}, {"q": {"a": 1}}, corpus=[Candidate("a cat", "a")])
    named = compare({"method": Reranker("lexical"), "other": "lexical"}, suite)
    assert [one.name for one in named.results][-2:] == ["hybrid+method", "hybrid+other"]
    assert compare({"method": "lexical"}, suite).results[-1].name == "hybrid+rerank"
    assert compare({"method": {"method": "lexical"}}, suite).results[-1].name == "hybrid+method"
