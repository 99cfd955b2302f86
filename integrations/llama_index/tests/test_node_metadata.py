"""What is added to nodes, and the text that an LLM is shown."""

from __future__ import annotations

import pytest
from llama_index.core.schema import ImageNode, MetadataMode, NodeWithScore

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_llms import BEST_FIRST, QUERY, Scripted, asking, lengths, nodes_of, scripted
from rankings import KEYS

# ---------------------------------------------------------------------- nodes


@pytest.mark.parametrize("kind", ["graded", "listwise"])
@pytest.mark.parametrize("labels", ["opaque", "id", "index0", "index1"])
def test_nodes_of_one_id_are_kept_apart_by_an_llm(kind: str, labels: str) -> None:
    llm = scripted(calls_tools=False)
    config = {"method": {"type": kind, "labels": labels}}
    nodes = nodes_of()
    for node in nodes:
        node.node.id_ = "same"
    ranked, report = SecondPassRerank(config, llm=llm).rerank_nodes(nodes, QUERY)
    assert report.status == "ok"
    assert lengths(ranked) == BEST_FIRST
    assert [one.metadata["at"] for one in ranked] == [3, 1, 4, 0, 2]
    assert {one.node_id for one in ranked} == {"same"}


@pytest.mark.parametrize("prefix", ["", "secondpass_"])
def test_added_keys_appear_only_in_mode_all(prefix: str) -> None:
    reranker = SecondPassRerank("lexical", metadata_prefix=prefix)
    nodes = nodes_of(title="Wombats")
    before = {node.node_id: node.node for node in nodes}
    added = {f"{prefix}{name}" for name in KEYS}
    for node in reranker.postprocess_nodes(nodes, query_str=QUERY):
        assert set(node.metadata) - set(before[node.node_id].metadata) == added
        for mode in (MetadataMode.LLM, MetadataMode.EMBED, MetadataMode.NONE):
            assert node.node.get_content(mode) == before[node.node_id].get_content(mode)
        assert f"{prefix}rerank_rank" in node.node.get_content(MetadataMode.ALL)


def test_the_blended_score_is_kept_beside_a_tail() -> None:
    blend = {"original": 0.5, "normalize": "none"}
    config = {"method": "graded", "depth": 2, "blend": blend}
    reranker = SecondPassRerank(config, llm=Scripted())
    ranked = reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
    assert [one.score for one in ranked] == [1.0, 0.8, 0.6, 0.4, 0.2]
    finals = [one.metadata["rerank_final_score"] for one in ranked]
    assert finals[:2] == [pytest.approx(0.5 * 0.99 + 0.5 * 0.7), pytest.approx(0.5 + 0.5 * 0.3)]
    assert finals[2:] == [None, None, None]


@pytest.mark.parametrize("prefix", ["", "x_"])
def test_the_retrieval_score_is_kept_or_not(prefix: str) -> None:
    name = f"{prefix}retrieval_score"
    kept = SecondPassRerank("lexical", metadata_prefix=prefix)
    left = SecondPassRerank("lexical", metadata_prefix=prefix, keep_retrieval_score=False)
    for node in kept.postprocess_nodes(nodes_of(), query_str=QUERY):
        assert node.metadata[name] == 1 - node.metadata["at"] / 100
        assert name in node.node.excluded_llm_metadata_keys
    for node in left.postprocess_nodes(nodes_of(), query_str=QUERY):
        assert name not in node.metadata
        assert name not in node.node.excluded_llm_metadata_keys
    # What an earlier pass or something else has kept stays, whichever comes behind.
    first = kept.postprocess_nodes(nodes_of(), query_str=QUERY)
    for node in left.postprocess_nodes(first, query_str=QUERY):
        assert node.metadata[name] == 1 - node.metadata["at"] / 100
    left.keep_retrieval_score = True
    assert name in left.postprocess_nodes(nodes_of(), query_str=QUERY)[0].metadata


# ---------------------------------------------------------------------- the text that is judged


@pytest.mark.parametrize("mode", list(MetadataMode))
def test_an_llm_is_shown_the_text_of_the_mode(mode: MetadataMode) -> None:
    llm = scripted()
    nodes = nodes_of((3, 5), title="Wombats", path="/secret")
    for node in nodes:
        node.node.excluded_llm_metadata_keys = ["path"]
    asking("graded", llm, metadata_mode=mode).postprocess_nodes(nodes, query_str=QUERY)
    words = llm._asked[0][-1].content or ""
    for node in nodes:
        assert f">{node.node.get_content(mode)}</doc>" in words
    assert ("/secret" in words) is (mode in {MetadataMode.ALL, MetadataMode.EMBED})


def test_an_image_without_text_is_not_shown_to_an_llm() -> None:
    llm = scripted()
    image = NodeWithScore(node=ImageNode(image_path="wombat.png"), score=2.0)
    ranked, report = asking("graded", llm).rerank_nodes([image, *nodes_of()], QUERY)
    assert lengths(ranked) == [*BEST_FIRST, 0]
    assert ranked[-1].metadata["rerank_status"] == "unjudged"
    assert report.status == "partial"
    assert (llm._asked[0][-1].content or "").count("<doc ") == 5
