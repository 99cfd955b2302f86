"""Inputs at run time, from other components."""

from __future__ import annotations

import re
from typing import Any

import pytest
from haystack import Pipeline, component
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.retrievers import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage

import haystack_two
from haystack_documents import Numbers, ids, store_of
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_pipelines import (
    QUERY,
    BothSides,
    ByWorth,
    Result,
    Way,
    asking,
    every_way,
    falls,
    in_order,
    numbered,
    passages,
    retrieving,
    worth,
)


@component
class Choices:
    """Chooses how to rank, as a planner would."""

    @component.output_types(
        top_k=int,
        depth=int,
        floor=float,
        order=str,
        rule=dict[str, Any],
        context=dict[str, Any],
        instruction=str,
    )
    def run(self, query: str) -> Result:
        return {
            "top_k": 3,
            "depth": 5,
            "floor": 2.5,
            "order": "learn",
            "rule": {"type": "tiers", "field": "at", "tiers": [4, 2]},
            "context": {"user": 7},
            "instruction": "prefer owls",
        }


# ---------------------------------------------------------------------- run time inputs


@every_way
@pytest.mark.parametrize(
    ("connected", "wanted"),
    [
        ({"top_k": "top_k"}, ["d5", "d4", "d3"]),
        ({"depth": "depth"}, ["d4", "d3", "d2", "d1", "d0", "d5"]),
        ({"floor": "score_threshold"}, ["d5", "d4", "d3", "d2"]),
        ({"order": "order"}, ["d0", "d5", "d4", "d3", "d2", "d1"]),
        ({"rule": "order"}, ["d4", "d2", "d5", "d3", "d1", "d0"]),
        (
            {"top_k": "top_k", "depth": "depth", "floor": "score_threshold", "rule": "order"},
            ["d4", "d2", "d3"],
        ),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_run_time_inputs_come_from_other_components(
    way: Way, connected: dict[str, str], wanted: list[str]
) -> None:
    pipeline = Pipeline()
    pipeline.add_component("choices", Choices())
    tiers = {"type": "tiers", "field": "at", "tiers": [0]}
    ranker = SecondPassRanker({"method": Numbers(), "orders": {"learn": tiers}})
    pipeline.add_component("ranker", ranker)
    for output, socket in connected.items():
        pipeline.connect(f"choices.{output}", f"ranker.{socket}")
    documents = numbered(0, 1, 3, 4, 5, 6)
    data = {"choices": {"query": QUERY}, "ranker": {"query": QUERY, "documents": documents}}
    assert ids(way(pipeline, data)["ranker"]["documents"]) == wanted


@every_way
def test_an_instruction_of_a_component_reaches_the_prompt(way: Way) -> None:
    seen: list[str] = []

    def reply(messages: list[ChatMessage]) -> str:
        seen.append(messages[-1].text or "")
        return in_order(messages)

    pipeline = Pipeline()
    pipeline.add_component("choices", Choices())
    pipeline.add_component(
        "ranker",
        SecondPassRanker(
            {"method": "listwise"}, chat_generator=MockChatGenerator(response_fn=reply)
        ),
    )
    pipeline.add_component("words", SecondPassRanker("lexical"))
    for name in ("ranker", "words"):
        pipeline.connect("choices.instruction", f"{name}.instruction")
    documents = {"query": QUERY, "documents": passages()}
    results = way(pipeline, {"choices": {"query": QUERY}, "ranker": documents, "words": documents})
    assert results["ranker"]["report"]["issues"] == []
    (issue,) = results["words"]["report"]["issues"]
    assert issue["code"] == "instruction_not_used"
    assert len(seen) == 1
    assert "<instruction>prefer owls</instruction>" in seen[0]
    assert "prefer owls" not in str(results)


@every_way
def test_a_context_from_another_component_reaches_the_prompt(way: Way) -> None:
    seen: list[str] = []

    def reply(messages: list[ChatMessage]) -> str:
        seen.append(messages[-1].text or "")
        return in_order(messages)

    pipeline = Pipeline()
    pipeline.add_component("choices", Choices())
    ranker = SecondPassRanker(
        {"method": "listwise"},
        chat_generator=MockChatGenerator(response_fn=reply),
    )
    pipeline.add_component("ranker", ranker)
    pipeline.connect("choices.context", "ranker.context")
    data = {
        "choices": {"query": QUERY},
        "ranker": {"query": QUERY, "documents": passages()},
    }
    assert way(pipeline, data)["ranker"]["report"]["status"] == "ok"
    assert len(seen) == 1
    assert re.search(r"<context>.*user.*7.*</context>", seen[0], re.S)


def one_for_all() -> SecondPassRanker:
    """Scores all, has a model order the best four, blends, and lays out for learners on demand."""
    return SecondPassRanker(
        {
            "method": {
                "type": "cascade",
                "stages": [ByWorth(), {"type": "listwise", "depth": 4}],
            },
            "blend": {"original": 0.6, "normalize": "rrf"},
            "orders": {
                "learn": {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]},
                "research": "none",
            },
        },
        chat_generator=BothSides(),
    )


# ---------------------------------------------------------------------- one component does it all


@every_way
def test_cascade_blend_and_orders_in_one_component(way: Way) -> None:
    results = InMemoryBM25Retriever(store_of(passages())).run(query=QUERY)["documents"]
    ranker = one_for_all()
    pipeline = retrieving(ranker)
    data = asking("retriever", "ranker")
    orders: dict[str | None, list[str]] = {}
    for order in (None, "research", "learn"):
        data["ranker"]["order"] = order
        result = way(pipeline, data)["ranker"]
        assert result["report"]["status"] == "ok"
        assert result["report"]["usage"]["calls"] == 2
        assert falls(result["documents"])
        orders[order] = ids(result["documents"])
        assert {document.meta["retrieval_score"] for document in result["documents"]} == {
            one.score for one in results
        }
    assert sorted(orders[None]) == sorted(ids(results))
    assert orders["research"] == orders[None]
    level = {one.id: one.meta["level"] for one in results}
    assert orders["learn"] == sorted(orders[None], key=lambda name: level[name] == "hard")
    assert orders["learn"] != orders[None]
    # The blend has a say: without it the order is another.
    best = sorted(results, key=lambda one: -worth(QUERY, one.content or ""))
    assert orders[None] != ids(best)
    if not haystack_two.IS_INSTALLED:  # whose BM25 scores are of another scale
        assert set(orders[None][:4]) == set(ids(best)[:4])
