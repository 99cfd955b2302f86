"""What the tests of strategies share."""

import asyncio

import pytest


@pytest.fixture(params=["sync", "async"])
def rank(request):
    """Ranks in both ways."""
    if request.param == "sync":
        return lambda reranker, *arguments, **options: reranker.rerank(*arguments, **options)
    return lambda reranker, *arguments, **options: asyncio.run(
        reranker.arerank(*arguments, **options)
    )
