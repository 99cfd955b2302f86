"""Between retrievers, joiners, builders and routers, with inputs at run time, and in agents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import ComponentTool

from haystack_documents import Numbers, ids
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_pipelines import (
    QUERY,
    Result,
    Way,
    every_way,
    numbered,
    passages,
)

# ---------------------------------------------------------------------- branches and loops


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
        ({"order": "order"}, ["d0", "d5", "d4", "d3", "d2", "d1"]),
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


def calling(tool: str, **arguments: Any) -> MockChatGenerator:
    """A model that calls the tool once, and then says that it is done."""
    call = ToolCall(tool_name=tool, arguments=arguments)
    return MockChatGenerator([ChatMessage.from_assistant(tool_calls=[call]), "Done."])


def run_agent(agent: Agent, asynchronous: bool, **state: Any) -> Result:
    messages = [ChatMessage.from_user("Find the castle's garden.")]
    if asynchronous:
        return asyncio.run(agent.run_async(messages=messages, **state))
    return agent.run(messages=messages, **state)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_agent_reranks_documents_of_its_state(asynchronous: bool) -> None:
    tool = ComponentTool(
        SecondPassRanker("lexical"),
        name="rerank",
        inputs_from_state={"found": "documents"},
        outputs_to_state={"ranked": {"source": "documents"}, "report": {"source": "report"}},
    )
    assert set(tool.parameters["required"]) == {"query"}
    assert tool.parameters["properties"]["depth"]["description"].startswith("Number of documents")
    agent = Agent(
        chat_generator=calling("rerank", query=QUERY, top_k=2),
        tools=[tool],
        state_schema={
            "found": {"type": list[Document]},
            "ranked": {"type": list[Document]},
            "report": {"type": dict[str, Any]},
        },
        raise_on_tool_invocation_failure=True,
    )
    result = run_agent(agent, asynchronous, found=passages())
    assert result["last_message"].text == "Done."
    wanted = SecondPassRanker("lexical").run(QUERY, passages(), 2)
    assert ids(result["ranked"]) == ids(wanted["documents"])
    assert result["report"]["status"] == "ok"
