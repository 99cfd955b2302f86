"""Behind retrievers."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.embedders import MockDocumentEmbedder, MockTextEmbedder
from haystack.components.joiners import DocumentJoiner
from haystack.components.joiners.document_joiner import JoinMode
from haystack.components.retrievers import (
    InMemoryBM25Retriever,
    InMemoryEmbeddingRetriever,
    MultiQueryEmbeddingRetriever,
    MultiQueryTextRetriever,
    MultiRetriever,
    TextEmbeddingRetriever,
)

from haystack_documents import Numbers, contents, ids, store_of, timeless
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_pipelines import (
    PASSAGES,
    QUERY,
    WAYS,
    ByWorth,
    Result,
    Way,
    asking,
    every_way,
    numbered,
    passages,
    retrieving,
    worth,
)
from sampling import rotating


def embedded(documents: list[Document]) -> list[Document]:
    created: list[Document] = MockDocumentEmbedder(dimension=8).run(documents)["documents"]
    return created


@every_way
def test_same_result_behind_a_retriever(way: Way) -> None:
    ranker = SecondPassRanker({"method": ByWorth()}, top_k=4)
    result = way(retrieving(ranker), asking("retriever", "ranker"))
    assert set(result) == {"ranker"}
    results = InMemoryBM25Retriever(store_of(passages())).run(query=QUERY)["documents"]
    alone = SecondPassRanker({"method": ByWorth()}, top_k=4).run(QUERY, results)
    assert timeless(result["ranker"]) == timeless(alone)
    assert ids(result["ranker"]["documents"]) != ids(results)[:4]


@every_way
def test_three_retrievers_join_straight_into_it(way: Way) -> None:
    lists = [numbered(5, 3, 1), numbered(5, 3, 1)[1:], numbered(5, 3, 1, 9)[2:]]
    best: dict[str, float] = {}
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker({"method": Numbers()}))
    for index, documents in enumerate(lists):
        for document in documents:
            best[document.id] = max(best.get(document.id, 0.0), document.score or 0.0)
        pipeline.add_component(f"retriever{index}", Given(documents))
        pipeline.connect(f"retriever{index}.documents", "ranker.documents")
    data = asking("ranker", *(f"retriever{index}" for index in range(3)))
    ranked = way(pipeline, data)["ranker"]
    assert contents(ranked["documents"]) == ["number 9", "number 5", "number 3", "number 1"]
    came = {document.id: document.meta["retrieval_score"] for document in ranked["documents"]}
    assert came == best
    assert len(ranked["report"]["left_out"]["duplicate"]) == 7 - 4


@component
class Given:
    """A retriever that always finds the same."""

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> Result:
        return {"documents": self.documents}


@rotating(joined=[None, *JoinMode], way=WAYS)
def test_words_and_vectors_joined_by_it_or_before_it(way: Way, joined: JoinMode | None) -> None:
    store = store_of(embedded(passages()))
    pipeline = Pipeline()
    pipeline.add_component("embedder", MockTextEmbedder(dimension=8))
    pipeline.add_component("vectors", InMemoryEmbeddingRetriever(store, top_k=5))
    pipeline.add_component("words", InMemoryBM25Retriever(store, top_k=5))
    pipeline.add_component("ranker", SecondPassRanker({"method": ByWorth()}))
    pipeline.connect("embedder.embedding", "vectors.query_embedding")
    meeting = "ranker"
    if joined is not None:
        meeting = "joiner"
        pipeline.add_component("joiner", DocumentJoiner(joined))
        pipeline.connect("joiner.documents", "ranker.documents")
    pipeline.connect("vectors.documents", f"{meeting}.documents")
    pipeline.connect("words.documents", f"{meeting}.documents")
    data = {**asking("words", "ranker"), "embedder": {"text": QUERY}}
    result = way(pipeline, data, include_outputs_from={"words", "vectors"})
    results = {*ids(result["words"]["documents"]), *ids(result["vectors"]["documents"])}
    assert len(results) < 10  # both found some
    ranked = result["ranker"]["documents"]
    wanted = {f"p{index}": worth(QUERY, text) for index, text in enumerate(PASSAGES)}
    assert ids(ranked) == sorted(results, key=lambda name: -wanted[name])
    assert result["ranker"]["report"]["status"] == "ok"
    by_words = {one.id: one.score for one in result["words"]["documents"]}
    if joined is None:
        for document in ranked:
            scores = [by_words.get(document.id)] + [
                one.score for one in result["vectors"]["documents"] if one.id == document.id
            ]
            known = [score for score in scores if score is not None]
            assert document.meta["retrieval_score"] == max(known)


@every_way
@pytest.mark.filterwarnings("ignore:'MultiRetriever' is an experimental component")
@pytest.mark.parametrize(
    "retriever",
    [
        lambda store: MultiRetriever(
            retrievers={
                "words": InMemoryBM25Retriever(store),
                "vectors": TextEmbeddingRetriever(
                    retriever=InMemoryEmbeddingRetriever(store),
                    text_embedder=MockTextEmbedder(dimension=8),
                ),
            }
        ),
        lambda store: MultiQueryTextRetriever(retriever=InMemoryBM25Retriever(store)),
        lambda store: MultiQueryEmbeddingRetriever(
            retriever=InMemoryEmbeddingRetriever(store),
            query_embedder=MockTextEmbedder(dimension=8),
        ),
        lambda store: TextEmbeddingRetriever(
            retriever=InMemoryEmbeddingRetriever(store),
            text_embedder=MockTextEmbedder(dimension=8),
        ),
    ],
    ids=["MultiRetriever", "MultiQueryText", "MultiQueryEmbedding", "TextEmbedding"],
)
def test_behind_retrievers_of_retrievers(way: Way, retriever: Any) -> None:
    pipeline = Pipeline()
    first = retriever(store_of(embedded(passages())))
    pipeline.add_component("retriever", first)
    pipeline.add_component("ranker", SecondPassRanker({"method": ByWorth()}, top_k=3))
    pipeline.connect("retriever", "ranker")
    many = "queries" in first.__haystack_input__._sockets_dict
    own = {"queries": [QUERY, "market bus"]} if many else {"query": QUERY}
    data = {**asking("ranker"), "retriever": own}
    result = way(pipeline, data, include_outputs_from={"retriever"})
    results = result["retriever"]["documents"]
    wanted = sorted(results, key=lambda one: -worth(QUERY, one.content))[:3]
    assert ids(result["ranker"]["documents"]) == ids(wanted)
