"""Questions that are asked at once: their order, the gate, cancellation."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fakes import Model, graded, numbered, ranked, shown_in
from scripted_services import ScriptedService, ask_all, question, ranked_by
from secondpass import Reranker
from secondpass.effects import Completion
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

    def __init__(self, count, reply=graded):
        super().__init__(reply)
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


def test_32_threads_share_one_gate():
    model = Meeting(4)
    reranker = Reranker(Graded(model, batch_size=2), limits={"concurrency": 4})
    texts = numbered([3, 9, 5, 7])
    with ThreadPoolExecutor(32) as threads:
        rankings = list(threads.map(lambda _: reranker.rerank("q", texts), range(32)))
    assert {ranking.order for ranking in rankings} == {(1, 3, 2, 0)}
    assert len(model.prompts) == 64
    assert model.most == 4


@pytest.mark.parametrize("asynchronous", [False, True])
def test_many_rankings_of_one_call_share_one_gate(asynchronous):
    model = Meeting(5, ranked)
    reranker = Reranker(Listwise(model, window=3, stride=1), limits={"concurrency": 5})
    requests = [(f"query {index}", numbered([3, 9, 5, 7, index])) for index in range(32)]
    if asynchronous:
        rankings = asyncio.run(reranker.arerank_many(requests))
    else:
        rankings = reranker.rerank_many(requests)
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
def test_exits_of_readers_and_models(error, asynchronous):
    def read(completion):
        raise error

    (answer,), _ = ask_all(ScriptedService("yes"), question(read))
    assert str(answer.error) == f"reading the reply raised {type(error).__name__}"

    class Early(ScriptedService):
        def complete(self, prompt):
            raise error

    (answer,), _ = ask_all(Early(), question())
    assert answer.error.code == "llm_raised"
    assert ranked_by(Reranker(Graded(Early()), log_level="debug"), asynchronous).order == (0, 1)
