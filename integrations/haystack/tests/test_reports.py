"""Blending and ordering in one component, its report, and the context of a call."""

from __future__ import annotations

import copy
import math

import yaml
from haystack import Document

from haystack_documents import QUERY, Answers, Numbers, ids, numbered
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import Reranker


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


def test_a_calibrated_threshold() -> None:
    floor = {"at": 0.1, "on": "rerank", "nothing": 0.1, "keep": 0.9}
    mapping = {"slope": 4.0, "intercept": -2.0}
    blend = {"original": 0.9, "normalize": "minmax"}
    config = {"method": "lexical", "blend": blend, "floor": floor, "probabilities": mapping}
    ranker = SecondPassRanker.from_dict(SecondPassRanker(config).to_dict())
    documents = [Document(content="a castle", score=0.1), Document(content="a train", score=0.9)]
    result = ranker.run("castle", documents)
    assert [document.content for document in result["documents"]] == ["a castle"]
    assert result["documents"][0].meta["rerank_probability"] > 0
    assert result["report"]["nothing_relevant"] is False
    nothing = ranker.run("owls", documents)
    assert (nothing["documents"], nothing["report"]["nothing_relevant"]) == ([], True)
    # A threshold of the run is on the same score.
    ready = SecondPassRanker(Reranker.from_config(config))
    assert len(ready.run("castle", documents, score_threshold=-1.0)["documents"]) == 2
