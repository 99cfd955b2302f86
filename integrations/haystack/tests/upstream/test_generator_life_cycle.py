"""Chat generators: warming up, closing, event loops."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from haystack import Pipeline
from haystack.dataclasses import ChatMessage

import haystack_two
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_rankers import BY_INDEX, QUERY, Says, four, ids, indices


class Life(Says):
    """Notes what is called, and in which loop or thread."""

    def __init__(self) -> None:
        super().__init__(indices(2, 1, 3, 4))
        self.events: list[tuple[str, Any]] = []

    def note(self, what: str) -> None:
        try:
            where: Any = asyncio.get_running_loop()
        except RuntimeError:
            where = threading.get_ident()
        self.events.append((what, where))

    @property
    def called(self) -> list[str]:
        return [what for what, _ in self.events]


class SyncLife(Life):
    def warm_up(self) -> None:
        self.note("warm_up")

    def close(self) -> None:
        self.note("close")


class AsyncLife(Life):
    async def warm_up_async(self) -> None:
        self.note("warm_up_async")

    async def close_async(self) -> None:
        self.note("close_async")

    async def run_async(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.note("run_async")
        return self.run(messages)


class BothLife(AsyncLife):
    def warm_up(self) -> None:
        self.note("warm_up")

    def close(self) -> None:
        self.note("close")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (SyncLife, ["warm_up", "close"]),
        (AsyncLife, []),
        (BothLife, ["warm_up", "close"]),
        (Life, []),
    ],
)
def test_synchronous_life_calls_synchronous_methods_only(
    kind: type[Life], expected: list[str]
) -> None:
    generator = kind()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)
    assert generator.events == []
    for _ in range(2):
        ranker.warm_up()
    assert ids(ranker.run(QUERY, four())) == [*"bacd"]
    for _ in range(2):
        ranker.close()
    assert generator.called == expected
    assert all(where == threading.get_ident() for _, where in generator.events)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (SyncLife, ["warm_up", "close"]),
        (AsyncLife, ["warm_up_async", "run_async", "close_async"]),
        (BothLife, ["warm_up_async", "run_async", "close_async"]),
        (Life, []),
    ],
)
def test_async_methods_run_in_the_serving_loop(kind: type[Life], expected: list[str]) -> None:
    generator = kind()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)

    async def life() -> tuple[Any, int]:
        for _ in range(2):
            await ranker.warm_up_async()
        assert ids(await ranker.run_async(QUERY, four())) == [*"bacd"]
        for _ in range(2):
            await ranker.close_async()
        return asyncio.get_running_loop(), threading.get_ident()

    loop, thread = asyncio.run(life())
    assert generator.called == expected
    for what, where in generator.events:
        if what.endswith("_async"):
            assert where is loop
        else:
            assert type(where) is int
            assert where != thread


def test_warmed_up_again_after_close() -> None:
    generator = BothLife()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)
    for _ in range(2):
        ranker.warm_up()
        ranker.close()
    assert generator.called == ["warm_up", "close"] * 2


def test_a_generator_used_both_ways_is_warmed_up_both_ways() -> None:
    generator = BothLife()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)
    ranker.warm_up()
    asyncio.run(ranker.warm_up_async())
    ranker.warm_up()
    assert generator.called == ["warm_up", "warm_up_async"]


@pytest.mark.parametrize("first", ["close", "close_async"])
def test_a_generator_used_both_ways_is_closed_both_ways(first: str) -> None:
    generator = BothLife()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)

    async def life() -> None:
        ranker.warm_up()
        await ranker.warm_up_async()
        if first == "close":
            ranker.close()
        await ranker.close_async()
        if first != "close":
            ranker.close()

    asyncio.run(life())
    assert {"close", "close_async"} <= set(generator.called)


class Unclosable(Life):
    """As the generators of Haystack 2."""

    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.note("run")
        return super().run(messages)

    async def run_async(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.note("run_async")
        return Life.run(self, messages)


class ClosedAtOnce(Unclosable):
    def close(self) -> None:
        self.note("close")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (AsyncLife, ["run_async", "close_async"] * 2),
        (ClosedAtOnce, ["run_async", "close"] * 2),
        (Unclosable, ["run_async", "run"]),
    ],
)
def test_a_second_event_loop_needs_a_closed_client(kind: type[Life], expected: list[str]) -> None:
    generator = kind()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)

    async def life() -> None:
        assert ids(await ranker.run_async(QUERY, four())) == [*"bacd"]
        await ranker.close_async()

    for _ in range(2):
        asyncio.run(life())
    assert generator.called == expected


@pytest.mark.parametrize("asynchronous", [False, True])
def test_pipelines_see_to_the_life_of_the_generator(asynchronous: bool) -> None:
    generator = BothLife()
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker(BY_INDEX, chat_generator=generator))
    data = {"ranker": {"query": QUERY, "documents": four()}}

    async def life() -> None:
        for _ in range(2):
            await pipeline.run_async(data)
        await pipeline.close_async()

    if asynchronous:
        asyncio.run(life())
        if haystack_two.IS_INSTALLED:  # its pipelines warm up by `warm_up` alone
            assert generator.called == ["warm_up", "run_async", "run_async", "close_async", "close"]
        else:
            assert generator.called == ["warm_up_async", "run_async", "run_async", "close_async"]
    else:
        for _ in range(2):
            pipeline.run(data)
        pipeline.close()
        assert generator.called == ["warm_up", "close"]


@pytest.mark.parametrize("strict", [False, True])
def test_warm_up_raises_only_under_raise_on_failure(
    strict: bool,
) -> None:
    class Broken(Says):
        def warm_up(self) -> None:
            raise ValueError("no key")

    ranker = SecondPassRanker(
        BY_INDEX, chat_generator=Broken(error=ValueError("no key")), raise_on_failure=strict
    )
    if strict:
        with pytest.raises(ValueError, match="no key"):
            ranker.warm_up()
        with pytest.raises(ValueError, match="no key"):
            asyncio.run(ranker.warm_up_async())
    else:
        ranker.warm_up()
        asyncio.run(ranker.warm_up_async())
        assert ranker.run(QUERY, four())["report"]["status"] == "unchanged"
