"""What goes in and comes out."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.schema import (
    ImageNode,
    MetadataMode,
    Node,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import QUERY, ByLength, Failing, Fixed, node, pandas, plain, texts, with_scorer
from rankings import KEYS
from secondpass import Candidate, Reranker, RerankError
from secondpass.ranking.ordering import Tiers


class Answer:
    """Returns one object, whatever it is asked."""

    model_name = "answer"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def score_pairs(self, query: str, documents: list[str]) -> Any:
        return self.answer


# ---------------------------------------------------------------------- no query, no nodes


def test_a_missing_query_is_an_error() -> None:
    reranker = SecondPassRerank("lexical")
    for nodes in (pandas(), []):
        with pytest.raises(ValueError, match="query"):
            reranker.postprocess_nodes(nodes)
        with pytest.raises(ValueError, match="query"):
            asyncio.run(reranker.apostprocess_nodes(nodes))


def test_no_nodes_no_call() -> None:
    scorer = ByLength()
    reranker = with_scorer(scorer)
    assert reranker.postprocess_nodes([], query_str=QUERY) == []
    assert asyncio.run(reranker.apostprocess_nodes([], query_str=QUERY)) == []
    assert reranker.rerank_nodes([], QUERY)[1].status == "ok"
    assert scorer.calls == 0


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


def test_added_keys_are_excluded_from_prompts_and_embeddings() -> None:
    nodes = pandas()
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)
    by_id = {result.node_id: result.node for result in nodes}
    for one in ranked:
        assert one.node.metadata.keys() >= KEYS
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            assert one.node.get_content(mode) == by_id[one.node_id].get_content(mode)


def test_a_second_pass_keeps_the_first_retrieval_score() -> None:
    reranker = SecondPassRerank("lexical")
    first = reranker.postprocess_nodes(pandas(), query_str=QUERY)
    second = reranker.postprocess_nodes(first, query_str="bear")
    assert second[0].node_id == "bear"
    assert [item.metadata["rerank_rank"] for item in second] == [1, 2, 3]
    retrieved = {result.node_id: result.score for result in pandas()}
    for item in second:
        assert item.metadata["retrieval_score"] == retrieved[item.node_id]
        assert sorted(item.node.excluded_llm_metadata_keys) == sorted(KEYS)


def test_foreign_keys_are_kept_and_a_prefix_avoids_them() -> None:
    source = node("red panda", 0.5, metadata={"rerank_score": "theirs", "retrieval_score": 7})
    (out,) = SecondPassRerank("lexical").postprocess_nodes([source], query_str=QUERY)
    assert (out.metadata["rerank_score"], out.metadata["retrieval_score"]) == ("theirs", 7)
    prefixed = SecondPassRerank("lexical", metadata_prefix="secondpass_")
    (out,) = prefixed.postprocess_nodes([source], query_str=QUERY)
    assert out.metadata["rerank_score"] == "theirs"
    assert out.metadata["secondpass_retrieval_score"] == 0.5
    assert "secondpass_rerank_score" in out.node.excluded_embed_metadata_keys


def test_repeated_ids_and_texts_stay_apart() -> None:
    nodes = [node("same", index / 10, id_="same", metadata={"at": index}) for index in range(5)]
    scorer = Fixed(1.0, 5.0, 3.0, 2.0, 4.0)
    ranked = with_scorer(scorer).postprocess_nodes(nodes, query_str=QUERY)
    assert [one.metadata["at"] for one in ranked] == [1, 4, 2, 3, 0]
    assert [one.score for one in ranked] == [5.0, 4.0, 3.0, 2.0, 1.0]
    assert [one.metadata["retrieval_score"] for one in ranked] == [0.1, 0.4, 0.2, 0.3, 0.0]


def test_the_order_is_the_cores() -> None:
    nodes = pandas()
    ranking = Reranker("lexical").rerank(QUERY, [Candidate(result.text) for result in nodes])
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)
    assert [one.node_id for one in ranked] == [nodes[index].node_id for index in ranking.order]
    assert [one.metadata["rerank_score"] for one in ranked] == [i.rerank_score for i in ranking]


@pytest.mark.parametrize("scorer", [Failing(), Answer("5"), Answer([0.1]), Answer(None)])
def test_failing_scorer_keeps_the_input_order(scorer: Any) -> None:
    ranked, report = with_scorer(scorer).rerank_nodes(pandas(), QUERY)
    assert texts(ranked) == texts(pandas())
    assert report.status == "unchanged"
    assert report.issues
    assert [one.metadata["rerank_status"] for one in ranked] == ["unjudged"] * 3
    assert [one.score for one in ranked] == [0.9, 0.8, 0.7]


def test_strict_raises() -> None:
    reranker = SecondPassRerank({"method": Failing(), "log_level": "debug"}, strict=True)
    with pytest.raises(RerankError):
        reranker.postprocess_nodes(pandas(), query_str=QUERY)


lies = st.one_of(
    st.floats(),
    st.floats(0, 1),
    st.integers(-(10**400), 10**400),
    st.none(),
    st.booleans(),
    st.text(max_size=3),
)


@settings(deadline=None, max_examples=settings().max_examples)
@given(st.data())
def test_property_no_node_is_lost_doubled_or_misassigned(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 8))
    answered = data.draw(st.one_of(st.just(count), st.integers(0, 9)))
    scores = data.draw(st.lists(lies, min_size=answered, max_size=answered))
    retrieved = data.draw(
        st.lists(st.none() | st.floats(), min_size=count, max_size=count), label="retrieved"
    )
    depth = data.draw(st.none() | st.integers(1, 9))
    nodes = [
        node(
            data.draw(st.sampled_from(["", "a", "b"])),
            score,
            id_=f"id{index % 3}",
            metadata={"at": index},
        )
        for index, score in enumerate(retrieved)
    ]
    reranker = with_scorer(Answer(scores), depth=depth)
    ranked, _ = reranker.rerank_nodes(nodes, QUERY)

    assert sorted(one.metadata["at"] for one in ranked) == list(range(count))
    given_scores = [one.score for one in ranked]
    assert all(type(score) is float and math.isfinite(score) for score in given_scores)
    assert given_scores == sorted(given_scores, reverse=True)
    assert [one.metadata["rerank_rank"] for one in ranked] == list(range(1, count + 1))
    for one in ranked:
        source = nodes[one.metadata["at"]]
        assert (one.node_id, one.text) == (source.node_id, source.text)
        score = source.score
        kept = score if score is not None and math.isfinite(score) else None
        assert one.metadata["retrieval_score"] == kept
    again = asyncio.run(reranker.apostprocess_nodes(nodes, query_str=QUERY))
    assert plain(again) == plain(ranked)


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
