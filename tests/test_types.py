"""Rankings as sequences, and what is not shown of candidates."""

import pytest

from secondpass import Candidate, Ranking, Report, Request, Reranker

CANDIDATES = [
    Candidate("cats", "a", 0.5),
    Candidate("owls", "b", 0.4, {"in": "a burrow"}),
    Candidate("dogs", "c"),
]


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


def test_texts_are_not_shown(ranking):
    for value in (CANDIDATES[1], ranking, ranking[0], ranking.report):
        assert "owls" not in repr(value)
        assert "burrow" not in repr(value)
    assert "owls" not in str(ranking.to_dict())
    assert "owls" in str(ranking.to_dict(text=True))


def test_a_request_is_a_tuple():
    assert Request("q", ["a"]) == ("q", ["a"], None)
