"""The postprocessor: synchronous and asynchronous calls, and their spans."""

from __future__ import annotations

import asyncio

from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import QUERY, pandas


def test_both_have_a_span(spans: SimpleSpanHandler) -> None:
    reranker = SecondPassRerank("lexical")
    reranker.postprocess_nodes(pandas(), query_str=QUERY)
    asyncio.run(reranker.apostprocess_nodes(pandas(), query_str=QUERY))
    names = [span.id_.split("-")[0] for span in spans.completed_spans]
    assert names == ["SecondPassRerank._postprocess_nodes", "SecondPassRerank._apostprocess_nodes"]
