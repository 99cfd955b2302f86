"""The assistant's memory: blend, floor, failure, and the same through a coprocess."""

import json

import pytest
from memory_recall import over_coprocess
from memory_recall.__main__ import main, recall
from memory_recall.recall import Memory, records
from scripted_model import NAME, ScriptedModel

QUERY = "What should I cook for Ana?"


@pytest.fixture(scope="module")
def memory():
    return Memory()


def test_the_search_has_scores_from_0_to_1(memory):
    results = memory.search(QUERY)
    scores = [item["score"] for item in results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len(results) == len(memory.memories)
    assert len(memory.search(QUERY, 3)) == 3
    assert len(memory.search("xyzzy")) == len(memory.memories)  # by prominence and vectors


def test_final_scores_are_blended(memory):
    ranking = recall(QUERY, memory)
    assert ranking.report.status == "ok"
    assert NAME in ranking.report.method
    for item in ranking:
        expected = 0.4 * item.score + 0.6 * item.rerank_score
        assert item.final_score == pytest.approx(expected, abs=1e-9)
    finals = [item.final_score for item in ranking]
    assert finals == sorted(finals, reverse=True)


def test_a_model_that_fails(memory):
    before = memory.search(QUERY)
    ranking = recall(QUERY, memory, fails=True)
    assert ranking.report.status == "unchanged"
    assert [item.id for item in ranking] == [item["id"] for item in before]
    assert [item.final_score for item in ranking] == [item["score"] for item in before]


def test_records(memory, capsys):
    assert main([QUERY, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == records(recall(QUERY, memory))
    assert list(printed[0]) == ["id", "relevanceScore", "originalScore", "finalScore"]


def test_the_same_through_a_coprocess(memory, capfd):
    queries = [QUERY, "Which tea in the morning?"]
    expected = []
    for query in queries:
        ranking = recall(query, memory)
        expected += [f"{query} ok", *(f" {i.final_score:4.2f}  {i.text}" for i in ranking)]
    capfd.readouterr()
    assert over_coprocess.main(queries) == 0
    assert capfd.readouterr().out.splitlines() == expected


class Forgetful(ScriptedModel):
    """Leaves the first memory out of its reply."""

    def _reply(self, messages):
        return json.dumps(json.loads(super()._reply(messages))[1:])


def test_a_memory_that_the_model_leaves_out_is_printed(served, memory, capsys):
    with Forgetful() as model:
        served(model)
        assert main([QUERY]) == 0
    first = memory.search(QUERY)[0]
    lines = capsys.readouterr().out.splitlines()
    assert f"    -      -    {first['score']:4.2f}  {first['content']}" in lines
    assert lines[-1].startswith("partial: ")
