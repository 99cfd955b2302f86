"""Nodes that fit a budget of tokens, in real engines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core import Document, Settings
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from llama_index.postprocessor.secondpass import SecondPassRerank
from secondpass.adapters.shortening import SOURCES_KEY
from secondpass.errors import ConfigurationError

QUERY = "Who has red apples?"
TEXT = "We saw trees. They had red apples. It rained. Some apples were green. The end."


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    """LlamaIndex's tokenizer is one token a word."""
    monkeypatch.setattr(Settings, "_tokenizer", None)
    Settings.tokenizer = str.split
    monkeypatch.setattr(Settings, "_llm", MockLLM())


def scored(*nodes: Any) -> list[NodeWithScore]:
    return [NodeWithScore(node=node, score=0.5) for node in nodes]


def rerank(max_tokens: int | None, method: str = "embedded", **settings: Any) -> SecondPassRerank:
    return SecondPassRerank({"method": {"type": method}}, max_tokens=max_tokens, **settings)


@pytest.mark.parametrize("mode", [MetadataMode.NONE, MetadataMode.LLM])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_node_is_shortened_to_its_best_sentences(mode: Any, asynchronous: bool) -> None:
    node = TextNode(text=TEXT, metadata={"page": "one"})
    postprocessor = rerank(8, metadata_mode=mode)
    if asynchronous:
        found, _ = asyncio.run(postprocessor.arerank_nodes(scored(node), QUERY))
    else:
        found, _ = postprocessor.rerank_nodes(scored(node), QUERY)
    text, metadata = found[0].node.get_content(), found[0].node.metadata
    assert "They had red apples." in text
    assert len(text.split()) <= 8
    (source,) = metadata[SOURCES_KEY]
    parts = [TEXT[start:stop] for start, stop in source["spans"]]
    assert source["id"] == node.node_id == found[0].node.node_id
    assert " […] ".join(parts) in text
    assert SOURCES_KEY not in found[0].node.get_content(MetadataMode.LLM)
    assert (node.text, node.metadata) == (TEXT, {"page": "one"})


def test_what_does_not_fit_is_in_the_report() -> None:
    nodes = scored(*(TextNode(text=text) for text in ("red apples", "red " * 9, "red apples")))
    found, report = rerank(5, "lexical").rerank_nodes(nodes, "red apples")
    assert [each.node.get_content() for each in found] == ["red apples"]
    assert {name: len(left) for name, left in report.left_out.items()} == {
        "max_tokens": 1, "repeated": 1,
    }  # fmt: skip


@pytest.mark.parametrize("overlap", [0, 5])
def test_what_chunks_of_a_splitter_share_is_kept_once(overlap: int) -> None:
    splitter = SentenceSplitter(chunk_size=12, chunk_overlap=overlap, tokenizer=str.split)
    chunks = splitter.get_nodes_from_documents([Document(text=TEXT)])
    assert len(chunks) > 1
    found, _ = rerank(100).rerank_nodes(scored(*chunks[::-1]), QUERY)
    texts = {each.node.node_id: each.node.get_content() for each in found}
    kept = " ".join(texts[chunk.node_id] for chunk in chunks).replace("[…]", "")
    assert kept.split() == TEXT.split()


@pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize"])
def test_a_synthesizer_shows_it_unchanged(mode: Any) -> None:
    nodes = scored(TextNode(text=TEXT), TextNode(text="Stones are grey."))
    found = rerank(8).postprocess_nodes(nodes, query_str=QUERY)
    answer = str(get_response_synthesizer(response_mode=mode).synthesize(QUERY, found))
    assert found[0].node.get_content() in answer
    assert "We saw trees." not in answer


def test_it_is_saved_and_assigned() -> None:
    postprocessor = rerank(8)
    assert SecondPassRerank.from_json(postprocessor.to_json()).max_tokens == 8
    postprocessor.max_tokens = 100
    (found,) = postprocessor.postprocess_nodes(scored(TextNode(text=TEXT)), query_str=QUERY)
    assert found.node.get_content() == TEXT
    with pytest.raises(ConfigurationError, match="max_tokens"):
        postprocessor.max_tokens = 0
