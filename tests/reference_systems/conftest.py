"""What the tests of all reference systems use: one provider a module, and both ways to rank."""

from __future__ import annotations

import asyncio

import pytest

from fake_provider import FakeProvider
from secondpass import Reranker


@pytest.fixture(scope="module")
def server():
    with FakeProvider() as one:
        yield one


@pytest.fixture(params=["sync", "async"])
def rank(request):
    """Ranks with a reranker, by each of its two ways in."""
    if request.param == "sync":
        return Reranker.rerank
    return lambda *given, **settings: asyncio.run(Reranker.arerank(*given, **settings))
