"""What is added to nodes, and the text that an LLM is shown."""

from __future__ import annotations

import pytest
from llama_index.core.schema import MetadataMode

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_llms import QUERY, nodes_of
from rankings import KEYS

# ---------------------------------------------------------------------- nodes


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
