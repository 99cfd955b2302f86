"""Concurrent calls, and spans of the LLM."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler

from llama_llms import QUERY, asking, nodes_of, scripted


@pytest.fixture
def spans() -> Iterator[SimpleSpanHandler]:
    root, handler = get_dispatcher(), SimpleSpanHandler()
    root.span_handlers.append(handler)
    yield handler
    root.span_handlers.remove(handler)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_spans_of_the_llm_are_inside_ours(asynchronous: bool, spans: SimpleSpanHandler) -> None:
    reranker = asking("graded", scripted(), choice_batch_size=2)
    if asynchronous:
        asyncio.run(reranker.apostprocess_nodes(nodes_of(), query_str=QUERY))
    else:
        reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
    by_id = {span.id_: span for span in spans.completed_spans}
    outer = [id_ for id_ in by_id if id_.startswith("SecondPassRerank.")]
    assert len(outer) == 1
    assert by_id[outer[0]].parent_id is None
    inner = [span for span in by_id.values() if span.id_.startswith("Scripted.chat")]
    assert len(inner) == 3
    for span in inner:
        while span.parent_id in by_id and span.id_ != outer[0]:
            span = by_id[span.parent_id]  # noqa: PLW2901 - up to the root
        assert span.id_ == outer[0]
