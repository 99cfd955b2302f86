"""What is adopted, what is kept, what it says about it, and what is written."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from fakes import ByTable
from secondpass import Candidate, Reranker
from secondpass.config import load
from secondpass.errors import InputError, ModelLoadError
from secondpass_evaluation import HybridRetriever, evaluate, make_suite, ranking_to_run, tune
from secondpass_evaluation.first_stages import CorpusRetriever
from secondpass_evaluation.observations import Observations
from tuning_suites import FIRST, LAST, suite_of


def mixed_suite(count):
    """The relevant passage of so many queries is last, and of the others first."""
    first, last = suite_of(0), suite_of(5)
    names = [*last.queries][:count]
    qrels = {**first.qrels, **{name: last.qrels[name] for name in names}}
    candidates = {**first.candidates, **{name: last.candidates[name] for name in names}}
    return make_suite("mixed", first.queries, qrels, candidates=candidates)


@pytest.fixture(scope="module")
def adopted():
    return tune(LAST, {"words": "lexical"})


@pytest.fixture(scope="module")
def kept():
    return tune(FIRST, "lexical")


def test_the_adopted_configuration_does_what_was_measured(adopted):
    assert adopted.adopted == "words"
    trial = adopted["words"]
    assert trial.status == "adopted"
    assert trial.held.mean > 0.3
    assert trial.held.p <= 0.05
    assert adopted.more_queries is None
    with pytest.raises(KeyError):
        adopted["other"]
    reranker = load({**trial.config})
    run = ranking_to_run(
        {query: reranker.rerank(LAST.queries[query], items)
         for query, items in LAST.candidates.items()}
    )  # fmt: skip
    mean = evaluate(run, LAST.qrels, ["nDCG@10"]).mean["nDCG@10"]
    assert mean == pytest.approx(trial.mean)
    # Of equally good variants the simplest: one depth, no blend.
    assert "blend" not in trial.config
    assert trial.config["depth"] == 20


def test_the_file_has_the_evidence_and_loads(adopted, tmp_path):
    path = tmp_path / "rerank.yaml"
    adopted.write(path)
    text = path.read_text()
    comments = " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    for part in ("words, 30 judged queries", "the first stage, given,", "secondpass 0.",
                 "corrected for", "p = 0.001"):  # fmt: skip
        assert part in comments
    assert load(path).to_config() == load(adopted.config).to_config()


def test_the_file_has_the_names_of_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("K1", "1.25")
    monkeypatch.setenv("DEPTH", "20")
    own = tmp_path / "own.yaml"
    own.write_text(
        "method: {type: lexical, k1: {env: K1}}\n"
        "depth: {env: DEPTH}\n"
        "terms: [{type: value, field: kind, weight: 0.001, values: {a: 1}, default: 0}]\n"
    )
    tuning = tune(LAST, {"words": own})
    assert tuning.adopted == "words"
    path = tmp_path / "rerank.yaml"
    tuning.write(path)
    assert "1.25" not in path.read_text()
    assert yaml.safe_load(path.read_text())["method"]["k1"] == {"env": "K1"}
    assert any("depth 20: all candidates" in note for note in tuning.notes)


def test_without_a_gain_the_first_stage_is_kept(kept, tmp_path):
    assert (kept.adopted, kept.config) == (None, None)
    assert kept["lexical"].reason == "it changes the measure for no query"
    assert kept.verdict.startswith("Keep the first stage, given: no reranker is certain to")
    with pytest.raises(InputError, match="nothing was adopted"):
        kept.write(tmp_path / "rerank.yaml")
    assert not [*tmp_path.iterdir()]


def test_too_little_evidence_says_how_many_more_queries_it_takes():
    """One query of thirty gains: that may be chance."""
    tuning = tune(mixed_suite(1), "lexical", seed=1)
    assert tuning.adopted is None
    assert tuning.more_queries > 5
    assert tuning["lexical"].reason.startswith("its gain may be chance (p = ")
    assert (
        f"With about {tuning.more_queries:,} more judged queries, the test would" in tuning.verdict
    )
    assert "(95% interval " in tuning.verdict


def test_figures_are_reproducible_and_plain(adopted):
    again = tune(LAST, {"words": "lexical"})
    assert again["words"].held == adopted["words"].held
    record = json.loads(json.dumps(adopted.to_dict()))
    assert record["verdict"] == adopted.verdict
    assert record["trials"][0]["held"]["p"] == adopted["words"].held.p
    text = json.dumps(record) + adopted.to_markdown() + repr(adopted)
    assert "nothing of that kind" not in text  # no passage
    assert "word3" not in text  # no query


@pytest.mark.parametrize(
    ("rerankers", "name", "reason"),
    [
        (Reranker(ByTable()), "rerank", "cannot be written as a configuration"),
        (
            {"down": {"method": {"type": "endpoint", "api": "vllm", "model": "m",
                                 "base_url": "http://127.0.0.1:9"}, "limits": {"retries": 0}}},
            "down",
            "nothing was judged: 30 of 30 rankings are unchanged",
        ),
    ],
    ids=["object", "down"],
)  # fmt: skip
def test_what_cannot_be_tried_says_why(rerankers, name, reason):
    tuning = tune(LAST, rerankers)
    assert tuning[name].status == "not_tried"
    assert reason in tuning[name].reason


WORDS = make_suite(
    "words",
    {f"q{i}": f"word{i}" for i in range(30)},
    {f"q{i}": {f"d{i}": 1} for i in range(30)},
    corpus=[Candidate(f"here is word{i}", f"d{i}") for i in range(30)],
)


class NoDirections:
    """An embedder with the same vector for each text, so that its searches are bad."""

    def embed(self, texts):
        return np.ones((len(texts), 1))


@pytest.mark.parametrize(("behind", "better"), [("vector", "lexical"), ("lexical", None)])
def test_a_better_search_of_the_same_retriever_is_found(behind, better):
    retriever = HybridRetriever(WORDS.corpus, NoDirections())
    tuning = tune(WORDS, "lexical", retriever=retriever, behind=behind)
    found = tuning.better_search
    assert (None if found is None else found.name) == better


def test_no_corpus_is_encoded_for_another_search(monkeypatch):
    modes = []
    prepare = CorpusRetriever.prepare
    monkeypatch.setattr(
        CorpusRetriever, "prepare", lambda self, mode: (modes.append(mode), prepare(self, mode))
    )
    tune(WORDS, "lexical", behind="lexical")
    assert {*modes} == {"lexical"}


def test_a_method_replaced_by_its_fallback_is_not_tried(tmp_path):
    method = {"type": "cross_encoder", "model": str(tmp_path / "missing")}
    tuning = tune(LAST, {"mine": {"method": method, "fallback": ["lexical"]}})
    assert tuning["mine"].status == "not_tried"
    assert tuning["mine"].reason == (
        f"the model {tmp_path / 'missing'} could not be loaded, so every ranking is by a fallback, "
        "lexical"
    )


def test_a_depth_that_fails_is_told_beside_those_that_were_tried(monkeypatch):
    rankings = Observations.rankings

    def failing(self, name, reranker):
        if reranker.depth == 5:
            raise ModelLoadError("out of memory")
        return rankings(self, name, reranker)

    monkeypatch.setattr(Observations, "rankings", failing)
    tuning = tune(LAST, "lexical", depths=[3, 5])
    assert tuning["lexical"].config["depth"] == 3
    (note,) = tuning.notes
    assert note.startswith("lexical was not tried at all depths: ")
    assert note in tuning.provenance()[3]
    assert note in tuning.to_html()


def test_rankings_that_failed_are_told(monkeypatch):
    rankings = Observations.rankings

    def partly(self, name, reranker):
        found = rankings(self, name, reranker)
        for query in ("q1", "q2"):
            report = replace(found[query].report, status="degraded")
            found[query] = replace(found[query], report=report)
        return found

    monkeypatch.setattr(Observations, "rankings", partly)
    note, _ = tune(LAST, "lexical", depths=[6]).notes
    assert (
        note == "lexical: of 30 rankings, not all were ok (2 degraded); the figures include these"
    )


def test_a_dropped_tail_is_missing_from_the_figures():
    """The relevant passage is beyond the depth."""
    config = {"method": "lexical", "tail": "drop"}
    tuning = tune(LAST, {"words": config}, depths=[5])
    assert tuning["words"].mean == 0.0
    kept = tune(LAST, {"words": {"method": "lexical"}}, depths=[5])
    assert kept["words"].mean == pytest.approx(kept.baseline)


def test_probabilities_of_other_settings_are_left_out():
    fitted = {"method": "lexical", "depth": 100}
    mapping = {"slope": 1.0, "intercept": 0.0, "fitted": fitted}
    trial = tune(LAST, {"words": {"method": "lexical", "probabilities": mapping}})["words"]
    assert trial.status == "adopted"
    assert "probabilities" not in trial.config


def graded(provider, **settings):
    llm = {"type": "openai", "model": "m", "base_url": provider.base_url("openai"), **settings}
    return {"method": {"type": "graded", "llm": llm}, "depth": 3}


def test_cost_is_announced_before_a_service_is_asked(provider, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    seen = []
    tuning = tune(
        LAST,
        {"graded": graded(provider, prices={"input": 1.0, "output": 1.0})},
        expected=lambda expected: seen.append((expected, len(provider.requests))),
        smallest_gain=0.0,
    )
    ((expected, asked_before),) = seen
    assert asked_before == 0
    ((use,),) = expected.systems.values()
    assert use.calls == len(provider.requests) == 30
    assert tuning["graded"].variants > 1
    assert tuning["graded"].cost > 0


@pytest.mark.parametrize(
    ("suite", "options", "message"),
    [
        ("suite", {}, "suite: give one of load_suite or make_suite"),
        (suite_of(5, 29), {}, "has 29 judged queries; tuning needs 30 or more"),
        (LAST, {"depth": 2}, "no relevant document is among the candidates of given"),
        (LAST, {"latency": -1}, "latency: must be a number of 0 or more"),
        (LAST, {"latency": 0}, "latency: must be more than 0; None is no limit"),
        (LAST, {"cost": float("nan")}, "cost: must be a number of 0 or more"),
        (LAST, {"smallest_gain": True}, "smallest_gain: must be a number of 0 or more"),
        (LAST, {"depths": []}, "depths: give at least one"),
        (LAST, {"rerankers": []}, "rerankers: give at least one"),
        (LAST, {"rerankers": dict.fromkeys("abcdefghi", "lexical")}, "at most 8 can be compared"),
        (LAST, {"depth": 0}, "depth: must be a whole number of 1 or more"),
        (LAST, {"behind": "best"}, "behind: must be one of"),
        (LAST, {"behind": "lexical"}, "lexical: the suite has no corpus to search"),
    ],
    ids=["type", "few", "hopeless", "latency", "no time", "cost", "gain", "depths", "none", "many",
         "depth", "stage", "corpus"],
)  # fmt: skip
def test_wrong_arguments(suite, options, message):
    with pytest.raises(InputError, match=message):
        tune(suite, **{"rerankers": "lexical", **options})
