"""Scores of vectors, with a model whose vectors are numbers."""

from time import monotonic

import pytest

from secondpass.scorers.engines.lru import LRU
from secondpass.scorers.engines.pace import Pace
from secondpass.scorers.late_interaction import VectorScores


class Lengths:
    """The vector of a text is its length; the score is the product."""

    characters, batch_size = 100, 2

    def __init__(self):
        self.pace = Pace(self.batch_size)
        self.encoded = []

    def queries(self, texts):
        return [len(text) for text in texts]

    def passages(self, texts):
        self.encoded.append(list(texts))
        return [len(text) for text in texts]

    def scores(self, query, passages):
        return [float(query * passage) for passage in passages]


REQUESTS = [("qq", ["a", "bbb", "a"]), ("q", []), ("qqq", ["cc", "a"])]
EXPECTED = [[2.0, 6.0, 2.0], [], [6.0, 3.0]]


@pytest.mark.parametrize("capacity", [0, 10])
def test_each_passage_is_encoded_once(capacity):
    model = Lengths()
    scores = VectorScores(model, LRU(capacity))
    assert scores.score(REQUESTS) == EXPECTED
    assert sorted(text for batch in model.encoded for text in batch) == ["a", "bbb", "cc"]
    assert scores.score(REQUESTS) == EXPECTED
    assert len(model.encoded) == (1 if capacity else 2)


@pytest.mark.parametrize("seconds", [None, 60])
def test_scores_until_a_deadline(seconds):
    deadline = None if seconds is None else monotonic() + seconds
    batches = VectorScores(Lengths(), LRU(0)).score_until(REQUESTS, deadline)
    assert sorted(item for batch in batches for item in batch) == [
        (query, index, score)
        for query, scores in enumerate(EXPECTED)
        for index, score in enumerate(scores)
    ]


def test_after_the_deadline_nothing_is_encoded():
    model = Lengths()
    assert not list(VectorScores(model, LRU(0)).score_until(REQUESTS, monotonic() - 1))
    assert not model.encoded
