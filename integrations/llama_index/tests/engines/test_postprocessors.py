"""Among other postprocessors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.postprocessor import (
    KeywordNodePostprocessor,
    LongContextReorder,
    MetadataReplacementPostProcessor,
    PrevNextNodePostprocessor,
    SimilarityPostprocessor,
)
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo
from llama_index.core.storage.docstore import SimpleDocumentStore

from llama_engines import QUERY, TEXTS, Ask, Retrieved, by_overlap, engine_of, ids, nodes_of
from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import plain


def store() -> SimpleDocumentStore:
    nodes = {node.node_id: node.node for node in nodes_of()}
    nodes["red"].relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="fox")
    kept = SimpleDocumentStore()
    kept.add_documents(list(nodes.values()))
    return kept


def linked() -> list[NodeWithScore]:
    nodes = nodes_of("car", "bear", "red")
    nodes[2].node.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="fox")
    for node in nodes:
        node.node.metadata["window"] = f"window_{node.node_id}"
    return nodes


BEHIND: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a cutoff": (lambda: SimilarityPostprocessor(similarity_cutoff=1.5), ["red", "bear"]),
    "reordering": (LongContextReorder, ["red", "car", "bear"]),
    "replacement": (lambda: MetadataReplacementPostProcessor("window"), ["red", "bear", "car"]),
    "next nodes": (
        lambda: PrevNextNodePostprocessor(docstore=store(), num_nodes=1, mode="next"),
        ["red", "fox", "bear", "car"],
    ),
    "another of ours": (lambda: SecondPassRerank("lexical"), ["red", "bear", "car"]),
}


@pytest.mark.parametrize(("other", "expected"), BEHIND.values(), ids=BEHIND)
def test_other_postprocessors_behind(
    other: Callable[[], Any], expected: list[str], ask: Ask
) -> None:
    response = ask(engine_of(Retrieved(*linked()), by_overlap(), other()), QUERY)
    results = response.source_nodes
    if isinstance(other(), PrevNextNodePostprocessor):
        assert sorted(ids(results)) == sorted(expected)
    else:
        assert ids(results) == expected
    if isinstance(other(), MetadataReplacementPostProcessor):
        assert [one.text for one in results] == [f"window_{name}" for name in expected]


FRONT: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a cutoff": (lambda: SimilarityPostprocessor(similarity_cutoff=0.8), ["bear", "car"]),
    "reordering": (LongContextReorder, ["red", "bear", "car"]),
    # The windows share no word with the query, so the order that came in stays.
    "replacement": (lambda: MetadataReplacementPostProcessor("window"), ["car", "bear", "red"]),
    "next nodes": (
        lambda: PrevNextNodePostprocessor(docstore=store(), num_nodes=1, mode="next"),
        ["red", "bear", "fox", "car"],
    ),
}


@pytest.mark.parametrize(("other", "expected"), FRONT.values(), ids=FRONT)
def test_other_postprocessors_in_front(
    other: Callable[[], Any], expected: list[str], ask: Ask
) -> None:
    response = ask(engine_of(Retrieved(*linked()), other(), by_overlap()), QUERY)
    assert ids(response.source_nodes) == expected


@pytest.mark.parametrize("front", [False, True])
def test_keywords_in_front_and_behind(front: bool, ask: Ask) -> None:
    pytest.importorskip("spacy")
    both = [by_overlap(), KeywordNodePostprocessor(required_keywords=["eat"])]
    engine = engine_of(Retrieved(*nodes_of()), *(reversed(both) if front else both))
    assert ids(ask(engine, QUERY).source_nodes) == ["red", "bear"]


def test_input_nodes_stay_unchanged_by_other_postprocessors() -> None:
    nodes = linked()
    before = plain(nodes)
    ranked = by_overlap().postprocess_nodes(nodes, query_str=QUERY)
    MetadataReplacementPostProcessor("window").postprocess_nodes(ranked)
    assert plain(nodes) == before


def test_two_passes_after_one_another(ask: Ask) -> None:
    # The first cuts by words, the second decides; the retriever's score stays that of the first.
    first, second = by_overlap(top_n=3), by_overlap(Shortest())
    response = ask(engine_of(Retrieved(*nodes_of()), first, second), QUERY)
    results = response.source_nodes
    assert ids(results) == ["fox", "bear", "red"]
    retrieved = {node.node_id: node.score for node in nodes_of()}
    assert [one.metadata["retrieval_score"] for one in results] == [
        retrieved[i] for i in ids(results)
    ]
    assert [one.metadata["rerank_rank"] for one in results] == [1, 2, 3]
    assert [one.score for one in results] == [-float(len(TEXTS[name])) for name in ids(results)]


def test_two_passes_with_prefixes(ask: Ask) -> None:
    passes = [by_overlap(metadata_prefix="a_"), by_overlap(Shortest(), metadata_prefix="b_")]
    results = ask(engine_of(Retrieved(*nodes_of()), *passes), QUERY).source_nodes
    by_words = by_overlap().postprocess_nodes(nodes_of(), query_str=QUERY)
    assert {one.node_id: one.metadata["a_rerank_rank"] for one in results} == {
        one.node_id: one.metadata["rerank_rank"] for one in by_words
    }
    assert [one.metadata["b_rerank_rank"] for one in results] == list(range(1, len(TEXTS) + 1))
    assert {one.node_id: one.metadata["b_retrieval_score"] for one in results} == {
        one.node_id: one.score for one in by_words
    }


class Shortest:
    """The shorter the text, the higher the score."""

    model_name = "shortest"

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        return [-float(len(document)) for document in documents]
