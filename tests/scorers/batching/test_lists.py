"""Lists that a model reads as a whole."""

import time

from secondpass.scorers.batching.lists import ListEngine
from secondpass.scorers.checks import known_answers

DOUBT = known_answers.doubt  # as tests find it, it has no doubts: see conftest.py


class Listed:
    backend, precision, threads = "torch", "float32", 1

    def __init__(self):
        self.lists = []

    def knows(self, word):
        return True

    def score_list(self, query, passages, instruction=None):
        self.lists.append((query, [*passages], instruction))
        scores = [float(len(passage)) for passage in passages]
        return scores, 2 if len(passages) > 2 else 1


def test_copies_are_read_once_and_lists_apart():
    model = Listed()
    engine = ListEngine(model)
    assert engine.score([("q", ["a", "bb", "a"]), ("r", []), ("s", ["a", "bb", "ccc"])], "i") == [
        [1.0, 2.0, 1.0],
        [],
        [1.0, 2.0, 3.0],
    ]
    assert model.lists == [("q", ["a", "bb"], "i"), ("s", ["a", "bb", "ccc"], "i")]
    assert engine.blocks("q", ["a", "bb", "a"]) == 1
    assert engine.blocks("s", ["a", "bb", "ccc"]) == 2
    assert engine.blocks("s", ["other"]) == 1


def test_no_list_is_begun_after_the_deadline():
    engine = ListEngine(Listed())
    requests = [("q", ["a"]), ("r", ["bb"])]
    assert [*engine.score_until(requests, None)] == [[(0, 0, 1.0)], [(1, 0, 2.0)]]
    assert [*engine.score_until(requests, time.monotonic() - 1)] == []


def test_a_model_that_knows_no_answer_is_doubtful(monkeypatch):
    monkeypatch.setattr(known_answers, "doubt", DOUBT)
    assert "ranks that of" in ListEngine(Listed()).doubt()
