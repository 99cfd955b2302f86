"""Questions that are asked at once: their order, the gate, cancellation."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fakes import Model, graded, numbered, ranked, shown_in
from scripted_services import ScriptedService, ask_all, question, ranked_by
from secondpass import Reranker
from secondpass.questions import Completion
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise

# ---------------------------------------------------------------------- side by side


def test_answers_keep_the_order_of_questions():
    class Slower(ScriptedService):
        async def complete(self, prompt):
            await asyncio.sleep(0.001 * int(prompt.turns[0].text))
            return Completion(prompt.turns[0].text)

    questions = [question(text=str(number)) for number in (30, 1, 20, 5)]
    answers, ledger = ask_all(Slower(), *questions)
    assert [answer.value for answer in answers] == ["30", "1", "20", "5"]
    assert (ledger.calls, ledger.rounds, ledger.pairs) == (4, 1, 12)


class Meeting(Model):
    """Replies only after some questions have been under way at the same time."""

    def __init__(self, count):
        super().__init__(ranked)
        self.count = count

    async def complete(self, prompt):
        until = time.monotonic() + 60
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            while self.most < self.count:
                assert time.monotonic() < until
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
            self.prompts.append(prompt)
            return Completion(self.replies[0](shown_in(prompt)))
        finally:
            self.under_way -= 1


def in_threads(reranker, requests):
    with ThreadPoolExecutor(len(requests)) as threads:
        return list(threads.map(lambda request: reranker.rerank(*request), requests))


WAYS = {
    "32 threads": in_threads,
    "many": lambda reranker, requests: reranker.rerank_many(requests),
    "many, async": lambda reranker, requests: asyncio.run(reranker.arerank_many(requests)),
}


@pytest.mark.parametrize("rank", WAYS.values(), ids=WAYS)
def test_rankings_share_one_gate(rank):
    model = Meeting(5)
    reranker = Reranker(Listwise(model, window=3, stride=1), limits={"concurrency": 5})
    requests = [(f"query {index}", numbered([3, 9, 5, 7, index])) for index in range(32)]
    rankings = rank(reranker, requests)
    assert model.most == 5
    assert [ranking.report.status for ranking in rankings] == ["ok"] * 32
    assert {ranking.report.usage.calls for ranking in rankings} == {3}


# ---------------------------------------------------------------------- cancellation


def test_cancellation_leaves_nothing_running():
    model = Model(graded, seconds=60)
    reranker = Reranker(Graded(model, batch_size=1), limits={"concurrency": 2})

    async def act():
        task = asyncio.ensure_future(reranker.arerank("q", numbered(range(5))))
        while model.under_way < 2:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(5):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(act())
    assert model.under_way == 0
    assert len(model.prompts) == 2
    # The gate is free again.
    model.seconds = 0
    assert reranker.rerank("q", numbered(range(5))).report.status == "ok"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3)])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_exits_of_models(error, asynchronous):
    class Early(ScriptedService):
        def complete(self, prompt):
            raise error

    (answer,), _ = ask_all(Early(), question())
    assert answer.error.code == "llm_raised"
    assert ranked_by(Reranker(Graded(Early()), log_level="debug"), asynchronous).order == (0, 1)
