"""Documents and results for comparisons with other rankers."""

from __future__ import annotations

import asyncio
from typing import Any

from haystack import Document

from haystack_rankers import ids, scores

QUERY = "cat food"


def named(count: int) -> list[Document]:
    return [
        Document(id=f"d{index}", content=f"text {index}", score=1 - index / (count + 1))
        for index in range(count)
    ]


def both(ranker: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The result of a ranker, which must be the same with ``run`` and ``run_async``."""
    result: dict[str, Any] = ranker.run(*args, **kwargs)
    if hasattr(ranker, "run_async"):
        waited = asyncio.run(ranker.run_async(*args, **kwargs))
        assert (ids(waited), scores(waited)) == (ids(result), scores(result))
    return result
