"""What the tests of strategies share."""

import asyncio

import pytest


@pytest.fixture(params=["sync", "async"])
def rank(request):
    """Ranks in both ways."""
    if request.param == "sync":
        return lambda reranker, *given: reranker.rerank(*given)
    return lambda reranker, *given: asyncio.run(reranker.arerank(*given))
