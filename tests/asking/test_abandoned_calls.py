"""Functions that hang: how many threads they leave behind, and when they are called again."""

import asyncio
import contextlib
import functools
import threading

import pytest

from forked import IGNORES_FORKS, NEEDS_FORK, ended_well, run_child
from rankings import codes
from rotation import rotated
from secondpass import Reranker
from secondpass.asking import drivers
from secondpass.llms.function import CallableLLM

TEXTS = [f"text {number}" for number in range(20)]
DEADLINE = 0.02
RANKINGS = 60


class Hanging:
    """A scorer and a function for a language model, both of which hang until they are released."""

    name = "hanging"

    def __init__(self):
        self.release = threading.Event()
        self.lock = threading.Lock()
        self.running = 0
        self.threads = set()

    def hang(self):
        with self.lock:
            self.running += 1
        self.threads.add(threading.get_ident())
        self.release.wait(60)
        with self.lock:
            self.running -= 1

    def score_pairs(self, query, documents):
        self.hang()
        return [float(len(documents) - index) for index in range(len(documents))]

    def ask(self, messages):
        self.hang()
        return "yes"

    async def ignore(self, messages):
        with self.lock:
            self.running += 1
        while not self.release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        with self.lock:
            self.running -= 1
        return "yes"


class HangingBatches(Hanging):
    def score_batches(self, requests, deadline):
        self.hang()
        yield [(0, index, 1.0) for index in range(len(requests[0][1]))]


class HangingLists(Hanging):
    def score_lists(self, requests, deadline):
        self.hang()
        yield from ()


def graded(function):
    return {"type": "graded", "llm": function, "batch_size": 1}


SCORERS = {
    "function": Hanging,
    "score_pairs": Hanging,
    "score_batches": HangingBatches,
    "score_lists": HangingLists,
}
LIMIT = drivers._SCORER_GATES.width


def rank(reranker, mode, texts=TEXTS):
    async def streamed():
        return [ranking async for ranking in reranker.astream("q", texts)][-1]

    if mode == "rerank":
        return reranker.rerank("q", texts)
    return asyncio.run(reranker.arerank("q", texts) if mode == "arerank" else streamed())


def until(condition):
    waiting = threading.Event()
    for _ in range(2000):
        if condition():
            return
        waiting.wait(0.005)
    raise AssertionError


@pytest.mark.parametrize(
    ("kind", "mode"), rotated(list(SCORERS), ["rerank", "arerank", "astream", "rerank_many"])
)
def test_a_function_that_hangs_leaves_few_threads(kind, mode):
    owner = SCORERS[kind]()
    method, limit = (graded(owner.ask), 8) if kind == "function" else (owner, LIMIT)
    reranker = Reranker(method, limits={"deadline": DEADLINE, "concurrency": 8})
    before = threading.active_count()
    try:
        if mode == "rerank_many":
            rankings = reranker.rerank_many([("q", TEXTS)] * RANKINGS)
        else:
            rankings = [rank(reranker, mode) for _ in range(RANKINGS)]
        assert threading.active_count() - before <= 2 * limit + 2
        assert owner.running <= 2 * limit
        assert rankings[-1].report.status == "unchanged"
        later = (reranker.rerank("q", TEXTS) for _ in range(RANKINGS))  # on a busy machine: late
        refused = (one for one in later if codes(one) == {"abandoned_calls"})
        ranking = next(one for one in refused if one.report.usage.calls == 0)
        assert "still run" in ranking.report.issues[0].message
    finally:
        owner.release.set()
    until(lambda: owner.running == 0)
    usable = Reranker(method, limits={"deadline": 60})
    assert "abandoned_calls" not in codes(usable.rerank("q", TEXTS))


@pytest.mark.parametrize("mode", ["rerank", "arerank"])
def test_one_that_returns_makes_room_at_once(mode):
    owner, order = Hanging(), []
    turns = [threading.Event() for _ in range(40)]

    def ask(messages):
        number = len(order)
        order.append(number)
        turns[number].wait(60)
        with owner.lock:
            owner.running += 1
        return "yes"

    reranker = Reranker(graded(ask), limits={"deadline": 0.2, "concurrency": 2, "retries": 0})
    try:
        rank(reranker, mode)
        assert len(order) == 2
        assert codes(rank(reranker, mode)) == {"abandoned_calls"}
        assert len(order) == 2
        turns[0].set()
        until(lambda: owner.running == 1)
        until(lambda: "deadline" in codes(rank(reranker, mode)))
        assert len(order) > 2
    finally:
        for turn in turns:
            turn.set()


