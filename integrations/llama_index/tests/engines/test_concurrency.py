"""Engines that share a postprocessor, and methods that block."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.query_engine import RetrieverQueryEngine

from llama_engines import (
    QUERY,
    TEXTS,
    TIMEOUT,
    TOOLS,
    Retrieved,
    Scripted,
    by_overlap,
    echo,
    engine_of,
    memory,
    nodes_of,
)
from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import plain

QUERIES = [*TEXTS.values(), QUERY, "red fox", "tea leaves", "night owl"]


def engines_that_share(postprocessor: SecondPassRerank) -> list[RetrieverQueryEngine]:
    names = list(TEXTS)
    return [
        engine_of(
            Retrieved(*nodes_of(*names[index:], *names[:index])),
            postprocessor,
            response_mode="no_text",
        )
        for index in range(len(names))
    ]


@pytest.mark.parametrize("shared", [by_overlap, lambda: SecondPassRerank("lexical", top_n=3)])
def test_engines_share_one_postprocessor_in_threads_and_tasks(
    shared: Callable[[], SecondPassRerank],
) -> None:
    postprocessor = shared()
    engines = engines_that_share(postprocessor)
    work = [(engines[index % len(engines)], QUERIES[index % len(QUERIES)]) for index in range(32)]
    expected = [plain(engine.query(query).source_nodes) for engine, query in work]
    assert len({json.dumps(one) for one in expected}) > 8  # not all the same

    with ThreadPoolExecutor(8) as threads:
        in_threads = list(threads.map(lambda one: plain(one[0].query(one[1]).source_nodes), work))
    assert in_threads == expected

    async def tasks() -> list[Any]:
        limit = asyncio.Semaphore(16)

        async def one(engine: RetrieverQueryEngine, query: str) -> Any:
            async with limit:
                return plain((await engine.aquery(query)).source_nodes)

        return await asyncio.gather(*(one(engine, query) for engine, query in work))

    assert asyncio.run(tasks()) == expected
    with ThreadPoolExecutor(2) as threads:  # a loop in each of several threads
        for found in threads.map(lambda _: asyncio.run(tasks()), range(2)):
            assert found == expected


def listed(prompt: str) -> str:
    """A listwise judge: the longest first."""
    shown = [part.split('">', 1) for part in prompt.split('<doc id="')[1:]]
    longest = sorted(shown, key=lambda one: -len(one[1].split("</doc>")[0]))
    return json.dumps({"ranking": [label for label, _ in longest]})


class Waiting:
    """Blocks its thread until it may go on."""

    model_name = "waiting"

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.released = False

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        self.released = self.go_on.wait(TIMEOUT)
        return [float(index) for index in range(len(documents))]

    def listed(self, prompt: str) -> str:
        self.released = self.go_on.wait(TIMEOUT)
        return listed(prompt)


def from_a_scorer(waiting: Waiting) -> SecondPassRerank:
    return by_overlap(waiting)


def from_an_llm(waiting: Waiting) -> SecondPassRerank:
    return SecondPassRerank({"method": "listwise"}, llm=Scripted(script=waiting.listed))


ASYNC: dict[str, Callable[[SecondPassRerank], Awaitable[Any]]] = {
    "apostprocess_nodes": lambda rerank: rerank.apostprocess_nodes(nodes_of(), query_str=QUERY),
    "query engine": lambda rerank: engine_of(Retrieved(*nodes_of()), rerank).aquery(QUERY),
    "chat engine": lambda rerank: ContextChatEngine.from_defaults(
        Retrieved(*nodes_of()), llm=echo(), memory=memory(), node_postprocessors=[rerank]
    ).achat(QUERY),
    "tool": lambda rerank: TOOLS["retriever"](rerank).acall(QUERY),
}


@pytest.mark.parametrize("work", ASYNC.values(), ids=ASYNC)
@pytest.mark.parametrize("blocking", [from_a_scorer, from_an_llm])
def test_a_method_that_blocks_does_not_hold_the_loop(
    blocking: Callable[[Waiting], SecondPassRerank],
    work: Callable[[SecondPassRerank], Awaitable[Any]],
) -> None:
    waiting = Waiting()

    async def go() -> int:
        ticks = 0
        ranking = asyncio.ensure_future(work(blocking(waiting)))
        while not ranking.done():
            await asyncio.sleep(0.001)
            ticks += 1
            if ticks == 3:  # the loop ran meanwhile, or this would not be reached
                waiting.go_on.set()
        await ranking
        return ticks

    assert asyncio.run(go()) >= 3
    assert waiting.released
