"""Loading, warming up and closing."""

from __future__ import annotations

import asyncio

import pytest
from haystack import Pipeline

from haystack_documents import QUERY, Answers, Numbers, castles, ids, numbered
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import Reranker


class Unloadable(Answers):
    """Has a model that is not there."""

    def __init__(self) -> None:
        super().__init__(OSError("no such model"))

    def warm_up(self) -> None:
        raise OSError("no such model")


def test_warm_up_and_close_are_passed_on_and_idempotent() -> None:
    scorer = Numbers()
    ranker = SecondPassRanker(Reranker(scorer))

    async def life() -> None:
        ranker.warm_up()
        await ranker.warm_up_async()
        ranker.warm_up()
        assert scorer.warmed == 1
        await ranker.close_async()
        ranker.close()
        await ranker.close_async()
        assert scorer.closed == 1

    asyncio.run(life())
    ranker.run(QUERY, numbered(1))
    ranker.close()
    assert (scorer.warmed, scorer.closed) == (1, 2)
    ranker.warm_up()
    assert scorer.warmed == 2


def test_pipelines_warm_up_and_close_it() -> None:
    scorer = Numbers()
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker(Reranker(scorer)))
    data = {"ranker": {"query": QUERY, "documents": numbered(1, 2)}}
    pipeline.run(data)
    pipeline.run(data)
    asyncio.run(pipeline.run_async(data))
    assert scorer.warmed == 1
    pipeline.close()
    asyncio.run(pipeline.close_async())
    assert scorer.closed == 1


def test_a_model_that_cannot_be_loaded_fails_no_pipeline() -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker({"method": Unloadable()}))
    result = pipeline.run({"ranker": {"query": QUERY, "documents": castles()}})["ranker"]
    assert ids(result["documents"]) == ids(castles())
    assert result["report"]["status"] == "unchanged"
    strict = SecondPassRanker({"method": Unloadable()}, raise_on_failure=True)
    for _ in range(2):
        with pytest.raises(OSError, match="no such model"):
            strict.warm_up()
    with pytest.raises(OSError, match="no such model"):
        asyncio.run(strict.warm_up_async())
