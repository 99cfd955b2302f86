"""Functions that hang: how many threads they leave behind, and when they are called again."""

import asyncio
import threading

import pytest

from forked import IGNORES_FORKS, NEEDS_FORK, ended_well, run_child
from rotation import rotated
from secondpass import Reranker
from secondpass.runtime import drivers

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


class HangingBatches(Hanging):
    def score_batches(self, requests, deadline):
        self.hang()
        yield [(0, index, 1.0) for index in range(len(requests[0][1]))]


class HangingLists(Hanging):
    def score_lists(self, requests, deadline):
        self.hang()
        yield from ()


def method_of(owner, kind):
    if kind == "function":
        return {"type": "graded", "llm": owner.ask, "batch_size": 1}
    return owner


KINDS = {
    "function": Hanging,
    "score_pairs": Hanging,
    "score_batches": HangingBatches,
    "score_lists": HangingLists,
}


def rank(reranker, mode, count=1):
    async def streamed():
        return [ranking async for ranking in reranker.astream("q", TEXTS)][-1]

    if mode == "rerank":
        return [reranker.rerank("q", TEXTS) for _ in range(count)]
    if mode == "arerank":
        return [asyncio.run(reranker.arerank("q", TEXTS)) for _ in range(count)]
    if mode == "astream":
        return [asyncio.run(streamed()) for _ in range(count)]
    return reranker.rerank_many([("q", TEXTS)] * count)


def codes(ranking):
    return {issue.code for issue in ranking.report.issues}


def until(condition):
    waiting = threading.Event()
    for _ in range(2000):
        if condition():
            return
        waiting.wait(0.005)
    raise AssertionError


@pytest.mark.parametrize(
    ("kind", "mode"),
    rotated(list(KINDS), ["rerank", "arerank", "astream", "rerank_many"]),
)
def test_a_function_that_hangs_leaves_few_threads(kind, mode):
    owner = KINDS[kind]()
    limit = 8 if kind == "function" else drivers._SCORER_GATE.width
    reranker = Reranker(method_of(owner, kind), limits={"deadline": DEADLINE, "concurrency": 8})
    before = threading.active_count()
    try:
        for _ in range(1 if mode == "rerank_many" else RANKINGS):
            rankings = rank(reranker, mode, RANKINGS if mode == "rerank_many" else 1)
        assert threading.active_count() - before <= 2 * limit + 2
        assert owner.running <= 2 * limit
        last = rankings[-1]
        assert last.report.status == "unchanged"
        (ranking,) = rank(reranker, mode)
        assert codes(ranking) == {"abandoned_calls"}
        assert ranking.report.usage.calls == 0
        assert "still run" in str(ranking.report.issues[0].message)
    finally:
        owner.release.set()
    until(lambda: owner.running == 0)
    usable = Reranker(method_of(owner, kind), limits={"deadline": 60})
    (ranking,) = rank(usable, mode)
    assert "abandoned_calls" not in codes(ranking)


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

    settings = {"type": "graded", "llm": ask, "batch_size": 1}
    reranker = Reranker(settings, limits={"deadline": 0.2, "concurrency": 2, "retries": 0})
    try:
        rank(reranker, mode)
        assert len(order) == 2
        assert codes(*rank(reranker, mode)) == {"abandoned_calls"}
        assert len(order) == 2
        turns[0].set()
        until(lambda: owner.running == 1)
        until(lambda: "deadline" in codes(*rank(reranker, mode)))
        assert len(order) > 2
    finally:
        for turn in turns:
            turn.set()


def test_other_functions_are_called_meanwhile():
    hanging, healthy = Hanging(), Hanging()
    healthy.release.set()
    limits = {"deadline": 0.05}
    reranker = Reranker(hanging, limits=limits, fallback=[healthy])
    try:
        for _ in range(drivers._SCORER_GATE.width + 1):
            ranking = reranker.rerank("q", TEXTS)
        assert codes(ranking) == {"abandoned_calls"}
        assert ranking.report.status == "degraded"
        assert all(item.status == "scored" for item in ranking.items)
        assert ranking.report.seconds < 0.05
    finally:
        hanging.release.set()


@NEEDS_FORK
@IGNORES_FORKS
def test_a_forked_child_has_no_abandoned_calls():
    owner = Hanging()
    reranker = Reranker(owner, limits={"deadline": DEADLINE})
    try:
        for _ in range(drivers._SCORER_GATE.width + 1):
            ranking = reranker.rerank("q", TEXTS)
        assert codes(ranking) == {"abandoned_calls"}

        def child():
            owner.release.set()
            ranking = reranker.rerank("q", TEXTS, deadline=30.0)
            return ranking.report.status == "ok"

        assert ended_well(run_child(child))
    finally:
        owner.release.set()
