"""Rankings as sequences, and what is not shown of candidates."""

import pickle

import pytest

from secondpass import Candidate, InputError, Ranking, Report, Request, Reranker

CANDIDATES = [Candidate("cats", "a", 0.5), Candidate("owls", "b", 0.4), Candidate("dogs", "c")]


@pytest.fixture
def ranking():
    return Reranker("lexical").rerank("owls", CANDIDATES)


def test_a_ranking_is_a_sequence(ranking):
    assert len(ranking) == 3
    assert [item.position for item in ranking] == list(ranking.order) == [1, 0, 2]
    assert ranking[0] is ranking.items[0]
    assert ranking[-1].candidate is CANDIDATES[2]
    assert ranking[:2] == ranking.items[:2]
    assert ranking[1] in ranking
    with pytest.raises(IndexError):
        ranking[3]
    assert len(Ranking("q", (), Report("ok"))) == 0


def test_items_have_the_values_of_their_candidates(ranking):
    first = ranking[0]
    assert (first.id, first.text, first.score) == ("b", "owls", 0.4)
    assert (ranking[2].id, ranking[2].score) == ("c", None)


def test_texts_are_not_shown(ranking):
    for value in (CANDIDATES[1], ranking, ranking.report):
        assert "owls" not in repr(value)
    assert "owls" not in str(ranking.to_dict())
    assert "owls" in str(ranking.to_dict(text=True))


def test_a_ranking_without_a_trace_cannot_be_explained(ranking):
    assert ranking.explain("b").to_dict()["position"] == 1
    with pytest.raises(InputError):
        Ranking("q", ranking.items, ranking.report).explain("b")


def test_rankings_are_equal_whatever_their_trace(ranking):
    assert ranking == Ranking(ranking.query, ranking.items, ranking.report)
    again = pickle.loads(pickle.dumps(ranking))
    assert (again.order, again.report) == (ranking.order, ranking.report)


def test_a_request_is_a_tuple():
    assert Request("q", ["a"]) == ("q", ["a"], None)
