"""Callers that leave before a ranking ends: what a scorer goes on with, and who is ranked next."""

import asyncio
import contextlib
import threading
import time

import pytest

from secondpass import Reranker
from secondpass.concurrency.turns import WIDTH
from secondpass.scorers.batching.pairs import PairEngine

SECONDS = 30
TEXTS = [f"text {number}" for number in range(100)]


class Own:
    """Takes 10 ms a text."""

    model_name = "own"
    pointwise = True

    def __init__(self):
        self.lock = threading.Lock()
        self.scored = 0

    def score_pairs(self, query, documents):
        for _ in documents:
            time.sleep(0.01)
            with self.lock:
                self.scored += 1
        return [float(index) for index in range(len(documents))]


class Many(Own):
    def score_many(self, requests):
        return [self.score_pairs(query, documents) for query, documents in requests]


class Pair:
    score, length = 1.0, 100


class Model:
    """A local model with the same time."""

    backend, precision, threads, budget = "onnx", "float32", 2, 800

    def __init__(self):
        self.scored = 0

    def identity(self):
        return {"model": "simulated"}

    def prepare(self, _query, passages):
        return [Pair() for _ in passages]

    def run(self, pairs):
        for _ in pairs:
            time.sleep(0.01)
            self.scored += 1
        return [pair.score for pair in pairs]


class Engine:
    model_name = "engine"
    joins_calls = True

    def __init__(self):
        self._model = Model()
        self._engine = PairEngine(self._model)

    @property
    def scored(self):
        return self._model.scored

    def score_pairs(self, query, documents):
        return self._engine.score([(query, documents)])[0]

    def score_many(self, requests):
        return self._engine.score(requests)

    def score_batches(self, requests, deadline):
        yield from self._engine.score_until(requests, deadline)


async def rank(reranker):
    await reranker.arerank("q", TEXTS)


async def rank_many(reranker):
    await reranker.arerank_many([("q", TEXTS), ("r", TEXTS)])


async def stream(reranker):
    async for _ in reranker.astream("q", TEXTS):
        pass


async def rank_with_a_deadline(reranker):
    await reranker.arerank("q", TEXTS, deadline=60.0)


WAYS = [rank, rank_many, stream, rank_with_a_deadline]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("make", [Own, Many, Engine])
def test_others_are_ranked_soon_after_many_have_left(make, way):
    """And the scorer goes on with those who left for a second at the most."""
    scorer = make()
    reranker = Reranker(scorer, log_level="debug")

    async def main():
        tasks = [asyncio.create_task(way(reranker)) for _ in range(5 * WIDTH)]
        while not scorer.scored:
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
        return await reranker.arerank("q", TEXTS[:2])

    ranking = asyncio.run(asyncio.wait_for(main(), SECONDS))
    assert ranking.report.status == "ok"
    time.sleep(0.5)
    assert scorer.scored <= 110 * WIDTH  # 500 without parts


@pytest.mark.parametrize("make", [Own, Many])
def test_a_call_in_parts_is_one_call_that_returns_all_scores(make):
    reranker = Reranker(make(), log_level="debug")
    requests = [("q", TEXTS[:50]), ("r", TEXTS[:3]), ("s", TEXTS[:20])]
    rankings = asyncio.run(reranker.arerank_many(requests))
    assert [ranking.report.depth_done for ranking in rankings] == [50, 3, 20]
    assert [ranking.report.usage.calls for ranking in rankings] == [1, 1, 1]


class Relative:
    """Scores that depend on the list: it says nothing, so a call without a deadline is whole."""

    model_name = "relative"

    def __init__(self):
        self.calls = []

    def score_pairs(self, query, documents):
        self.calls.append(len(documents))
        return [len(document) / max(map(len, documents)) for document in documents]


def test_a_scorer_that_says_nothing_of_itself_is_called_once_without_a_deadline():
    texts = ["x" * (1 + 37 * number % 100) for number in range(100)]
    reranker = Reranker(Relative())
    ranking = asyncio.run(reranker.arerank("q", texts))
    assert ranking.order == reranker.rerank("q", texts).order
    assert reranker.method.scorer.calls == [100, 100]


def test_parts_grow_unless_a_batch_size_limits_them():
    scorer = Relative()
    scorer.pointwise = True
    asyncio.run(Reranker(scorer, depth=None).arerank("q", TEXTS * 3))
    assert scorer.calls == [32, 64, 128, 76]
    scorer.calls.clear()
    scorer.batch_size = 40
    asyncio.run(Reranker(scorer).arerank("q", TEXTS))
    assert scorer.calls == [40, 40, 20]
