"""Sockets and the arguments of a call."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever

from haystack_documents import QUERY, Answers, Numbers, castles, store_of
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import Reranker

# ---------------------------------------------------------------------- sockets


def test_run_and_run_async_have_the_same_sockets() -> None:
    ranker: Any = SecondPassRanker("lexical")
    assert inspect.signature(ranker.run) == inspect.signature(ranker.run_async)
    sockets = ranker.__haystack_input__._sockets_dict
    assert {name: socket.is_mandatory for name, socket in sockets.items()} == {
        "query": True,
        "documents": True,
        "top_k": False,
        "score_threshold": False,
        "scale_score": False,
        "depth": False,
        "order": False,
        "context": False,
        "instruction": False,
    }
    outputs = ranker.__haystack_output__._sockets_dict
    assert {name: socket.type for name, socket in outputs.items()} == {
        "documents": list[Document],
        "report": dict[str, Any],
    }


@pytest.mark.parametrize("documents", [[], castles()])
def test_every_output_is_always_returned(documents: list[Document]) -> None:
    for scorer in (Numbers(), Answers(OSError()), Answers([])):
        ranker = SecondPassRanker(Reranker(scorer))
        for result in (
            ranker.run(QUERY, documents),
            asyncio.run(ranker.run_async(QUERY, documents)),
        ):
            assert set(result) == {"documents", "report"}
            assert len(result["documents"]) == len(documents)


def test_it_connects_to_its_neighbours_without_naming_sockets() -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store_of(castles())))
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.add_component("ranker", SecondPassRanker("lexical"))
    pipeline.add_component("again", SecondPassRanker("lexical", top_k=1))
    template = "{% for document in documents %}{{ document.content }}{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.connect("retriever", "joiner")
    pipeline.connect("joiner", "ranker")
    pipeline.connect("ranker", "again")
    pipeline.connect("again", "prompt")
    asked = {name: {"query": QUERY} for name in ("retriever", "ranker", "again")}
    result = pipeline.run(asked, include_outputs_from={"again"})
    assert result["prompt"] == {"prompt": "The castle garden opens at nine."}
    assert result["again"]["report"]["status"] == "ok"


# ---------------------------------------------------------------------- run


@pytest.mark.parametrize("top_k", [0, -3])
def test_top_k_is_checked_as_haystack_does(top_k: int) -> None:
    message = f"^top_k must be > 0, but got {top_k}$"
    with pytest.raises(ValueError, match=message):
        SecondPassRanker("lexical", top_k=top_k)
    ranker = SecondPassRanker("lexical")
    for documents in ([], castles()):
        with pytest.raises(ValueError, match=message):
            ranker.run(QUERY, documents, top_k)
        with pytest.raises(ValueError, match=message):
            asyncio.run(ranker.run_async(QUERY, documents, top_k))
