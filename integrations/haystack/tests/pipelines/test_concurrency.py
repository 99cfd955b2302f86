"""Concurrent calls and event loops."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from haystack import Pipeline, component
from haystack.components.generators.chat import (
    FallbackChatGenerator,
    MockChatGenerator,
    OpenAIChatGenerator,
)
from haystack.components.joiners import DocumentJoiner
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

from fake_provider import FakeProvider
from haystack_documents import ids, timeless
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_pipelines import (
    QUERY,
    BothSides,
    ByWorth,
    Result,
    Way,
    asking,
    calls,
    every_way,
    in_order,
    numbered,
    retrieving,
    worth,
)


@component
class SyncOnly:
    """Has no asynchronous side."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> Result:
        time.sleep(0.002)
        return {"replies": [ChatMessage.from_assistant(in_order(messages))]}


MANY: dict[str, Callable[[], SecondPassRanker]] = {
    "scorer": lambda: SecondPassRanker({"method": ByWorth(0.002)}, top_k=5),
    "chat generator": lambda: SecondPassRanker(
        {"method": "listwise"}, chat_generator=BothSides(), raise_on_failure=True
    ),
    "sync chat generator": lambda: SecondPassRanker(
        {"method": {"type": "listwise", "window": 6, "stride": 3}}, chat_generator=SyncOnly()
    ),
    "cascade": lambda: SecondPassRanker(
        {
            "method": {
                "type": "cascade",
                "stages": [ByWorth(0.002), {"type": "listwise", "depth": 4}],
            },
        },
        chat_generator=BothSides(),
    ),
}
every_kind = pytest.mark.parametrize("kind", MANY)


@cache
def alone(kind: str) -> list[Result]:
    """The results of the calls, each by a component of its own."""
    return [timeless(MANY[kind]().run(*call)) for call in calls()]


# ---------------------------------------------------------------------- many at once


@every_kind
def test_one_pipeline_is_run_many_times_at_once(kind: str) -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", MANY[kind]())
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.connect("ranker.documents", "joiner.documents")
    inputs = [{"ranker": {"query": query, "documents": found}} for query, found in calls()]
    wanted = [ids(result["documents"]) for result in alone(kind)]

    async def together() -> list[Result]:
        return await asyncio.gather(*(pipeline.run_async(data) for data in inputs))

    assert [ids(one["joiner"]["documents"]) for one in asyncio.run(together())] == wanted


# ---------------------------------------------------------------------- event loops


@every_kind
def test_run_works_while_an_event_loop_runs_in_the_same_thread(kind: str) -> None:
    pipeline = Pipeline()
    ranker = MANY[kind]()
    pipeline.add_component("ranker", ranker)
    query, documents = calls()[3]
    wanted = ids(alone(kind)[3]["documents"])

    async def notebook() -> None:
        # As a cell of a notebook does: a synchronous call where a loop is running.
        data = {"ranker": {"query": query, "documents": documents}}
        assert ids(pipeline.run(data)["ranker"]["documents"]) == wanted
        assert ids((await pipeline.run_async(data))["ranker"]["documents"]) == wanted
        assert ids(pipeline.run(data)["ranker"]["documents"]) == wanted

    asyncio.run(notebook())


@contextmanager
def asking_a_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Pipeline, Result]]:
    """A pipeline whose chat generator is a real client of a server here, and its inputs."""
    monkeypatch.setenv("A_SECRET_KEY", "sk-very-secret")
    with FakeProvider() as provider:
        generator = OpenAIChatGenerator(
            api_key=Secret.from_env_var("A_SECRET_KEY"),
            api_base_url=provider.base_url("openai"),
            model="some-model",
            max_retries=0,
        )
        pipeline = Pipeline()
        ranker = SecondPassRanker({"method": "graded"}, chat_generator=generator)
        pipeline.add_component("ranker", ranker)
        try:
            yield pipeline, {"ranker": {"query": QUERY, "documents": numbered(2, 9, 5)}}
        finally:
            pipeline.close()


@every_way
def test_chain_of_generators_answers_when_its_first_fails(way: Way) -> None:
    def fails(messages: list[ChatMessage]) -> str:
        raise OSError("sk-secret is no key")

    generators: Any = [MockChatGenerator(response_fn=reply) for reply in (fails, in_order)]
    chain = FallbackChatGenerator(generators)
    ranker = SecondPassRanker({"method": "listwise"}, chat_generator=chain)
    result = way(retrieving(ranker), asking("retriever", "ranker"))["ranker"]
    assert result["report"]["status"] == "ok"
    best = sorted(result["documents"], key=lambda one: -worth(QUERY, one.content or ""))
    assert ids(result["documents"]) == ids(best)


def results_in_every_way(monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    with asking_a_server(monkeypatch) as (pipeline, data):

        async def life() -> list[Result]:
            results = [await pipeline.run_async(data)]
            async for one in pipeline.run_async_generator(data):
                results.append(one)
            if hasattr(pipeline, "stream"):  # since Haystack 3
                handle = pipeline.stream(data)
                async for _ in handle:
                    pass
                results.append(handle.result)
            # A client of an event loop has to be closed in it, as in any pipeline.
            await pipeline.close_async()
            return results

        return [*asyncio.run(life()), pipeline.run(data), *asyncio.run(life())]


# Generators of Haystack 2 cannot be closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_real_client_is_asked_in_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    results = results_in_every_way(monkeypatch)
    gc.collect()  # as below
    reports = [result["ranker"]["report"] for result in results]
    assert [report["status"] for report in reports] == ["ok"] * len(reports)
    assert all(report["usage"]["input_tokens"] for report in reports)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_unclosed_client_serves_a_second_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with asking_a_server(monkeypatch) as (pipeline, data):
        results = [asyncio.run(pipeline.run_async(data)) for _ in range(3)]
    del pipeline, data
    gc.collect()  # or connections of closed loops would be complained of in another test
    assert [result["ranker"]["report"]["status"] for result in results] == ["ok"] * 3
