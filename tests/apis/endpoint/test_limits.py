"""Limits, retries, fallbacks and concurrent rankings."""

from __future__ import annotations

import asyncio
import time

import pytest

import fake_provider as fake
from fake_provider import FakeProvider, http
from rankings import codes
from rerank_answers import KEY, SLACK, answer, rows_of
from rerank_dialects import NUMBERS
from secondpass.limits import Limits

# ---------------------------------------------------------------------- limits


def test_deadline(make, rank, provider):
    reranker = make(limits={"deadline": 0.4})
    reranker.warm_up()
    provider.play(fake.silence())
    began = time.perf_counter()
    ranking = rank(reranker, "q", NUMBERS)
    assert time.perf_counter() - began <= 0.4 + SLACK
    assert codes(ranking) <= {"deadline", "timeout"}
    assert ranking.order == (0, 1, 2)
    provider.play(answer())  # one that was given up on spoils nothing
    reranker.limits = Limits(deadline=60)
    assert rank(reranker, "q", NUMBERS).order == (1, 2, 0)


@pytest.mark.parametrize(
    ("limits", "settings", "scored"),
    [
        ({"calls": 2}, {}, 4),
        ({"tokens": 30}, {}, 4),
        ({"cost": 30e-6}, {"prices": {"input": 1, "output": 0}}, 4),
        ({"calls": 1}, {}, 2),
    ],
)
def test_budget(limits, settings, scored, make, provider):
    """Each batch has about a dozen tokens: two documents of eleven, the query twice."""
    texts = [f"{number} " + "x" * 18 for number in (3, 9, 5, 1, 7, 4)]
    provider.play(lambda request: [http(200, {"results": rows_of(request)})])
    reranker = make("vllm", batch_size=2, limits={**limits, "concurrency": 1}, **settings)
    ranking = reranker.rerank("q" * 4, texts)
    assert [item.status for item in ranking].count("scored") == scored
    assert len(provider.requests) == ranking.report.usage.calls == scored // 2
    (issue,) = ranking.report.issues
    assert issue.code == "budget"
    assert issue.positions == tuple(range(scored, 6))
    assert ranking.report.status == "partial"


def test_prices(make):
    prices = {"input": 50.0, "output": 1000.0}
    ranking = make("jina", prices=prices, batch_size=2).rerank("q", NUMBERS)
    assert ranking.report.usage.cost == pytest.approx(2 * 77 * 50 / 1e6)
    assert make("jina").rerank("q", NUMBERS).report.usage.cost is None
    # Without a word of tokens from the server, no cost is made up.
    assert make("tei", prices=prices).rerank("q", NUMBERS).report.usage.cost is None


def test_redirects(make, rank, provider):
    with FakeProvider() as elsewhere:
        there = f"http://127.0.0.1:{elsewhere.port}/tei/rerank"
        for code in (301, 302, 303, 307, 308):
            provider.play(fake.raw(http(code, b"", {"Location": there})))
            ranking = rank(make(api_key=KEY, limits={"retries": 2}), "q", NUMBERS)
            assert codes(ranking) == {"redirected"}
            assert len(provider.requests) == 1
        assert elsewhere.connections == 0


# ---------------------------------------------------------------------- many at once


def test_two_loops_and_a_running_one(make):
    reranker = make()

    async def inside():
        return reranker.rerank("q", NUMBERS).order, (await reranker.arerank("q", NUMBERS)).order

    assert asyncio.run(inside()) == asyncio.run(inside()) == ((1, 2, 0), (1, 2, 0))


def test_a_cancelled_ranking_leaves_nothing(make, provider):
    reranker = make()
    reranker.rerank("q", ["1"])
    provider.play(fake.silence())

    async def cancelled():
        task = asyncio.create_task(reranker.arerank("q", NUMBERS))
        async with asyncio.timeout(60):
            while not provider.requests:
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    provider.play(answer())
    assert reranker.rerank("q", NUMBERS).order == (1, 2, 0)
