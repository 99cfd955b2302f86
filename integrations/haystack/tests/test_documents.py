"""Duplicates, and what is kept of documents."""

from __future__ import annotations

from haystack import Document
from haystack.dataclasses import ByteStream

from haystack_documents import QUERY, Numbers, ids, numbered
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import Reranker
from secondpass.ordering import Tiers

# ---------------------------------------------------------------------- documents


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
