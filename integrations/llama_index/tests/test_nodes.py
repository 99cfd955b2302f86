"""What goes in and comes out."""

from __future__ import annotations

from typing import Any

from llama_index.core.schema import (
    ImageNode,
    Node,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import QUERY, node, pandas, plain
from secondpass.ordering import Tiers

# ---------------------------------------------------------------------- what goes in and comes out


def test_inputs_are_never_mutated() -> None:
    nodes = pandas()
    before = plain(nodes)
    same = [result.node for result in nodes]
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)
    for one in ranked:
        one.score = -1.0
        one.node.metadata["new"] = 1
        one.node.excluded_llm_metadata_keys.append("new")
        one.node.excluded_embed_metadata_keys.append("new")
        one.node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="other")
        one.node.set_content("another text")
    assert plain(nodes) == before
    assert all(result.node is node for result, node in zip(nodes, same, strict=True))


def test_id_relationships_metadata_and_type_are_kept() -> None:
    related = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="book")}
    tags = ["a", "b"]
    metadata = {"page": 0, "empty": "", "none": None, "tags": tags}
    source = node("red panda", 0.5, id_="n", relationships=related, embedding=[1.0, 2.0])
    source.node.metadata = metadata
    source.node.excluded_llm_metadata_keys = ["page"]
    (ranked,) = SecondPassRerank("lexical").postprocess_nodes([source], query_str=QUERY)
    out = ranked.node
    assert type(out) is TextNode
    assert (out.node_id, out.relationships, out.embedding) == ("n", related, [1.0, 2.0])
    assert {key: out.metadata[key] for key in metadata} == metadata
    assert out.metadata["tags"] is source.node.metadata["tags"]
    assert out.excluded_llm_metadata_keys[0] == "page"


class Found(NodeWithScore):
    """What a retriever of one's own may return."""

    shard: str


def test_a_scored_node_stays_of_its_class(events: list[Any]) -> None:
    nodes = [
        Found(node=result.node, score=result.score, shard=result.node_id) for result in pandas()
    ]
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)
    for group in (ranked, events[0].nodes, events[-1].nodes):
        assert {(type(one), one.shard) for one in group} == {(Found, one.node_id) for one in nodes}
        assert all(one.shard == one.node_id for one in group)
    assert not any(one is other for one in ranked for other in nodes)


def test_tiers_alone_order_nodes() -> None:
    tiers = Tiers(field="level", tiers=["easy", "hard"])
    nodes = [
        NodeWithScore(node=TextNode(text="1", metadata={"level": "hard"})),
        NodeWithScore(node=Node(metadata={"level": "easy"})),
        NodeWithScore(node=TextNode(text="3")),
        NodeWithScore(node=ImageNode(metadata={"level": "easy"})),
    ]
    assert [nodes.index(scored) for scored in tiers(nodes)] == [1, 3, 0, 2]
    bare = [scored.node for scored in nodes]
    assert [bare.index(found) for found in tiers(bare)] == [1, 3, 0, 2]
