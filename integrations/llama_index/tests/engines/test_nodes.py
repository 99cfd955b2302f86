"""Nodes of every kind, and their hashes."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import (
    Document,
    ImageNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)

from llama_engines import QUERY, TEXTS, Retrieved, by_overlap, ids, nodes_of
from llama_nodes import plain
from rankings import KEYS


def odd_nodes() -> list[NodeWithScore]:
    return [
        NodeWithScore(node=TextNode(text=TEXTS["car"], id_="same"), score=None),
        NodeWithScore(node=ImageNode(image_path="panda.png", id_="image"), score=0.9),
        NodeWithScore(node=Document(text=TEXTS["red"], id_="document"), score=None),
        NodeWithScore(node=IndexNode(text=TEXTS["bear"], index_id="other", id_="index"), score=0.1),
        NodeWithScore(
            node=TextNode(text=TEXTS["fox"], id_="same", metadata={"page": 2}), score=0.5
        ),
        NodeWithScore(node=ImageNode(text=TEXTS["tea"], image_path="t.png", id_="both"), score=0.2),
    ]


# ---------------------------------------------------------------------- nodes of every kind


def test_odd_nodes_come_back_as_what_they_were() -> None:
    nodes = odd_nodes()
    for one in (nodes[0], nodes[3]):
        one.node.relationships = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="book")}
    ranked, report = by_overlap().rerank_nodes(nodes, QUERY)
    again, _ = asyncio.run(by_overlap().arerank_nodes(nodes, QUERY))
    assert plain(again) == plain(ranked)
    assert sorted(ids(ranked)) == sorted(ids(nodes))
    assert [type(one.node) for one in ranked][:2] == [Document, IndexNode]
    assert ranked[1].node.index_id == "other"
    assert ranked[-1].node.image_path == "panda.png"
    assert (report.status, [issue.code for issue in report.issues]) == ("partial", ["no_text"])
    for one in ranked:
        (source,) = [given for given in nodes if given.node.get_content() == one.node.get_content()]
        assert type(one.node) is type(source.node)
        assert one.node.relationships == source.node.relationships
        assert one.metadata["retrieval_score"] == source.score
        assert one.metadata.get("page") == source.metadata.get("page")


def test_an_index_node_leads_to_where_it_did() -> None:
    inner = Retrieved(*nodes_of("red"))
    (ranked,) = by_overlap().postprocess_nodes(
        [NodeWithScore(node=IndexNode(text="Animals.", index_id="a", obj=inner))], query_str=QUERY
    )
    assert ranked.node.obj is inner
    assert ids(Retrieved.retrieve(Passing([ranked]), QUERY)) == ["red"]


class Passing(BaseRetriever):
    """Retrieves the very nodes that it was given."""

    def __init__(self, nodes: list[NodeWithScore]) -> None:
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.nodes


plain_values = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


# ---------------------------------------------------------------------- hashes


@settings(max_examples=settings().max_examples // 2)
@given(
    text=st.text(max_size=20),
    metadata=st.dictionaries(st.text(max_size=5), plain_values, max_size=3),
    kind=st.sampled_from([TextNode, Document, IndexNode, ImageNode]),
    prefix=st.sampled_from(["", "ours_"]),
)
def test_property_models_are_shown_the_same_before_and_after(
    text: str, metadata: dict[str, Any], kind: Any, prefix: str
) -> None:
    more = {"index_id": "i"} if kind is IndexNode else {}
    node = kind(text=text, id_="n", metadata=dict(metadata), **more)
    before = node.hash
    shown = {mode: node.get_content(mode) for mode in (MetadataMode.LLM, MetadataMode.EMBED)}
    rerank = by_overlap(metadata_prefix=prefix)
    (ranked,) = rerank.postprocess_nodes([NodeWithScore(node=node, score=0.5)], query_str=QUERY)
    assert node.hash == before
    assert {mode: ranked.node.get_content(mode) for mode in shown} == shown
    # What is added is all that differs, so without it the hash is the old one.
    added = {f"{prefix}{key}" for key in KEYS} - metadata.keys()
    for key in added:
        ranked.node.metadata.pop(key, None)
    assert ranked.node.hash == before
