"""Asynchronous and concurrent calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from haystack import Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever

from haystack_documents import QUERY, Numbers, castles, numbered, store_of, timeless
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import Reranker


def test_run_async_gives_what_run_gives() -> None:
    ranker = SecondPassRanker("lexical", score_threshold=0.1)
    for documents in (castles(), castles() * 2, []):
        waited = asyncio.run(ranker.run_async(QUERY, documents, 2, order="lost_in_the_middle"))
        assert timeless(waited) == timeless(
            ranker.run(QUERY, documents, 2, order="lost_in_the_middle")
        )


def test_run_async_blocks_no_event_loop() -> None:
    threads: list[int] = []

    class Threads(Numbers):
        def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
            threads.append(threading.get_ident())
            return super().score_pairs(query, documents)

        def warm_up(self) -> None:
            threads.append(threading.get_ident())

        close = warm_up

    async def life() -> int:
        ranker = SecondPassRanker(Reranker(Threads()))
        await ranker.warm_up_async()
        await ranker.run_async(QUERY, numbered(1, 2))
        await ranker.close_async()
        return threading.get_ident()

    loop = asyncio.run(life())
    assert len(threads) == 3
    assert loop not in threads


def test_sixteen_concurrent_calls_give_the_same() -> None:
    ranker = SecondPassRanker("lexical")
    queries = [" ".join(["castle", "garden", "market", "nine"][index % 4 :]) for index in range(16)]
    documents = [castles()[index % 3 :] + castles()[: index % 3] for index in range(16)]
    alone = [ranker.run(*pair) for pair in zip(queries, documents, strict=True)]

    async def together() -> list[dict[str, Any]]:
        calls = (ranker.run_async(*pair) for pair in zip(queries, documents, strict=True))
        return list(await asyncio.gather(*calls))

    assert [*map(timeless, asyncio.run(together()))] == [*map(timeless, alone)]


def test_async_pipeline_gives_the_same() -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store_of(castles())))
    pipeline.add_component("ranker", SecondPassRanker("lexical"))
    pipeline.connect("retriever", "ranker")
    data = {"retriever": {"query": QUERY}, "ranker": {"query": QUERY}}
    waited = asyncio.run(pipeline.run_async(data))
    assert timeless(waited["ranker"]) == timeless(pipeline.run(data)["ranker"])
