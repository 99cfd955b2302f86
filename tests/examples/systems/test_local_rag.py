"""The local knowledge base: index, four modes, evaluation."""

import json

import pytest
from local_rag.__main__ import MODES, main
from local_rag.rag import PAGES, QUESTIONS, configuration, evaluate, make_index, query

from secondpass import Reranker

QUESTION = "Why did I buy at a worse price than displayed?"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return make_index(PAGES, tmp_path_factory.mktemp("rag") / "kb.index")


class ByLength:
    """A scorer without a model, that records how many passages it read."""

    model_name = "by length"

    def __init__(self):
        self.counts = []

    def score_pairs(self, query, documents):
        self.counts.append(len(documents))
        return [float(len(document)) for document in documents]


@pytest.mark.parametrize("mode", ["vector", "lexical", "hybrid"])
def test_the_list_is_reranked_before_it_is_cut(index, mode):
    plain = query(index, QUESTION, mode, k=3)
    assert plain["mode"] == mode
    assert [item["final_rank"] for item in plain["results"]] == [1, 2, 3]
    assert not any({"rerank_score", "final_score"} & item.keys() for item in plain["results"])
    scorer = ByLength()
    answer = query(index, QUESTION, mode, Reranker(scorer, depth=50), k=3)
    assert scorer.counts == [len(index.retrieve(QUESTION, 50, mode))]
    assert scorer.counts[0] > 3
    assert answer["mode"] == f"{mode}+rerank"
    assert [item["final_rank"] for item in answer["results"]] == [1, 2, 3]
    scores = [item["rerank_score"] for item in answer["results"]]
    assert scores == sorted(scores, reverse=True)


def test_a_model_that_cannot_be_loaded_keeps_the_order(index, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    absent = Reranker.from_config(configuration(model=str(tmp_path / "absent")))
    answer = query(index, QUESTION, "hybrid", absent, k=3)
    expected = [item["id"] for item in query(index, QUESTION, "hybrid", k=3)["results"]]
    assert [item["id"] for item in answer["results"]] == expected
    assert answer["status"] == "unchanged"
    assert "model_not_loaded" in caplog.text


def test_evaluation_without_a_reranker(index):
    known = {passage.id for passage in index.corpus}
    for line in QUESTIONS.read_text(encoding="utf-8").splitlines():
        assert set(json.loads(line)["relevant"]) <= known
    comparison = evaluate(index, QUESTIONS)
    assert [result.name for result in comparison.results] == MODES
    *ran, missing = comparison.results
    assert {result.status for result in ran} == {"ran"}
    assert missing.status == "not_run"
    assert missing.reason.startswith("no reranker was given")


def test_the_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["index"]) == 0
    assert capsys.readouterr().out.startswith("kb.index: ")
    reranked = ["--mode", "hybrid+rerank", "--preset", "embedded", "--k", "2"]
    assert main(["query", QUESTION, *reranked]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["mode"], answer["status"]) == ("hybrid+rerank", "ok")
    assert answer["results"][0]["id"] == "orders.md#2"
    scores = [item["final_score"] for item in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert main(["evaluate", "--preset", "embedded"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == MODES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", QUESTION, "--index", "none"], "there is no index none"),
        (["query", QUESTION, "--mode", "hybrid+rerank", "--preset", "embeded"], "embedded"),
        (["index", "--pages", "none"], "none"),
    ],
)
def test_errors_are_messages(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("local_rag: ")
    assert message in error
