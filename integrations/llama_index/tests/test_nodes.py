"""Nodes of every kind: what is kept, added, shown and scored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.schema import (
    Document,
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_objects import PANDA, QUERY, node, nodes_of, pandas, plain
from rankings import KEYS
from sampling import examples
from secondpass import Reranker
from secondpass.questions import ListScores

# ---------------------------------------------------------------------- what goes in and comes out


def test_inputs_are_never_mutated() -> None:
    nodes = pandas()
    before = plain(nodes)
    same = [result.node for result in nodes]
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=PANDA)
    for one in ranked:
        one.score = -1.0
        one.node.metadata["new"] = 1
        one.node.excluded_llm_metadata_keys.append("new")
        one.node.excluded_embed_metadata_keys.append("new")
        one.node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="other")
        one.node.set_content("another text")
    assert plain(nodes) == before
    assert all(result.node is node for result, node in zip(nodes, same, strict=True))


class Found(NodeWithScore):
    """What a retriever of one's own may return."""

    shard: str


def test_a_scored_node_stays_of_its_class(events: list[Any]) -> None:
    nodes = [
        Found(node=result.node, score=result.score, shard=result.node_id) for result in pandas()
    ]
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=PANDA)
    for group in (ranked, events[0].nodes, events[-1].nodes):
        assert {(type(one), one.shard) for one in group} == {(Found, one.node_id) for one in nodes}
        assert all(one.shard == one.node_id for one in group)
    assert not any(one is other for one in ranked for other in nodes)


# ---------------------------------------------------------------------- nodes


@pytest.mark.parametrize("prefix", ["", "x_"])
def test_the_retrieval_score_is_kept_or_not(prefix: str) -> None:
    name = f"{prefix}retrieval_score"
    kept = SecondPassRerank("lexical", metadata_prefix=prefix)
    left = SecondPassRerank("lexical", metadata_prefix=prefix, keep_retrieval_score=False)
    for one in kept.postprocess_nodes(nodes_of(), query_str=QUERY):
        assert one.metadata[name] == 1 - one.metadata["at"] / 100
        assert name in one.node.excluded_llm_metadata_keys
    for one in left.postprocess_nodes(nodes_of(), query_str=QUERY):
        assert name not in one.metadata
        assert name not in one.node.excluded_llm_metadata_keys
    # What an earlier pass or something else has kept stays, whichever comes behind.
    first = kept.postprocess_nodes(nodes_of(), query_str=QUERY)
    for one in left.postprocess_nodes(first, query_str=QUERY):
        assert one.metadata[name] == 1 - one.metadata["at"] / 100
    left.keep_retrieval_score = True
    assert name in left.postprocess_nodes(nodes_of(), query_str=QUERY)[0].metadata


@pytest.mark.parametrize(
    ("resource", "status"),
    [
        (MediaResource(text="red panda"), "scored"),
        (MediaResource(text=""), "unjudged"),
        (MediaResource(data=b"eA=="), "unjudged"),
        (None, "unjudged"),
    ],
)
def test_a_resource_is_judged_where_it_has_a_text(
    resource: MediaResource | None, status: str
) -> None:
    nodes = [*pandas(), NodeWithScore(node=Node(id_="odd", text_resource=resource))]
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=PANDA)
    (odd,) = [one for one in ranked if one.node_id == "odd"]
    assert odd.metadata["rerank_status"] == status


class Spans:
    """Says that the last three characters of each text match best."""

    model_name = "spans"

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        raise AssertionError("score_lists is there")

    def score_lists(self, requests: Any, deadline: float | None) -> Any:
        yield [
            ListScores([1.0] * len(texts), spans=[(len(text) - 3, len(text)) for text in texts])
            for _, texts in requests
        ]


@pytest.mark.parametrize("mode", list(MetadataMode))
@pytest.mark.parametrize(
    ("text", "span"), [("a text", [3, 6]), ("", None), ("ext", [0, 3]), (" \n", None)]
)
def test_spans_are_those_of_the_text_without_metadata(
    mode: MetadataMode, text: str, span: list[int] | None
) -> None:
    source = node(text, metadata={"title": "red"})
    rerank = SecondPassRerank(Reranker(Spans()), metadata_mode=mode)
    (result,) = rerank.postprocess_nodes([source], None, "q")
    assert result.metadata.get("rerank_span") == span
    assert ("rerank_span" in result.node.excluded_llm_metadata_keys) == (span is not None)


plain_values = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


@examples(8)
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
    rerank = SecondPassRerank("lexical", metadata_prefix=prefix)
    (ranked,) = rerank.postprocess_nodes([NodeWithScore(node=node, score=0.5)], query_str=QUERY)
    assert node.hash == before
    assert {mode: ranked.node.get_content(mode) for mode in shown} == shown
    # What is added is all that differs, so without it the hash is the old one.
    added = {f"{prefix}{key}" for key in KEYS} - metadata.keys()
    for key in added:
        ranked.node.metadata.pop(key, None)
    assert ranked.node.hash == before
