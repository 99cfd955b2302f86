"""Between retrievers, joiners, builders and routers, with inputs at run time, and in agents."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.components.joiners.document_joiner import JoinMode
from haystack.components.routers import ConditionalRouter
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import ComponentTool, PipelineTool

from contract import Numbers
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_objects import (
    CASTLES,
    WAYS,
    Broken,
    Result,
    Way,
    asking,
    every_way,
    ids,
    numbered,
    passages,
    retrieving,
)
from rotation import rotating


@every_way
def test_three_retrievers_join_straight_into_it(way: Way) -> None:
    lists = [numbered(5, 3, 1), numbered(5, 3, 1)[1:], numbered(5, 3, 1, 9)[2:]]
    best: dict[str, float] = {}
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker({"method": Numbers()}))
    for index, documents in enumerate(lists):
        for document in documents:
            best[document.id] = max(best.get(document.id, 0.0), document.score or 0.0)
        pipeline.add_component(f"retriever{index}", Given(documents))
        pipeline.connect(f"retriever{index}.documents", "ranker.documents")
    data = asking("ranker", *(f"retriever{index}" for index in range(3)))
    ranked = way(pipeline, data)["ranker"]
    assert [document.content for document in ranked["documents"]] == [*"9531"]
    came = {document.id: document.meta["retrieval_score"] for document in ranked["documents"]}
    assert came == best
    assert len(ranked["report"]["left_out"]["duplicate"]) == 7 - 4


@component
class Given:
    """A retriever that always finds the same."""

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> Result:
        return {"documents": self.documents}


# ---------------------------------------------------------------------- before other components


class ByHash:
    """A number between 0 and 1 that depends on the text alone."""

    model_name = "by-hash"

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        return [zlib.crc32(document.encode()) / 2**32 for document in documents]


@rotating(joined=list(JoinMode), way=WAYS.values(), method=[ByHash, Broken])
def test_a_joiner_behind_it_keeps_its_order(way: Way, joined: JoinMode, method: Any) -> None:
    # Broken leaves the order that came in, whose scores may be anything.
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker({"method": method()}))
    pipeline.add_component("joiner", DocumentJoiner(joined))
    pipeline.connect("ranker.documents", "joiner.documents")
    documents = [Document(id=name, content=name, score=score) for name, score in UNSORTED]
    data = {"ranker": {"query": CASTLES, "documents": documents}}
    result = way(pipeline, data, include_outputs_from={"ranker"})
    ranked = result["ranker"]["documents"]
    scores = [document.score or 0.0 for document in ranked]
    assert scores == sorted(scores, reverse=True)
    assert ids(result["joiner"]["documents"]) == ids(ranked)
    if method is Broken:
        assert ids(ranked) == [name for name, _ in UNSORTED]


UNSORTED = [("a", 0.2), ("b", None), ("c", 0.9), ("d", 0.4), ("e", 0.4)]


# ---------------------------------------------------------------------- branches and loops


@every_way
@pytest.mark.parametrize(("method", "branch"), [("lexical", "good"), (Broken(), "bad")])
def test_a_router_branches_on_the_report(way: Way, method: Any, branch: str) -> None:
    fields = ("output_name", "condition", "output", "output_type")
    rows = [
        ("good", "{{ report['status'] == 'ok' }}", "{{ documents }}", list[Document]),
        ("bad", "{{ report['status'] != 'ok' }}", "{{ report['issues'][0]['code'] }}", str),
    ]
    routes: Any = [dict(zip(fields, row, strict=True)) for row in rows]
    pipeline = retrieving(SecondPassRanker({"method": method}))
    pipeline.add_component("router", ConditionalRouter(routes, unsafe=True))
    pipeline.connect("ranker.documents", "router.documents")
    pipeline.connect("ranker.report", "router.report")
    data = asking("retriever", "ranker")
    result = way(pipeline, data, include_outputs_from={"ranker"})
    assert set(result["router"]) == {branch}
    if branch == "good":
        assert ids(result["router"]["good"]) == ids(result["ranker"]["documents"])
    else:
        assert result["router"]["bad"] == "scorer_raised"
    assert set(result["ranker"]) == {"documents", "report"}


@component
class Choices:
    """Chooses how to rank, as a planner would."""

    @component.output_types(top_k=int, depth=int, floor=float, order=str, rule=dict[str, Any])
    def run(self, query: str) -> Result:
        return {
            "top_k": 3,
            "depth": 5,
            "floor": 2.5,
            "order": "learn",
            "rule": {"type": "tiers", "field": "at", "tiers": [4, 2]},
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
    data = {"choices": {"query": CASTLES}, "ranker": {"query": CASTLES, "documents": documents}}
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
        chat_generator=calling("rerank", query=CASTLES, top_k=2),
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
    wanted = SecondPassRanker("lexical").run(CASTLES, passages(), 2)
    assert ids(result["ranked"]) == ids(wanted["documents"])
    assert result["report"]["status"] == "ok"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_saved_agent_calls_a_pipeline_with_it_as_a_tool(asynchronous: bool) -> None:
    tool = PipelineTool(
        retrieving(SecondPassRanker("lexical", top_k=2)),
        name="search",
        description="Finds passages.",
        input_mapping={"query": ["retriever.query", "ranker.query"]},
        output_mapping={"ranker.documents": "documents", "ranker.report": "report"},
        outputs_to_state={"ranked": {"source": "documents"}},
    )
    agent = Agent(
        chat_generator=calling("search", query=CASTLES),
        tools=[tool],
        state_schema={"ranked": {"type": list[Document]}},
        raise_on_tool_invocation_failure=True,
    )
    pipeline = Pipeline()
    pipeline.add_component("agent", agent)
    loaded: Any = Pipeline.loads(pipeline.dumps()).get_component("agent")
    result = run_agent(loaded, asynchronous)
    plain = retrieving(SecondPassRanker("lexical", top_k=2)).run(asking("retriever", "ranker"))
    assert result["ranked"] == plain["ranker"]["documents"]
