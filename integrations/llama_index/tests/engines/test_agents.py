"""Workflows and agents."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent, ToolCallResult
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.schema import NodeWithScore
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from llama_engines import (
    QUERY,
    TEXTS,
    TIMEOUT,
    TOOLS,
    Overlap,
    Retrieved,
    Scripted,
    by_overlap,
    ids,
    in_order,
    memory,
    nodes_of,
)
from llama_index.postprocessor.secondpass import SecondPassRerank


class Ranked(Event):
    report: dict[str, Any]


class Search(Workflow):
    """Retrieves, reranks, and tells how that went while it runs."""

    def __init__(self, retriever: BaseRetriever, postprocessor: SecondPassRerank) -> None:
        super().__init__(timeout=TIMEOUT)
        self.retriever = retriever
        self.postprocessor = postprocessor

    @step
    async def search(self, ctx: Context, ev: StartEvent) -> StopEvent:
        results = await self.retriever.aretrieve(ev.query)
        nodes, report = await self.postprocessor.arerank_nodes(results, ev.query, top_n=ev.top_n)
        ctx.write_event_to_stream(Ranked(report=report.to_dict()))
        return StopEvent(result=nodes)


def test_a_workflow_reranks_and_streams_the_report() -> None:
    search = Search(Retrieved(*nodes_of()), by_overlap())

    async def go() -> tuple[list[NodeWithScore], list[dict[str, Any]]]:
        handler = search.run(query=QUERY, top_n=2)
        reports = [event.report async for event in handler.stream_events() if type(event) is Ranked]
        return await handler, reports

    nodes, (report,) = asyncio.run(go())
    assert ids(nodes) == ["red", "bear"]
    assert (report["status"], report["usage"]["pairs"]) == ("ok", 6)
    json.dumps(report)


def calls_the_tool(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
    """A model that uses the tool once and answers with what came back."""
    if messages[-1].role == MessageRole.TOOL:
        return ChatMessage(role="assistant", content=messages[-1].content)
    # The name is not taken from `tools`, which llama-index-core 0.14.20 does not pass on.
    call = ToolCallBlock(tool_call_id="1", tool_name="library", tool_kwargs={"input": QUERY})
    return ChatMessage(role="assistant", blocks=[call])


def thinks(prompt: str) -> str:
    if "Thought: it is in the library" in prompt:
        return "Thought: I can answer.\nAnswer: Bamboo."
    action = {"input": QUERY}
    return f"Thought: it is in the library\nAction: library\nAction Input: {json.dumps(action)}"


AGENTS: dict[str, Callable[[Any], Any]] = {
    "function calling": lambda tool: FunctionAgent(
        tools=[tool], llm=MockFunctionCallingLLM(response_generator=calls_the_tool), streaming=False
    ),
    "ReAct": lambda tool: ReActAgent(tools=[tool], llm=Scripted(script=thinks), streaming=False),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # dozens, of the framework's own
@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_an_agent_gets_the_best_from_its_tool(
    agent: Callable[[Any], Any], tool: Callable[[SecondPassRerank], Any]
) -> None:
    scorer = Overlap()

    async def go() -> list[ToolCallResult]:
        handler = agent(tool(by_overlap(scorer, top_n=2))).run(
            "What do red pandas eat?", memory=memory()
        )
        called = [
            event async for event in handler.stream_events() if isinstance(event, ToolCallResult)
        ]
        await handler
        return called

    (called,) = asyncio.run(go())
    assert not called.tool_output.is_error
    assert in_order(called.tool_output.content, ["red", "bear"])
    assert TEXTS["car"] not in called.tool_output.content
    assert "rerank_score" not in called.tool_output.content
    assert len(scorer.queries) == 1
    assert QUERY in scorer.queries[0]
    assert threading.get_ident() not in scorer.threads


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_tool_called_directly(asynchronous: bool) -> None:
    tool = TOOLS["retriever"](by_overlap(top_n=2))
    called = asyncio.run(tool.acall(QUERY)) if asynchronous else tool.call(QUERY)
    assert ids(called.raw_output) == ["red", "bear"]