class Made:
    """A scorer and a model that are made for each call."""

    name = "made"

    def __init__(self, owner):
        self.score_pairs = owner.score_pairs
        self.owner = owner

    def ask(self, messages):
        return self.owner.ask(messages)


MADE_FOR_EACH_CALL = {
    "lambda": (8, lambda owner: graded(lambda messages: owner.ask([*messages]))),
    "partial": (8, lambda owner: graded(functools.partial(lambda owner, _: owner.hang(), owner))),
    "method": (8, lambda owner: graded(Made(owner).ask)),
    "awaitable": (8, lambda owner: graded(lambda messages: owner.ignore([*messages]))),
    "coroutine": (8, lambda owner: graded(ignoring(owner))),
    "scorer": (LIMIT, Made),
}


def ignoring(owner):
    async def ask(messages):
        return await owner.ignore(messages)

    return ask


@pytest.mark.parametrize(("kind", "mode"), rotated(MADE_FOR_EACH_CALL, ["rerank", "arerank"]))
def test_functions_made_for_each_call_that_hang_leave_few_behind(kind, mode):
    owner = Hanging()
    limit, method = MADE_FOR_EACH_CALL[kind]

    def rerankers():
        """In the end with deadlines that a busy machine meets, too."""
        for deadline in (DEADLINE, 10 * DEADLINE, 50 * DEADLINE):
            for _ in range(2 * RANKINGS):
                yield Reranker(method(owner), limits={"deadline": deadline, "concurrency": 8})

    async def rank_in_one_loop():
        try:
            for reranker in rerankers():
                if codes(await reranker.arerank("q", TEXTS)) == {"abandoned_calls"}:
                    return owner.running
            raise AssertionError
        finally:
            owner.release.set()  # tasks that ignore their cancellation keep the loop

    try:
        if mode == "rerank":
            rankings = (reranker.rerank("q", TEXTS) for reranker in rerankers())
            assert any(codes(ranking) == {"abandoned_calls"} for ranking in rankings)
            running = owner.running
        else:
            running = asyncio.run(rank_in_one_loop())
        assert running <= 5 * limit
    finally:
        owner.release.set()
    usable = Reranker(method(owner))
    until(lambda: "abandoned_calls" not in codes(usable.rerank("q", TEXTS)))


@pytest.mark.parametrize("mode", ["rerank", "arerank"])
def test_an_asynchronous_function_that_ends_when_it_is_cancelled_is_called_again(mode):
    """Although its cancelled calls take some turns of the event loop to end."""
    calls = []

    async def ask(messages):
        calls.append(messages)
        try:
            await asyncio.sleep(60)
        finally:
            for _ in range(5):
                await asyncio.sleep(0)

    for timeout in (0.01, 0.2, 5.0):  # on a busy machine, one may pass before the call begins
        calls.clear()
        model = CallableLLM(ask, timeout=timeout)
        reranker = Reranker(graded(model), limits={"concurrency": 1, "retries": 0})
        ranking = rank(reranker, mode, TEXTS[:6])
        if len(calls) == 6:
            break
    assert codes(ranking) == {"timeout"}
    assert len(calls) == 6


def test_other_functions_are_called_meanwhile():
    hanging, healthy = Hanging(), Hanging()
    healthy.release.set()
    reranker = Reranker(hanging, limits={"deadline": 0.05}, fallback=[healthy])
    try:
        rankings = (reranker.rerank("q", TEXTS) for _ in range(4 * LIMIT))
        ranking = next(one for one in rankings if codes(one) == {"abandoned_calls"})
        assert ranking.report.status == "degraded"
        assert all(item.status == "scored" for item in ranking.items)
    finally:
        hanging.release.set()


@NEEDS_FORK
@IGNORES_FORKS
def test_a_forked_child_has_no_abandoned_calls():
    owner = Hanging()
    reranker = Reranker(owner, limits={"deadline": DEADLINE})
    try:
        # Of a busy machine the last call may end at its deadline before it is refused.
        rankings = (reranker.rerank("q", TEXTS) for _ in range(LIMIT + 10))
        assert any(codes(ranking) == {"abandoned_calls"} for ranking in rankings)

        def child():
            owner.release.set()
            ranking = reranker.rerank("q", TEXTS, deadline=30.0)
            return ranking.report.status == "ok"

        assert ended_well(run_child(child))
    finally:
        owner.release.set()
