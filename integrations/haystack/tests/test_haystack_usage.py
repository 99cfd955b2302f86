"""What users do with the ranker beside the usual: assign, close, mistake arguments, read scores."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from haystack import Document

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import Reranker

QUERY = "castle garden"


class Numbers:
    """Scores a document by the number that it consists of."""

    model_name = "numbers"
    score_kind = "probability"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        return [float(document) for document in documents]


class Fails:
    """A scorer that never answers."""

    model_name = "fails"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        raise OSError


def numbered(*numbers: float) -> list[Document]:
    """Documents whose content is a number, retrieved in this order with falling scores."""
    return [
        Document(id=f"d{at}", content=str(number), score=1 - at / len(numbers), meta={"at": at})
        for at, number in enumerate(numbers)
    ]


def ids(documents: Sequence[Document]) -> list[str]:
    return [document.id for document in documents]


BLEND = {"original": 0.5, "normalize": "none"}


def test_the_blended_score_is_kept_beside_a_tail() -> None:
    ranker = SecondPassRanker(Reranker(Numbers(), depth=2, blend=BLEND), meta_prefix="x_")
    documents = ranker.run(QUERY, numbered(0.2, 0.9, 0.5, 0.4))["documents"]
    assert [document.score for document in documents] == [1.0, 0.75, 0.5, 0.25]
    finals = [document.meta["x_rerank_final_score"] for document in documents]
    assert finals == [pytest.approx(0.825), pytest.approx(0.6), None, None]
    assert [document.meta["x_rerank_score"] for document in documents] == [0.9, 0.2, None, None]


def test_the_final_score_where_nothing_was_judged() -> None:
    ranker = SecondPassRanker(Reranker(Fails(), blend=None))
    given = [*numbered(0.2, 0.9), Document(content="0.4")]
    result = ranker.run(QUERY, given)
    assert result["report"]["status"] == "unchanged"
    finals = [document.meta["rerank_final_score"] for document in result["documents"]]
    assert finals == [1.0, 0.5, None]


def test_a_second_pass_renews_the_final_score() -> None:
    given = numbered(0.2, 0.9)
    once = SecondPassRanker(Reranker(Fails())).run(QUERY, given)["documents"]
    twice = SecondPassRanker(Reranker(Numbers())).run(QUERY, once)["documents"]
    assert [document.meta["rerank_final_score"] for document in twice] == [0.9, 0.2]
