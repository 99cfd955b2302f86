"""Inside super components and agents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from haystack import Document, Pipeline, SuperComponent
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import ComponentTool, PipelineTool

from haystack_documents import ids
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_pipelines import QUERY, Result, Way, asking, every_way, passages, retrieving


def search(ranker: SecondPassRanker | None = None) -> SuperComponent:
    return SuperComponent(
        retrieving(ranker or SecondPassRanker("lexical", top_k=3)),
        input_mapping={
            "query": ["retriever.query", "ranker.query"],
            "best": ["ranker.top_k"],
            "arrangement": ["ranker.order"],
        },
        output_mapping={"ranker.documents": "documents", "ranker.report": "report"},
    )


@every_way
def test_inside_a_super_component_it_maps_in_and_out(way: Way) -> None:
    pipeline = Pipeline()
    pipeline.add_component("search", search())
    plain = retrieving(SecondPassRanker("lexical", top_k=3)).run(asking("retriever", "ranker"))
    results = way(pipeline, asking("search"))["search"]
    assert results["documents"] == plain["ranker"]["documents"]
    assert results["report"]["status"] == "ok"
    data = {"search": {"query": QUERY, "best": 4, "arrangement": "lost_in_the_middle"}}
    laid_out = way(pipeline, data)["search"]["documents"]
    four = retrieving(SecondPassRanker("lexical")).run(
        {**asking("retriever"), "ranker": {"query": QUERY, "top_k": 4}}
    )["ranker"]["documents"]
    assert ids(laid_out) == [four[0].id, four[2].id, four[3].id, four[1].id]


def test_saved_super_component_gives_the_same() -> None:
    pipeline = Pipeline()
    pipeline.add_component("search", search())
    text = pipeline.dumps()
    loaded = Pipeline.loads(text)
    assert loaded.dumps() == text
    before, after = (one.run(asking("search"))["search"] for one in (pipeline, loaded))
    assert after["documents"] == before["documents"]
    assert after["report"]["left_out"] == before["report"]["left_out"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_super_component_without_mappings_has_its_sockets(asynchronous: bool) -> None:
    wrapped = SuperComponent(retrieving(SecondPassRanker("lexical")))
    asked = {"query": QUERY, "top_k": 2, "depth": 5, "order": "none", "score_threshold": 0.0}
    result = asyncio.run(wrapped.run_async(**asked)) if asynchronous else wrapped.run(**asked)
    assert set(result) == {"documents", "report"}
    assert len(result["documents"]) == 2


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


@pytest.mark.parametrize("asynchronous", [False, True])
def test_model_may_pass_its_own_documents_to_the_tool(asynchronous: bool) -> None:
    documents = [{"content": "The market."}, {"content": "The castle garden."}]
    agent = Agent(
        chat_generator=calling("rerank", query=QUERY, documents=documents, order="none"),
        tools=[ComponentTool(SecondPassRanker("lexical"), name="rerank")],
        raise_on_tool_invocation_failure=True,
    )
    result = run_agent(agent, asynchronous)
    (call,) = [
        message.tool_call_result for message in result["messages"] if message.tool_call_result
    ]
    assert not call.error
    assert call.result.index("The castle garden.") < call.result.index("The market.")


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("saved", [False, True])
def test_an_agent_calls_a_pipeline_with_it_as_a_tool(asynchronous: bool, saved: bool) -> None:
    tool = PipelineTool(
        retrieving(SecondPassRanker("lexical", top_k=2)),
        name="search",
        description="Finds passages.",
        input_mapping={"query": ["retriever.query", "ranker.query"]},
        output_mapping={"ranker.documents": "documents", "ranker.report": "report"},
        outputs_to_state={"ranked": {"source": "documents"}},
    )
    agent = Agent(
        chat_generator=calling("search", query=QUERY),
        tools=[tool],
        state_schema={"ranked": {"type": list[Document]}},
        raise_on_tool_invocation_failure=True,
    )
    if saved:
        pipeline = Pipeline()
        pipeline.add_component("agent", agent)
        loaded = Pipeline.loads(pipeline.dumps()).get_component("agent")
        assert isinstance(loaded, Agent)
        agent = loaded
    result = run_agent(agent, asynchronous)
    plain = retrieving(SecondPassRanker("lexical", top_k=2)).run(asking("retriever", "ranker"))
    assert result["ranked"] == plain["ranker"]["documents"]
