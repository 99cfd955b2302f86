"""The preset `cross_encoder_hybrid`: a cross-encoder behind reciprocal rank fusion."""

import pytest

from secondpass import Candidate, Reranker
from tiny_models import write_classifier


class FakeScorer:
    """Deterministic, no model: exactly the interface of the system."""

    model_name = "fake"

    def __init__(self):
        self.asked = []

    def score_pairs(self, query, documents):
        self.asked.append(len(documents))
        return [float(document.count(query)) for document in documents]


def found(count, prefix="d"):
    return [
        Candidate(f"text {'needle ' * (at % 7)}", id=f"{prefix}{at}", score=1 - at / count,
                  metadata={"market": at, "closed": False, "volume": 0})
        for at in range(count)
    ]  # fmt: skip


def test_the_defaults():
    reranker = Reranker.from_preset("cross_encoder_hybrid")
    assert reranker.depth == 50
    scorer = reranker.method.scorer
    assert scorer.model_name == "cross-encoder/ms-marco-MiniLM-L-6-v2"
    assert scorer.device == "auto"
    assert scorer.cache_folder == "kb/rag/models"
    assert scorer.score_pairs("query", []) == []


def test_fifty_of_the_fused_list_are_scored_then_k_returned():
    vector, lexical = found(80), found(80)[::-1]
    places = {item.id: 1 / (61 + at) for at, item in enumerate(vector)}
    for at, item in enumerate(lexical):
        places[item.id] += 1 / (61 + at)
    fused = sorted(vector, key=lambda item: -places[item.id])
    scorer = FakeScorer()
    reranker = Reranker(scorer, depth=50)
    ranking = reranker.rerank("needle", fused, top_k=8)
    assert scorer.asked == [50]
    assert [item.rank for item in ranking] == list(range(1, 9))
    scores = [item.rerank_score for item in ranking]
    assert scores == sorted(scores, reverse=True)


def test_what_is_past_the_depth_is_appended_without_a_score():
    ranking = Reranker(FakeScorer(), depth=50).rerank("needle", found(60))
    assert [item.metadata["rerank_score"] for item in ranking[50:]] == [None] * 10
    assert [item.id for item in ranking[50:]] == [f"d{at}" for at in range(50, 60)]
    assert [item.rank for item in ranking] == list(range(1, 61))


def test_no_documents_need_no_model():
    ranking = Reranker.from_preset("cross_encoder_hybrid").rerank("needle", [])
    assert len(ranking) == 0


@pytest.mark.long  # imports torch
def test_the_model_can_be_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = str(write_classifier(tmp_path / "tiny"))
    reranker = Reranker.from_preset("cross_encoder_hybrid", method={"model": folder}, depth=2)
    ranking = reranker.rerank("cat", ["the dog ran", "cat food", "a"])
    assert ranking.report.status == "ok"
    assert [item.status for item in ranking] == ["scored", "scored", "tail"]


def test_a_model_that_cannot_load_is_a_runtime_error():
    from secondpass import MissingExtraError, ModelLoadError

    assert issubclass(MissingExtraError, RuntimeError)
    assert issubclass(ModelLoadError, RuntimeError)
    with pytest.raises(RuntimeError, match="cannot be loaded"):
        Reranker.from_preset(
            "cross_encoder_hybrid", method={"model": "./absent", "local_files_only": True}
        ).warm_up()
