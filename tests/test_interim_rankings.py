"""Interim rankings, as callers get them: the callback of `rerank`, and `astream`."""

import asyncio
import logging
import threading
import time

import pytest

from fakes import ByTable, Model, always, numbered, ranked
from secondpass import InputError, Reranker, RerankError
from secondpass.effects import Judgement
from secondpass.errors import LLMError
from secondpass.strategies.cascade import Cascade, CascadeStage
from secondpass.strategies.listwise import Listwise

DOWN = LLMError("the server failed", "server_error")
TEXTS = numbered([3, 9, 5, 7])


def cascade(second, **settings):
    """A cascade of `lexical`, and a method for its best three; the query is in the last texts."""
    stages = [CascadeStage(ByTable({text: -len(text) for text in TEXTS})), CascadeStage(second, 3)]
    return Reranker(Cascade(stages), log_level="debug", **settings)


class Waiting(Model):
    """Answers when it is released."""

    def __init__(self):
        super().__init__(ranked)
        self.asked, self.released = asyncio.Event(), asyncio.Event()
        self.cancelled = False

    async def complete(self, prompt):
        self.asked.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return await super().complete(prompt)


async def collected(stream):
    return [ranking async for ranking in stream]


def within(seconds, coroutine):
    async def bounded():
        async with asyncio.timeout(seconds):  # in the same task, unlike wait_for
            return await coroutine

    return asyncio.run(bounded())


# ---------------------------------------------------------------------- what is shown, and when


def test_the_first_stage_is_shown_while_the_second_waits():
    async def act():
        model = Waiting()
        reranker = cascade(Listwise(model))
        stream = reranker.astream("q", TEXTS)
        first = await anext(stream)
        await model.asked.wait()  # the second stage began without being waited for
        assert not model.released.is_set()
        assert (first.order, first.report.final) == ((0, 1, 2, 3), False)
        assert first.report.usage.calls == 1
        assert [item.stage_scores for item in first] == [(-9.0,)] * 4
        model.released.set()
        (last,) = await collected(stream)
        assert (last.order, last.report.final) == ((1, 2, 0, 3), True)
        assert last.report.usage.calls == 2

    within(60, act())


def test_the_callback_is_called_before_the_next_stage():
    model = Model(ranked)
    seen = []

    def show(ranking):
        seen.append((ranking, len(model.prompts), threading.current_thread()))

    last = cascade(Listwise(model)).rerank("q", TEXTS, on_interim=show)
    ((first, asked, thread),) = seen
    assert (first.order, first.report.final, asked) == ((0, 1, 2, 3), False, 0)
    assert thread is threading.current_thread()
    assert (last.order, last.report.final) == ((1, 2, 0, 3), True)


# ---------------------------------------------------------------------- ends


async def settled():
    """Wait until only this task is left, a minute at most."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if asyncio.all_tasks() == {asyncio.current_task()}:
            return True
        await asyncio.sleep(0.001)
    return False


@pytest.mark.parametrize("how", ["aclose", "cancel", "collect"])
def test_leaving_cancels_the_work(how):
    async def act():
        model = Waiting()
        stream = cascade(Listwise(model)).astream("q", TEXTS)
        await anext(stream)
        reading = asyncio.ensure_future(anext(stream)) if how == "cancel" else None
        await model.asked.wait()
        if reading is not None:
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        elif how == "aclose":
            await stream.aclose()
        else:
            del stream  # the event loop closes a generator that was collected
        assert await settled()
        assert model.cancelled
        assert model.under_way == 0

    within(60, act())


def test_a_slow_consumer_delays_nothing():
    async def act():
        model = Model(ranked)
        stream = cascade(Listwise(model, window=2, stride=1)).astream("q", TEXTS)
        first = await anext(stream)
        assert await settled()
        assert len(model.prompts) == 2
        return [first, *await collected(stream)]

    rankings = within(60, act())
    assert [ranking.report.final for ranking in rankings] == [False, False, True]


def test_strict_raises_at_the_end_only():
    async def act():
        stream = reranker.astream("q", TEXTS)
        first = await anext(stream)
        with pytest.raises(RerankError) as caught:
            await anext(stream)
        return first, caught.value

    reranker = cascade(Listwise(Model(always(DOWN))), strict=True, limits={"retries": 0})
    first, error = within(60, act())
    assert (first.report.status, first.report.final) == ("ok", False)
    assert error.ranking.report.status == "degraded"
    assert error.ranking.report.final


def test_wrong_arguments_raise_at_once():
    reranker = cascade(Listwise(Model()))
    with pytest.raises(InputError, match="top_k"):
        reranker.astream("q", TEXTS, top_k=0)
    with pytest.raises(InputError, match="query"):
        reranker.astream(5, TEXTS)
    with pytest.raises(InputError, match="on_interim: give a function"):
        reranker.rerank("q", TEXTS, on_interim=5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'on_interim'"):
        reranker.astream("q", TEXTS, on_interim=print)


# ---------------------------------------------------------------------- exceptions


def test_an_exception_of_the_callback_is_reported(caplog):
    calls = []

    def show(ranking):
        calls.append(ranking)
        raise LookupError("sk-secret")

    reranker = cascade(Listwise(Model(ranked), window=2, stride=1), strict=True)
    with caplog.at_level(logging.DEBUG):
        ranking = reranker.rerank("q", TEXTS, on_interim=show)
    assert len(calls) == 2
    assert ranking.order == cascade(Listwise(Model(ranked), window=2, stride=1)).rerank(
        "q", TEXTS
    ).order  # fmt: skip
    assert ranking.report.status == "ok"
    (issue,) = ranking.report.issues
    assert (issue.code, issue.message) == ("on_interim_raised", "on_interim raised LookupError")
    assert "sk-secret" not in caplog.text


class Odd:
    """A method with an interim judgement of any kind."""

    name = "odd"
    score_kind = "probability"
    scale = None

    def __init__(self, judgement):
        self.judgement = judgement

    def judge(self, task):
        yield from task.call.interim(task, self.judgement)
        return Judgement([0.5] * len(task.texts))


@pytest.mark.parametrize(
    "judgement",
    [
        lambda: None,
        lambda: 1 / 0,
        lambda: Judgement([0.1]),
        lambda: Judgement([float("nan")] * 4),
        lambda: Judgement([0.1] * 4, frozenset({9})),
        lambda: Judgement([0.1] * 4, score_kind="logit"),
        lambda: Judgement([None] * 4, original=1.0),
        lambda: Judgement([None] * 4, beyond=frozenset(range(4))),
    ],
)
def test_an_interim_judgement_that_cannot_be_used_is_not_shown(judgement):
    reranker = Reranker(Odd(judgement), floor=0.2)
    last = reranker.rerank("q", TEXTS, on_interim=pytest.fail)
    assert (last.report.status, last.report.issues) == ("ok", ())
