"""Limits, retries, fallbacks and concurrent rankings."""

from __future__ import annotations

import asyncio
import time

import pytest

import fake_provider as fake
from fake_provider import FakeProvider, http
from rankings import codes
from rerank_answers import KEY, SLACK, answer
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
