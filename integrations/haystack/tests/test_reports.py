"""Blending and ordering in one component, its report, and the context of a call."""

from __future__ import annotations

import asyncio
import copy
import math
from typing import Any

import yaml
from haystack import Document

from haystack_documents import QUERY, Answers, Numbers, castles, ids, numbered
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import Candidate, Reranker


def test_ranking_blend_and_order_happen_in_one_component() -> None:
    documents = [
        Document(id=f"d{index}", content=str(number), score=score, meta={"level": level})
        for index, (number, score, level) in enumerate(
            [(0.1, 0.9, "hard"), (0.9, 0.1, "hard"), (0.8, 0.8, "easy")]
        )
    ]
    order = {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]}
    config = {"method": Numbers(), "blend": {"original": 0.9, "normalize": "minmax"}}
    ranker = SecondPassRanker(config)
    assert ids(ranker.run(QUERY, documents)["documents"]) == ["d0", "d2", "d1"]
    moved = ranker.run(QUERY, documents, order=order)["documents"]
    assert ids(moved) == ["d2", "d0", "d1"]
    # What stands behind may sort by score, so an order that moved documents is in the scores.
    assert ids(sorted(moved, key=lambda document: -(document.score or 0))) == ids(moved)
    ordered = SecondPassRanker({**config, "order": order})
    assert ids(ordered.run(QUERY, documents, order="none")["documents"]) == ["d0", "d2", "d1"]


def test_the_report_holds_plain_values_that_pipelines_can_copy() -> None:
    result = SecondPassRanker({"method": Answers([1.0, None, math.nan])}).run(
        QUERY, numbered(1, 2, 3)
    )
    assert copy.deepcopy(result["report"]) == result["report"]
    assert yaml.safe_load(yaml.safe_dump(result["report"])) == result["report"]


def test_the_context_of_a_call_reaches_the_method() -> None:
    seen: list[object] = []

    class Listens:
        name = "listens"
        score_kind = "unbounded"
        scale = None

        def judge(self, task: Any) -> Any:
            seen.append(task.context)
            assert all(isinstance(candidate, Candidate) for candidate in task.candidates)
            yield from ()
            raise OSError

    ranker = SecondPassRanker(Reranker(Listens()))
    ranker.run(QUERY, castles(), context={"user": 7})
    asyncio.run(ranker.run_async(QUERY, castles(), context=None))
    assert seen == [{"user": 7}, None]
