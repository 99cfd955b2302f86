"""Loading, warming up and closing: models, and generators with either interface."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from typing import Any

import pytest
from haystack import Pipeline
from haystack.dataclasses import ChatMessage

import haystack_two
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_objects import BY_INDEX, QUERY, Broken, Says, four, ids, indices, numbered

# ---------------------------------------------------------------------- models


class Unloadable(Broken):
    """Has a model that is not there."""

    def warm_up(self) -> None:
        raise OSError("no such model")


def test_a_model_that_cannot_be_loaded_fails_no_pipeline() -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker({"method": Unloadable()}))
    result = pipeline.run({"ranker": {"query": QUERY, "documents": four()}})["ranker"]
    assert ids(result) == [*"abcd"]
    assert result["report"]["status"] == "unchanged"
    strict = SecondPassRanker({"method": Unloadable()}, raise_on_failure=True)
    for _ in range(2):
        with pytest.raises(OSError, match="no such model"):
            strict.warm_up()
    with pytest.raises(OSError, match="no such model"):
        asyncio.run(strict.warm_up_async())


# ---------------------------------------------------------------------- generators


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


class Closing(Life):
    def close(self) -> None:
        self.note("close")


class SyncLife(Closing):
    def warm_up(self) -> None:
        self.note("warm_up")


class AsyncLife(Life):
    async def warm_up_async(self) -> None:
        self.note("warm_up_async")

    async def close_async(self) -> None:
        self.note("close_async")

    async def run_async(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.note("run_async")
        return self.run(messages)


class BothLife(AsyncLife, SyncLife):
    pass


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


class SlowSync(SyncLife):
    def warm_up(self) -> None:
        super().warm_up()
        time.sleep(0.05)


class SlowAsync(AsyncLife):
    async def warm_up_async(self) -> None:
        await super().warm_up_async()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("kind", [SlowSync, SlowAsync])
def test_concurrent_calls_warm_up_once(kind: type[Life]) -> None:
    generator = kind()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)

    async def four_at_once() -> None:
        await asyncio.gather(*(ranker.warm_up_async() for _ in range(4)))

    for _ in range(2):
        asyncio.run(four_at_once())
    assert len(generator.called) == 1


class Unclosable(Life):
    """As the generators of Haystack 2."""

    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.note("run")
        return super().run(messages)

    async def run_async(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.note("run_async")
        return Life.run(self, messages)


class ClosedAtOnce(Unclosable, Closing):
    pass


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


@pytest.mark.parametrize(
    ("kind", "used", "closed", "expected"),
    [
        (Closing, "run", "close", ["close"]),
        (Closing, "run", "close_async", ["close"]),
        (Closing, "run_async", "close", ["close"]),
        (Closing, "run_async", "close_async", ["close"]),
        (Closing, "warm_up", "close_async", []),
        (AsyncLife, "run", "close_async", ["close_async"]),
        (AsyncLife, "run_async", "close_async", ["close_async"]),
        (AsyncLife, "run_async", "close", []),
        (BothLife, "run", "close", ["close"]),
        (BothLife, "run", "close_async", ["close"]),
        (BothLife, "run_async", "close_async", ["close_async"]),
        (BothLife, "run_async", "close", []),
        (Life, "run", "close_async", []),
    ],
)
def test_used_generators_are_closed(
    kind: type[Life], used: str, closed: str, expected: list[str]
) -> None:
    generator = kind()
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)

    async def life() -> None:
        arguments: dict[str, Any] = {}
        if used.startswith("run"):
            arguments = {"query": QUERY, "documents": four()}
        outcome = getattr(ranker, used)(**arguments)
        if inspect.isawaitable(outcome):
            await outcome
        for _ in range(2):
            outcome = getattr(ranker, closed)()
            if inspect.isawaitable(outcome):
                await outcome

    asyncio.run(life())
    assert [what for what in generator.called if what.startswith("close")] == expected


def test_models_are_closed_where_the_generator_cannot_be() -> None:
    class Unclosed(Closing):
        def close(self) -> None:
            raise OSError("a port")

    class Warm(Broken):
        closed = 0

        def close(self) -> None:
            Warm.closed += 1

            raise ValueError("another error")

    config = {"method": Warm(), "fallback": ["listwise"]}
    ranker = SecondPassRanker(config, chat_generator=Unclosed())
    ranker.run(QUERY, numbered(1, 2))
    with pytest.raises(OSError, match="a port"):
        ranker.close()
    assert Warm.closed == 1


def test_both_interfaces_of_a_generator_are_closed() -> None:
    class Unclosed(BothLife):
        async def close_async(self) -> None:
            await super().close_async()
            raise OSError("a port")

    generator = Unclosed()
    ranker = SecondPassRanker({"method": "listwise"}, chat_generator=generator)

    async def life() -> None:
        ranker.warm_up()
        await ranker.warm_up_async()
        await ranker.close_async()

    with pytest.raises(OSError, match="a port"):
        asyncio.run(life())
    assert generator.called[-2:] == ["close_async", "close"]
