"""Both ways to call a ranker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_rankers import Call


@pytest.fixture(params=["run", "run_async"])
def call(request: pytest.FixtureRequest) -> Call:
    """Runs a ranker, synchronously or in an event loop of its own."""

    def called(ranker: SecondPassRanker, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if request.param == "run":
            return ranker.run(*args, **kwargs)
        return asyncio.run(ranker.run_async(*args, **kwargs))

    return called
