"""An engine that remembers scores, with a model whose scores are known."""

import pytest

from joined_calls import Model, expected
from secondpass.scorers.batching.pairs import PairEngine
from secondpass.scorers.cross_encoder import CachedPairs


def test_partly_remembered():
    model = Model()
    cached = CachedPairs(PairEngine(model), 10_000)
    cached.score([("q", ["a", "bb"])])
    model.batches.clear()
    requests = [("q", ["ccc", "a"]), ("qq", ["a"])]
    assert cached.score(requests) == [expected(*request) for request in requests]
    assert sorted(text for batch in model.batches for text in batch) == ["qccc", "qqa"]


@pytest.mark.parametrize("file", [False, True])
def test_remembered_scores_are_those_of_one_instruction(tmp_path, file):
    model = Model()
    cached = CachedPairs(PairEngine(model), str(tmp_path / "scores.sqlite") if file else 100)
    scores = {}
    for instruction in (None, "owls", "cats?", None, "owls", "cats?"):
        model.batches.clear()
        (found,) = cached.score([("q", ["a", "b"])], instruction)
        query = "q" + (instruction or "")
        assert found == expected(query, "ab")
        assert bool(model.batches) == (instruction not in scores)
        scores[instruction] = found
        model.batches.clear()
        until = [
            row
            for batch in cached.score_until([("q", ["a", "c"])], None, instruction)
            for row in batch
        ]
        assert sorted(until) == [
            (0, index, score) for index, score in enumerate(expected(query, "ac"))
        ]
    assert b"owls" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_scores_of_a_call_that_is_left_are_kept():
    model = Model(budget=8)
    cached = CachedPairs(PairEngine(model), 10)
    batches = cached.score_until([("q", ["a", "b" * 8])], 1e9)
    scored = next(batches)
    batches.close()
    model.batches.clear()
    known = next(cached.score_until([("q", ["a", "b" * 8])], 1e9))
    assert known == scored
    assert not model.batches


def test_scores_do_not_wait_until_they_are_kept(monkeypatch):
    cached = CachedPairs(PairEngine(Model()), 10)
    kept = []
    monkeypatch.setattr(cached._cache, "put_many", kept.extend)
    batches = cached.score_until([("q", ["a"])], None)
    assert next(batches) == [(0, 0, *expected("q", "a"))]
    assert not kept
    assert not list(batches)
    assert len(kept) == 1


def test_a_file_that_cannot_be_used_costs_no_score(tmp_path):
    path = tmp_path / "scores"
    path.write_text("written by the user, later")
    cached = CachedPairs(PairEngine(Model()), str(path))
    assert cached.score([("q", ["a"])]) == [expected("q", "a")]
    (issue,) = cached.cache_issues()
    assert issue.code == "cache_failed"
    assert "the score cache 'scores' cannot be used: it is not a file of" in issue.message
    assert path.read_text() == "written by the user, later"
    assert CachedPairs(PairEngine(Model()), None).cache_issues() == []
    assert CachedPairs(PairEngine(Model()), 10).cache_issues() == []
