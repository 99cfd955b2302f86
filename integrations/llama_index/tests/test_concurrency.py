"""Concurrent calls, and spans of the LLM."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.schema import NodeWithScore

from llama_llms import QUERY, Said, asking, honest, lengths, nodes_of, scripted
from llama_nodes import plain


@pytest.fixture
def spans() -> Iterator[SimpleSpanHandler]:
    root, handler = get_dispatcher(), SimpleSpanHandler()
    root.span_handlers.append(handler)
    yield handler
    root.span_handlers.remove(handler)


@pytest.mark.parametrize("kind", ["graded", "listwise"])
def test_tasks_are_as_runs_one_by_one(kind: str) -> None:
    def says(passages: dict[str, str], words: str) -> Said:
        # One fault in some, so that reports differ.
        return RuntimeError("down") if f"{QUERY} 5" in words else honest(passages, words)

    reranker = asking(kind, scripted(says, usage={"prompt_tokens": 11}), choice_batch_size=4)

    def of(number: int) -> list[NodeWithScore]:
        return nodes_of([1 + (index * 7 + number) % 10 for index in range(1 + number % 11)])

    async def one(number: int) -> Any:
        return await reranker.arerank_nodes(of(number), f"{QUERY} {number}")

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(one(number) for number in range(16)))

    for number, (nodes, report) in enumerate(asyncio.run(all_of_them())):
        expected, alone = reranker.rerank_nodes(of(number), f"{QUERY} {number}")
        assert plain(nodes) == plain(expected)
        assert {**report.to_dict(), "seconds": 0} == {**alone.to_dict(), "seconds": 0}
        ids = {id_ for issue in report.issues for id_ in issue.ids}
        assert ids <= {node.node_id for node in nodes}


def test_threads_may_share_one() -> None:
    reranker = asking("listwise", scripted(), choice_batch_size=3)
    results: dict[int, list[int]] = {}

    def go(number: int) -> None:
        mixed = [1 + (index * 3 + number) % 8 for index in range(8)]
        results[number] = lengths(reranker.postprocess_nodes(nodes_of(mixed), None, str(number)))

    threads = [threading.Thread(target=go, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Windows of three carry the best to the top; the rest may lag behind.
    assert [results[number][0] for number in range(8)] == [8] * 8
    assert all(sorted(one) == [*range(1, 9)] for one in results.values())


def test_async_calls_use_the_callers_loop() -> None:
    llm = scripted()
    reranker = asking("graded", llm)

    async def inside() -> Any:
        first = await reranker.apostprocess_nodes(nodes_of(), query_str=QUERY)
        second = reranker.postprocess_nodes(nodes_of(), query_str=QUERY)  # as evaluators do
        assert plain(first) == plain(second)
        return asyncio.get_running_loop()

    loop = asyncio.run(inside())
    assert llm._loops == [loop]
    assert llm._required == [True, True]


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
