"""Duplicates, and what is kept of documents."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ByteStream

from haystack_documents import QUERY, Answers, Numbers, castles, ids, numbered, store_of
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from rankings import KEYS
from secondpass import Reranker
from secondpass.effects import ListScores
from secondpass.ranking.ordering import Tiers


def snapshot(documents: list[Document]) -> list[Any]:
    return [copy.deepcopy(document.to_dict(flatten=False)) for document in documents]


# ---------------------------------------------------------------------- duplicates


def test_duplicates_are_removed_and_the_highest_score_is_kept() -> None:
    documents = [
        Document(id="a", content="1", score=0.2, meta={"from": "first"}),
        Document(id="b", content="2"),
        Document(id="a", content="1", score=0.9, meta={"from": "second"}),
        Document(id="b", content="2", score=0.1, meta={"from": "second"}),
    ]
    scorer = Numbers()
    result = SecondPassRanker(Reranker(scorer)).run(QUERY, documents)
    assert ids(result["documents"]) == ["b", "a"]
    assert [document.meta["from"] for document in result["documents"]] == ["second", "second"]
    assert [document.meta["retrieval_score"] for document in result["documents"]] == [0.1, 0.9]
    assert scorer.seen == [["1", "2"]]
    assert result["report"]["left_out"] == {"duplicate": [0, 1]}
    kept = SecondPassRanker(Reranker(scorer), dedupe=False).run(QUERY, documents)
    assert ids(kept["documents"]) == ["b", "b", "a", "a"]


def test_several_retrievers_connect_straight_into_documents() -> None:
    first, second = castles(), [*castles()[:1], Document(id="tower", content="A castle garden.")]
    pipeline = Pipeline()
    pipeline.add_component("first", InMemoryBM25Retriever(store_of(first), top_k=2))
    pipeline.add_component("second", InMemoryBM25Retriever(store_of(second), top_k=2))
    pipeline.add_component("ranker", SecondPassRanker("lexical"))
    pipeline.connect("first.documents", "ranker.documents")
    pipeline.connect("second.documents", "ranker.documents")
    asked = {name: {"query": QUERY} for name in ("first", "second", "ranker")}
    result = pipeline.run(asked)["ranker"]
    assert sorted(ids(result["documents"])) == ["built", "garden", "tower"]
    assert ids(result["documents"])[0] == "tower"
    assert len(result["report"]["left_out"]["duplicate"]) == 1


# ---------------------------------------------------------------------- documents


def test_documents_are_never_mutated() -> None:
    nested = {"tags": ["a", {"b": 1}], "page": 0}
    documents = [
        Document(id="x", content="1", score=0.5, meta=nested, embedding=[0.1, 0.2]),
        Document(id="y", content="2", meta={}),
        Document(id="z", blob=ByteStream(b"png", mime_type="image/png")),
    ]
    before = snapshot(documents)
    metas = [document.meta for document in documents]
    ranker = SecondPassRanker(Reranker(Numbers()))
    for result in (ranker.run(QUERY, documents), asyncio.run(ranker.run_async(QUERY, documents))):
        assert snapshot(documents) == before
        assert all(document.meta is meta for document, meta in zip(documents, metas, strict=True))
        assert not {id(document) for document in documents} & set(map(id, result["documents"]))
        result["documents"][0].meta["changed"] = True
        assert snapshot(documents) == before


def test_ids_and_all_other_fields_stay() -> None:
    documents = [
        Document(content="1", meta={"n": 1}, embedding=[0.1], score=0.2),
        Document(content="2", blob=ByteStream(b"x", meta={"k": "v"}, mime_type="text/plain")),
    ]
    result = SecondPassRanker(Reranker(Numbers())).run(QUERY, documents)
    for before, after in zip(reversed(documents), result["documents"], strict=True):
        assert after.id == before.id
        assert (after.content, after.embedding) == (before.content, before.embedding)
        assert after.blob is before.blob


def test_falsy_metadata_is_kept() -> None:
    falsy: dict[str, Any] = {
        "zero": 0,
        "no": False,
        "none": None,
        "empty": "",
        "list": [],
        "map": {},
    }
    documents = [Document(id="a", content="1", meta=falsy)]
    meta = SecondPassRanker(Reranker(Numbers())).run(QUERY, documents)["documents"][0].meta
    assert {name: meta[name] for name in falsy} == falsy
    assert set(meta) == {*falsy, *KEYS}


def test_scores_are_floats_and_metadata_has_the_rest() -> None:
    class Real(float):
        """A float of another library."""

    ranker = SecondPassRanker(Reranker(Answers([Real(0.25), 1, None])))
    documents = numbered(0, 1, 2)
    result = ranker.run(QUERY, documents)
    assert all(type(document.score) is float for document in result["documents"])
    added = [{key: document.meta[key] for key in KEYS} for document in result["documents"]]
    assert added == [
        {
            "rerank_score": score,
            "rerank_final_score": score,
            "retrieval_score": documents[index].score,
            "rerank_rank": rank,
            "rerank_status": status,
        }
        for rank, (index, score, status) in enumerate(
            [(1, 1.0, "scored"), (0, 0.25, "scored"), (2, None, "backfilled")], start=1
        )
    ]


def test_the_span_that_matches_best() -> None:
    class Spans(Numbers):
        """The first character of each text but the first matches best."""

        def score_lists(self, requests: Any, deadline: float | None) -> Any:
            ((_, texts),) = requests
            spans = [None, *[(0, 1)] * (len(texts) - 1)]
            yield [ListScores([1.0] * len(texts), spans=spans)]

    documents = SecondPassRanker(Reranker(Spans())).run(QUERY, numbered(1, 2))["documents"]
    assert "rerank_span" not in documents[0].meta
    assert documents[1].meta["rerank_span"] == [0, 1]
    assert Document.from_dict(documents[1].to_dict()).meta == documents[1].meta


def test_the_best_window_of_a_long_text() -> None:
    config = {"method": {"type": "lexical"}, "passages": {"size": 20, "overlap": 0}}
    ranker = SecondPassRanker.from_dict(SecondPassRanker(config).to_dict())
    documents = [
        Document(content="Cats sleep here. Dogs bark there. Birds sing."),
        Document(content="Dogs"),
    ]
    first, second = ranker.run("bark", documents)["documents"]
    assert first.content[slice(*first.meta["rerank_span"])] == "Dogs bark there."
    assert second.meta["rerank_span"] == [0, 4]


def test_foreign_keys_are_kept_and_ours_overwritten() -> None:
    ranker = SecondPassRanker(Reranker(Numbers()))
    others = [Document(id="a", content="1", meta={"rerank_score": "theirs"})]
    assert ranker.run(QUERY, others)["documents"][0].meta["rerank_score"] == "theirs"
    once = ranker.run(QUERY, numbered(1, 2))["documents"]
    lowered = SecondPassRanker(Reranker(Answers([0.1, 0.9])))
    twice = lowered.run(QUERY, once)["documents"]
    assert [document.meta["rerank_score"] for document in twice] == [0.9, 0.1]
    assert [document.meta["retrieval_score"] for document in twice] == [1.0, 0.5]
    prefixed = SecondPassRanker(Reranker(Numbers()), meta_prefix="second_")
    meta = prefixed.run(QUERY, others)["documents"][0].meta
    assert set(meta) == {"rerank_score", *(f"second_{key}" for key in KEYS)}


def test_documents_without_text_pass_through() -> None:
    image = Document(id="image", blob=ByteStream(b"png", mime_type="image/png"), score=0.9)
    documents = [image, *numbered(1, 2)]
    result = SecondPassRanker(Reranker(Numbers())).run(QUERY, documents)
    assert ids(result["documents"]) == ["d1", "d0", "image"]
    assert result["documents"][2].blob is image.blob
    assert result["documents"][2].meta["rerank_status"] == "unjudged"
    assert result["report"]["status"] == "partial"
    assert [issue["code"] for issue in result["report"]["issues"]] == ["no_text"]
    titled = Document(id="image", blob=image.blob, meta={"title": "7"})
    shown = SecondPassRanker({"method": Numbers()}, meta_fields_to_embed=["title"])
    assert ids(shown.run(QUERY, [*numbered(1), titled])["documents"]) == ["image", "d0"]


def test_tiers_alone_order_documents() -> None:
    tiers = Tiers(field="level", tiers=["easy", "hard"])
    documents = [
        Document(id="text", content="1", meta={"level": "hard"}),
        Document(id="image", blob=ByteStream(b"png"), meta={"level": "easy"}),
        Document(id="none", content="3"),
        Document(id="last", content="4", meta={"level": "easy"}),
    ]
    assert ids(tiers(documents)) == ["image", "last", "text", "none"]
