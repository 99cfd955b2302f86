"""The postprocessor: synchronous and asynchronous calls, and their spans."""

from __future__ import annotations

import asyncio
import math
import threading

from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import QUERY, ByLength, Failing, Fixed, node, pandas, plain, texts, with_scorer


def test_sync_and_async_give_the_same() -> None:
    for scorer in (ByLength(), Failing(), Fixed(0.2, math.nan, 0.9)):
        reranker = with_scorer(scorer)
        sync = reranker.postprocess_nodes(pandas(), query_str=QUERY)
        again = asyncio.run(reranker.apostprocess_nodes(pandas(), query_str=QUERY))
        assert plain(sync) == plain(again)
        first, report = reranker.rerank_nodes(pandas(), QUERY)
        second, other = asyncio.run(reranker.arerank_nodes(pandas(), QueryBundle(QUERY)))
        assert plain(first) == plain(second) == plain(sync)
        assert (report.status, report.issues) == (other.status, other.issues)


def test_sync_works_inside_a_running_loop() -> None:
    async def inside() -> list[NodeWithScore]:
        return SecondPassRerank("lexical").postprocess_nodes(pandas(), query_str=QUERY)

    assert len(asyncio.run(inside())) == 3


def test_async_does_not_hold_the_loop() -> None:
    scorer = ByLength()
    asyncio.run(with_scorer(scorer).apostprocess_nodes(pandas(), query_str=QUERY))
    assert threading.get_ident() not in scorer.threads


def test_both_have_a_span(spans: SimpleSpanHandler) -> None:
    reranker = SecondPassRerank("lexical")
    reranker.postprocess_nodes(pandas(), query_str=QUERY)
    asyncio.run(reranker.apostprocess_nodes(pandas(), query_str=QUERY))
    names = [span.id_.split("-")[0] for span in spans.completed_spans]
    assert names == ["SecondPassRerank._postprocess_nodes", "SecondPassRerank._apostprocess_nodes"]


def test_sixteen_tasks_at_once() -> None:
    reranker = with_scorer(ByLength())

    async def one(number: int) -> list[str]:
        nodes = [node("x" * (1 + (index * 7 + number) % 11), 0.5) for index in range(11)]
        return texts(await reranker.apostprocess_nodes(nodes, query_str=str(number)))

    async def all_of_them() -> list[list[str]]:
        return await asyncio.gather(*(one(number) for number in range(16)))

    expected = ["x" * length for length in range(11, 0, -1)]
    assert asyncio.run(all_of_them()) == [expected] * 16
