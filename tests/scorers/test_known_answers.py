"""Doubtful models: those that do not find obvious answers, and what reports say of them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass import ModelLoadError, Reranker
from secondpass.scorers import known_answers
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.embedded import EmbeddedScorer
from secondpass.scorers.engines.pairs import PairEngine
from secondpass.scorers.late_interaction import LateInteractionScorer
from tiny_models import write_late_interaction

DOUBT = known_answers.doubt  # as tests find it, it has no doubts: see conftest.py
TEXTS = ["the cat sat", "a dog ran", "food on a mat"]


@pytest.fixture
def checked(monkeypatch):
    """Known answers are computed. Lists the calls."""
    calls = []
    monkeypatch.setattr(known_answers, "doubt", lambda score: calls.append(1) or DOUBT(score))
    return calls


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    return str(write_late_interaction(tmp_path_factory.mktemp("model") / "vectors"))


# ---------------------------------------------------------------------- the rule


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (6, None),
        (5, None),
        (4, "the model ranks that of 4 first"),
        (0, "the model ranks that of 0 first"),
    ],
)
def test_five_of_six_answers_are_enough(found, message):
    def score(requests):
        return [[1.0, 0.0 if index < found else 2.0] for index, _ in enumerate(requests)]

    doubt = DOUBT(score)
    assert doubt is None if message is None else message in doubt


@pytest.mark.parametrize("same", [0.0, float("-inf")])
def test_one_score_for_all(same):
    assert "the same score" in DOUBT(lambda requests: [[same, same] for _ in requests])


@given(st.dictionaries(st.integers(0, 5), st.floats(-9, 9)))
def test_a_preference_for_passages_finds_three_answers_at_most(preferences):
    """What most random weights do: the question has little influence."""
    number = {text: index for index, (_, (text, _)) in enumerate(known_answers.requests())}

    def score(requests):
        return [[preferences.get(number[text], 0.0) for text in texts] for _, texts in requests]

    assert DOUBT(score) is not None


def test_a_model_of_english_finds_all_of_them():
    lists = EmbeddedScorer(feedback=0, idf=False).score_many(known_answers.requests())
    assert all(answer > other + 0.2 for answer, other in lists)


# ---------------------------------------------------------------------- reports


@pytest.mark.parametrize("backend", ["openvino", "vectors"])
def test_a_doubtful_model_in_every_report(backend, folder, vectors, checked):
    scorer = {"type": "cross_encoder", "model": folder, "backend": backend, "remember": 1}
    if backend == "vectors":
        folder = vectors
        scorer = {"type": "late_interaction", "model": vectors}
    reranker = Reranker(scorer, strict=True)  # it is no error
    reranker.warm_up()
    rankings = [
        reranker.rerank("cat", TEXTS),
        reranker.rerank("cat", TEXTS, deadline=60),
        asyncio.run(reranker.arerank("cat", TEXTS[:1])),
        *reranker.rerank_many([("cat", TEXTS), ("dog", TEXTS)]),
    ]
    for ranking in rankings:
        assert (ranking.report.status, ranking.report.degraded_by) == ("degraded", ("doubtful",))
        assert [issue.code for issue in ranking.report.issues] == ["model_doubtful"]
        assert ranking.report.issues[0].method == folder
        assert all(item.status == "scored" for item in ranking)
    assert checked == [1]


def test_a_model_is_checked_once_and_without_warm_up(folder, vectors, checked):
    settings = {"model": folder, "remember": 2}
    scorers = [CrossEncoderScorer(**settings) for _ in range(2)]
    off = CrossEncoderScorer(**settings, known_answers=False)
    LateInteractionScorer(vectors, known_answers=False).score_pairs("cat", TEXTS)
    for scorer in (*scorers, off):
        scorer.score_pairs("cat", TEXTS)
    assert checked == [1]
    assert scorers[0].doubt == scorers[1].doubt is not None
    assert off.doubt is None
    assert Reranker(off).rerank("cat", TEXTS).report.status == "ok"


class Words:
    """In place of a loaded model: scores are the words that texts share, or a fixed number."""

    backend, precision, threads, budget = "torch", "float32", 1, 512

    def __init__(self, fixed=None):
        self.fixed = fixed

    def prepare(self, query, passages):
        return [(query, passage) for passage in passages]

    def run(self, pairs):
        if self.fixed is not None:
            return self.fixed
        return [float(len({*query.split()} & {*passage.split()})) for query, passage in pairs]


def test_a_model_that_cannot_score_is_not_loaded(checked):
    with pytest.raises(ModelLoadError, match="the model cannot score pairs: StopIteration"):
        PairEngine(Words(fixed=[])).doubt()
