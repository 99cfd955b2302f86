"""The ranker in real Haystack pipelines: run in every way, nested, paused, saved and shared."""

from __future__ import annotations

import asyncio
import copy
import gc
import hashlib
import http.server
import json
import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from haystack import Document, Pipeline, SuperComponent, component
from haystack.components.agents import Agent
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.embedders import MockDocumentEmbedder, MockTextEmbedder
from haystack.components.generators.chat import (
    FallbackChatGenerator,
    MockChatGenerator,
    OpenAIChatGenerator,
)
from haystack.components.joiners import BranchJoiner, DocumentJoiner
from haystack.components.joiners.document_joiner import JoinMode
from haystack.components.rankers import LostInTheMiddleRanker, MetaFieldRanker
from haystack.components.retrievers import (
    InMemoryBM25Retriever,
    InMemoryEmbeddingRetriever,
    MultiQueryEmbeddingRetriever,
    MultiQueryTextRetriever,
    MultiRetriever,
    TextEmbeddingRetriever,
)
from haystack.components.routers import ConditionalRouter
from haystack.core.errors import BreakpointException, PipelineRuntimeError
from haystack.core.pipeline.breakpoint import load_pipeline_snapshot
from haystack.dataclasses import ByteStream, ChatMessage, ImageContent, SparseEmbedding, ToolCall
from haystack.dataclasses.breakpoints import Breakpoint
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.telemetry._telemetry import pipeline_running
from haystack.tools import ComponentTool, PipelineTool
from haystack.utils import Secret

from fake_provider import FakeProvider
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import MissingExtraError, RerankError
from secondpass.config import preset_names

QUERY = "castle garden"
PASSAGES = (
    "The castle garden opens at nine.",
    "The castle was built in 1386.",
    "The garden of the monastery has herbs.",
    "The market is on Monday.",
    "A garden, a castle, a bridge: the walk takes two hours.",
    "The bridge of the castle was burnt in the war.",
    "Buses leave from the market.",
    "Garden tools are in the shed.",
)
KEYS = {
    "rerank_score",
    "rerank_final_score",
    "retrieval_score",
    "rerank_rank",
    "rerank_status",
}
AT_ONCE = 32

Result = dict[str, Any]


# ---------------------------------------------------------------------- what stands in for models


def worth(query: str, text: str) -> float:
    """A number between 0 and 1 that only this query and this text have."""
    return int.from_bytes(hashlib.sha256(f"{query}|{text}".encode()).digest()[:6]) / 2**48


class ByWorth:
    """Scores by :func:`worth`; takes its time, so that calls overlap."""

    model_name = "by-worth"

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        time.sleep(self.seconds)
        return [worth(query, document) for document in documents]


class Numbers:
    """Scores a document by the number that stands at its end."""

    model_name = "numbers"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        return [float(document.rsplit(maxsplit=1)[-1]) for document in documents]


class Broken:
    """Can't score."""

    model_name = "broken"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        raise OSError("no such model")


def in_order(messages: list[ChatMessage]) -> str:
    """The reply of a model that knows :func:`worth`."""
    text = messages[-1].text or ""
    query = re.search(r"<query>(.*?)</query>", text, re.S)
    assert query is not None
    shown = re.findall(r'<doc id="([^"]*)">(.*?)</doc>', text, re.S)
    best = sorted(shown, key=lambda one: -worth(query.group(1), one[1]))
    return json.dumps({"ranking": [label for label, _ in best]})


@component
class SyncOnly:
    """Has no asynchronous side."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> Result:
        time.sleep(0.002)
        return {"replies": [ChatMessage.from_assistant(in_order(messages))]}


@component
class BothSides:
    """Has an asynchronous side, which keeps the loops that it was awaited in."""

    def __init__(self) -> None:
        self.loops: list[asyncio.AbstractEventLoop] = []

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> Result:
        return {"replies": [ChatMessage.from_assistant(in_order(messages))]}

    @component.output_types(replies=list[ChatMessage])
    async def run_async(self, messages: list[ChatMessage]) -> Result:
        self.loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0.002)
        return {"replies": [ChatMessage.from_assistant(in_order(messages))]}


@component
class ColdGenerator:
    """Can't be warmed up, but answers."""

    def warm_up(self) -> None:
        raise OSError("sk-secret is no key")

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> Result:
        return {"replies": [ChatMessage.from_assistant(in_order(messages))]}


# ---------------------------------------------------------------------- what pipelines are made of


def passages() -> list[Document]:
    return [
        Document(id=f"p{at}", content=text, meta={"page": at, "level": ("hard", "easy")[at % 2]})
        for at, text in enumerate(PASSAGES)
    ]


def numbered(*numbers: float) -> list[Document]:
    """Documents whose content is a number, retrieved in this order."""
    count = len(numbers)
    return [
        Document(id=f"d{at}", content=f"number {number}", score=1 - at / count, meta={"at": at})
        for at, number in enumerate(numbers)
    ]


def store_of(documents: list[Document]) -> InMemoryDocumentStore:
    store = InMemoryDocumentStore()
    store.write_documents(documents)
    return store


def embedded(documents: list[Document]) -> list[Document]:
    made: list[Document] = MockDocumentEmbedder(dimension=8).run(documents)["documents"]
    return made


def retrieving(ranker: SecondPassRanker) -> Pipeline:
    """One retriever, and the ranker behind it."""
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store_of(passages())))
    pipeline.add_component("ranker", ranker)
    pipeline.connect("retriever", "ranker")
    return pipeline


def asking(*names: str, query: str = QUERY) -> Result:
    return {name: {"query": query} for name in names}


def ids(documents: list[Document]) -> list[str]:
    return [document.id for document in documents]


def contents(documents: list[Document]) -> list[str | None]:
    return [document.content for document in documents]


def timeless(result: Result) -> Result:
    """A ranker's output without the time that it took."""
    report = {key: value for key, value in result["report"].items() if key != "seconds"}
    return {**result, "report": report}


def falls(documents: list[Document]) -> bool:
    scores = [document.score or 0.0 for document in documents]
    return scores == sorted(scores, reverse=True)


# ---------------------------------------------------------------------- the ways to run a pipeline


def with_run(pipeline: Pipeline, data: Result, **more: Any) -> Result:
    return pipeline.run(data, **more)


def with_run_async(pipeline: Pipeline, data: Result, **more: Any) -> Result:
    return asyncio.run(pipeline.run_async(data, **more))


def with_generator(pipeline: Pipeline, data: Result, **more: Any) -> Result:
    async def last() -> Result:
        partials = [one async for one in pipeline.run_async_generator(data, **more)]
        return partials[-1]

    return asyncio.run(last())


def with_stream(pipeline: Pipeline, data: Result, **more: Any) -> Result:
    async def result() -> Result:
        handle = pipeline.stream(data, **more)
        async for _ in handle:
            pass
        return handle.result

    return asyncio.run(result())


Way = Callable[..., Result]
WAYS: list[Way] = [with_run, with_run_async, with_generator, with_stream]
every_way = pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])


# ---------------------------------------------------------------------- behind retrievers


@every_way
def test_behind_one_retriever_it_gives_what_it_gives_alone(way: Way) -> None:
    ranker = SecondPassRanker({"method": ByWorth()}, top_k=4)
    result = way(retrieving(ranker), asking("retriever", "ranker"))
    assert set(result) == {"ranker"}
    found = InMemoryBM25Retriever(store_of(passages())).run(query=QUERY)["documents"]
    alone = SecondPassRanker({"method": ByWorth()}, top_k=4).run(QUERY, found)
    assert timeless(result["ranker"]) == timeless(alone)
    assert ids(result["ranker"]["documents"]) != ids(found)[:4]


@every_way
def test_three_retrievers_join_straight_into_it(way: Way) -> None:
    lists = [numbered(5, 3, 1), numbered(5, 3, 1)[1:], numbered(5, 3, 1, 9)[2:]]
    best: dict[str, float] = {}
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker({"method": Numbers()}))
    for at, documents in enumerate(lists):
        for document in documents:
            best[document.id] = max(best.get(document.id, 0.0), document.score or 0.0)
        pipeline.add_component(f"retriever{at}", Given(documents))
        pipeline.connect(f"retriever{at}.documents", "ranker.documents")
    data = asking("ranker", *(f"retriever{at}" for at in range(3)))
    ranked = way(pipeline, data)["ranker"]
    assert contents(ranked["documents"]) == ["number 9", "number 5", "number 3", "number 1"]
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


@every_way
@pytest.mark.parametrize("joined", [None, *JoinMode], ids=str)
def test_words_and_vectors_meet_in_it_or_in_a_joiner_before_it(
    way: Way, joined: JoinMode | None
) -> None:
    store = store_of(embedded(passages()))
    pipeline = Pipeline()
    pipeline.add_component("embedder", MockTextEmbedder(dimension=8))
    pipeline.add_component("vectors", InMemoryEmbeddingRetriever(store, top_k=5))
    pipeline.add_component("words", InMemoryBM25Retriever(store, top_k=5))
    pipeline.add_component("ranker", SecondPassRanker({"method": ByWorth()}))
    pipeline.connect("embedder.embedding", "vectors.query_embedding")
    meeting = "ranker"
    if joined is not None:
        meeting = "joiner"
        pipeline.add_component("joiner", DocumentJoiner(joined))
        pipeline.connect("joiner.documents", "ranker.documents")
    pipeline.connect("vectors.documents", f"{meeting}.documents")
    pipeline.connect("words.documents", f"{meeting}.documents")
    data = {**asking("words", "ranker"), "embedder": {"text": QUERY}}
    result = way(pipeline, data, include_outputs_from={"words", "vectors"})
    found = {*ids(result["words"]["documents"]), *ids(result["vectors"]["documents"])}
    assert len(found) < 10  # both found some
    ranked = result["ranker"]["documents"]
    wanted = {f"p{at}": worth(QUERY, text) for at, text in enumerate(PASSAGES)}
    assert ids(ranked) == sorted(found, key=lambda name: -wanted[name])
    assert result["ranker"]["report"]["status"] == "ok"
    by_words = {one.id: one.score for one in result["words"]["documents"]}
    if joined is None:
        for document in ranked:
            scores = [by_words.get(document.id)] + [
                one.score for one in result["vectors"]["documents"] if one.id == document.id
            ]
            known = [score for score in scores if score is not None]
            assert document.meta["retrieval_score"] == max(known)


@every_way
@pytest.mark.filterwarnings("ignore:'MultiRetriever' is an experimental component")
@pytest.mark.parametrize(
    "retriever",
    [
        lambda store: MultiRetriever(
            retrievers={
                "words": InMemoryBM25Retriever(store),
                "vectors": TextEmbeddingRetriever(
                    retriever=InMemoryEmbeddingRetriever(store),
                    text_embedder=MockTextEmbedder(dimension=8),
                ),
            }
        ),
        lambda store: MultiQueryTextRetriever(retriever=InMemoryBM25Retriever(store)),
        lambda store: MultiQueryEmbeddingRetriever(
            retriever=InMemoryEmbeddingRetriever(store),
            query_embedder=MockTextEmbedder(dimension=8),
        ),
        lambda store: TextEmbeddingRetriever(
            retriever=InMemoryEmbeddingRetriever(store),
            text_embedder=MockTextEmbedder(dimension=8),
        ),
    ],
    ids=["MultiRetriever", "MultiQueryText", "MultiQueryEmbedding", "TextEmbedding"],
)
def test_behind_retrievers_of_retrievers(way: Way, retriever: Any) -> None:
    pipeline = Pipeline()
    first = retriever(store_of(embedded(passages())))
    pipeline.add_component("retriever", first)
    pipeline.add_component("ranker", SecondPassRanker({"method": ByWorth()}, top_k=3))
    pipeline.connect("retriever", "ranker")
    many = "queries" in first.__haystack_input__._sockets_dict
    own = {"queries": [QUERY, "market bus"]} if many else {"query": QUERY}
    data = {**asking("ranker"), "retriever": own}
    result = way(pipeline, data, include_outputs_from={"retriever"})
    found = result["retriever"]["documents"]
    wanted = sorted(found, key=lambda one: -worth(QUERY, one.content))[:3]
    assert ids(result["ranker"]["documents"]) == ids(wanted)


# ---------------------------------------------------------------------- before other components


@every_way
@pytest.mark.parametrize("joined", list(JoinMode), ids=str)
@pytest.mark.parametrize("method", [ByWorth, Broken])
def test_a_joiner_behind_it_keeps_its_order(way: Way, joined: JoinMode, method: Any) -> None:
    # Broken leaves the order that came in, whose scores may be anything.
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker({"method": method()}))
    pipeline.add_component("joiner", DocumentJoiner(joined))
    pipeline.connect("ranker.documents", "joiner.documents")
    documents = [Document(id=name, content=name, score=score) for name, score in UNSORTED]
    data = {"ranker": {"query": QUERY, "documents": documents}}
    result = way(pipeline, data, include_outputs_from={"ranker"})
    ranked = result["ranker"]["documents"]
    assert falls(ranked)
    assert ids(result["joiner"]["documents"]) == ids(ranked)
    if method is Broken:
        assert ids(ranked) == [name for name, _ in UNSORTED]


UNSORTED = [("a", 0.2), ("b", None), ("c", 0.9), ("d", 0.4), ("e", 0.4)]


@every_way
def test_builders_behind_it_get_its_order(way: Way) -> None:
    listing = "{% for one in documents %}{{ one.content }}|{% endfor %}"
    pipeline = retrieving(SecondPassRanker({"method": ByWorth()}, top_k=3))
    pipeline.add_component("prompt", PromptBuilder(listing, required_variables="*"))
    chat = ChatPromptBuilder([ChatMessage.from_user(listing)], required_variables="*")
    pipeline.add_component("chat", chat)
    pipeline.add_component("llm", MockChatGenerator("It opens at nine [2]."))
    referring: Result = {
        "reference_pattern": r"\[(\d+)\]",
        "return_only_referenced_documents": False,
    }
    pipeline.add_component("answers", AnswerBuilder(**referring))
    for name in ("prompt", "chat", "answers"):
        pipeline.connect("ranker.documents", f"{name}.documents")
    pipeline.connect("chat.prompt", "llm.messages")
    pipeline.connect("llm.replies", "answers.replies")
    data = asking("retriever", "ranker", "answers")
    result = way(pipeline, data, include_outputs_from={"ranker", "chat"})
    ranked = result["ranker"]["documents"]
    told = "".join(f"{text}|" for text in contents(ranked))
    assert len(ranked) == 3
    assert result["prompt"]["prompt"] == told
    assert result["chat"]["prompt"][0].text == told
    (answer,) = result["answers"]["answers"]
    assert [one.id for one in answer.documents if one.meta["referenced"]] == [ranked[1].id]
    assert ids(answer.documents) == ids(ranked)
    assert answer.documents[0].meta.keys() >= KEYS


@every_way
def test_other_rankers_behind_it_start_from_its_order(way: Way) -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker({"method": Numbers()}))
    pipeline.add_component("middle", LostInTheMiddleRanker())
    pipeline.add_component("same", MetaFieldRanker("year"))
    linear = MetaFieldRanker("weight", weight=0.25, ranking_mode="linear_score")
    pipeline.add_component("weighed", linear)
    for name in ("middle", "same", "weighed"):
        pipeline.connect("ranker.documents", f"{name}.documents")
    documents = [
        Document(id=f"d{at}", content=f"number {score}", meta={"year": 1386, "weight": weight})
        for at, (score, weight) in enumerate([(0.2, 3), (0.9, 0), (0.5, 1), (0.7, 0)])
    ]
    result = way(
        pipeline,
        {"ranker": {"query": QUERY, "documents": documents}},
        include_outputs_from={"ranker"},
    )
    assert ids(result["ranker"]["documents"]) == ["d1", "d3", "d2", "d0"]
    assert ids(result["middle"]["documents"]) == ["d1", "d2", "d0", "d3"]
    assert ids(result["same"]["documents"]) == ["d1", "d3", "d2", "d0"]
    # Our scores are what it weighs: 0.9 * 0.75 + a share of 0.25 for the place by weight.
    assert ids(result["weighed"]["documents"])[0] == "d1"
    assert falls(result["weighed"]["documents"])


# ---------------------------------------------------------------------- branches and loops


@every_way
@pytest.mark.parametrize(("method", "branch"), [(ByWorth, "good"), (Broken, "bad")])
def test_a_router_branches_on_the_report(way: Way, method: Any, branch: str) -> None:
    routes: Any = [
        {
            "condition": "{{ report['status'] == 'ok' }}",
            "output": "{{ documents }}",
            "output_name": "good",
            "output_type": list[Document],
        },
        {
            "condition": "{{ report['status'] != 'ok' }}",
            "output": "{{ report['issues'][0]['code'] }}",
            "output_name": "bad",
            "output_type": str,
        },
    ]
    pipeline = retrieving(SecondPassRanker({"method": method()}))
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
class Widen:
    """Sends documents back to be judged twice as deep, until the best is good enough."""

    @component.output_types(done=list[Document], again=list[Document], depth=int)
    def run(self, documents: list[Document], report: dict[str, Any]) -> Result:
        if documents[0].meta["rerank_score"] >= 9:
            return {"done": documents}
        return {"again": documents, "depth": 2 * report["usage"]["pairs"]}


@every_way
def test_in_a_loop_it_judges_deeper_until_it_is_good(way: Way) -> None:
    pipeline = Pipeline()
    pipeline.add_component("start", BranchJoiner(list[Document]))
    pipeline.add_component("ranker", SecondPassRanker({"method": Numbers()}, depth=1))
    pipeline.add_component("widen", Widen())
    pipeline.connect("start.value", "ranker.documents")
    pipeline.connect("ranker.documents", "widen.documents")
    pipeline.connect("ranker.report", "widen.report")
    pipeline.connect("widen.again", "start.value")
    pipeline.connect("widen.depth", "ranker.depth")
    documents = numbered(1, 2, 3, 9, 5, 6)
    data = {"start": {"value": documents}, "ranker": {"query": QUERY}}
    result = way(pipeline, data, include_outputs_from={"ranker"})
    # 1, then 2 of 6, then 4: the order of each round is where the next one starts.
    assert result["ranker"]["report"]["usage"]["pairs"] == 4
    done = result["widen"]["done"]
    assert ids(done) == ["d3", "d2", "d1", "d0", "d4", "d5"]
    # What the first retriever said stays, however often it was ranked.
    came = {one.id: one.meta["retrieval_score"] for one in done}
    assert came == {one.id: one.score for one in documents}
    assert [one.meta["rerank_status"] for one in done] == ["scored"] * 4 + ["tail"] * 2


# ---------------------------------------------------------------------- inside something else


def search(ranker: SecondPassRanker | None = None) -> SuperComponent:
    return SuperComponent(
        retrieving(ranker or SecondPassRanker("lexical", top_k=3)),
        input_mapping={
            "query": ["retriever.query", "ranker.query"],
            "best": ["ranker.top_k"],
            "arrangement": ["ranker.order"],
        },
        output_mapping={"ranker.documents": "documents", "ranker.report": "told"},
    )


@every_way
def test_inside_a_super_component_it_maps_in_and_out(way: Way) -> None:
    pipeline = Pipeline()
    pipeline.add_component("search", search())
    plain = retrieving(SecondPassRanker("lexical", top_k=3)).run(asking("retriever", "ranker"))
    found = way(pipeline, asking("search"))["search"]
    assert found["documents"] == plain["ranker"]["documents"]
    assert found["told"]["status"] == "ok"
    data = {"search": {"query": QUERY, "best": 4, "arrangement": "lost_in_the_middle"}}
    laid_out = way(pipeline, data)["search"]["documents"]
    four = retrieving(SecondPassRanker("lexical")).run(
        {**asking("retriever"), "ranker": {"query": QUERY, "top_k": 4}}
    )["ranker"]["documents"]
    assert ids(laid_out) == [four[0].id, four[2].id, four[3].id, four[1].id]


def test_a_super_component_saved_and_loaded_finds_the_same() -> None:
    pipeline = Pipeline()
    pipeline.add_component("search", search())
    text = pipeline.dumps()
    loaded = Pipeline.loads(text)
    assert loaded.dumps() == text
    before, after = (one.run(asking("search"))["search"] for one in (pipeline, loaded))
    assert after["documents"] == before["documents"]
    assert after["told"]["left_out"] == before["told"]["left_out"]


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
def test_an_agent_calls_it_as_a_tool_on_the_documents_of_its_state(asynchronous: bool) -> None:
    tool = ComponentTool(
        SecondPassRanker("lexical"),
        name="rerank",
        inputs_from_state={"found": "documents"},
        outputs_to_state={"ranked": {"source": "documents"}, "told": {"source": "report"}},
    )
    assert set(tool.parameters["required"]) == {"query"}
    assert tool.parameters["properties"]["depth"]["description"].startswith("How many documents")
    agent = Agent(
        chat_generator=calling("rerank", query=QUERY, top_k=2),
        tools=[tool],
        state_schema={
            "found": {"type": list[Document]},
            "ranked": {"type": list[Document]},
            "told": {"type": dict[str, Any]},
        },
        raise_on_tool_invocation_failure=True,
    )
    result = run_agent(agent, asynchronous, found=passages())
    assert result["last_message"].text == "Done."
    wanted = SecondPassRanker("lexical").run(QUERY, passages(), 2)
    assert ids(result["ranked"]) == ids(wanted["documents"])
    assert result["told"]["status"] == "ok"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_model_may_hand_the_tool_documents_of_its_own(asynchronous: bool) -> None:
    documents = [{"content": "The market."}, {"content": "The castle garden."}]
    agent = Agent(
        chat_generator=calling("rerank", query=QUERY, documents=documents, order="none"),
        tools=[ComponentTool(SecondPassRanker("lexical"), name="rerank")],
        raise_on_tool_invocation_failure=True,
    )
    result = run_agent(agent, asynchronous)
    (told,) = [one.tool_call_result for one in result["messages"] if one.tool_call_result]
    assert not told.error
    assert told.result.index("The castle garden.") < told.result.index("The market.")


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


# ---------------------------------------------------------------------- breakpoints


def answering(ranker: SecondPassRanker) -> Pipeline:
    pipeline = retrieving(ranker)
    pipeline.add_component("middle", LostInTheMiddleRanker())
    template = "{{ report.status }}: {% for one in documents %}{{ one.content }}|{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.connect("ranker.documents", "middle.documents")
    pipeline.connect("middle.documents", "prompt.documents")
    pipeline.connect("ranker.report", "prompt.report")
    return pipeline


@pytest.mark.parametrize("where", ["ranker", "middle", "prompt"])
def test_a_run_paused_before_or_after_it_goes_on_as_if_it_had_not_been(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAYSTACK_PIPELINE_SNAPSHOT_SAVE_ENABLED", "true")
    data = {
        "retriever": {"query": QUERY},
        "ranker": {"query": QUERY, "top_k": 3, "order": {"type": "lost_in_the_middle"}},
    }
    shown = {"ranker", "middle"}
    pipeline = answering(SecondPassRanker("lexical"))
    through = pipeline.run(data, include_outputs_from=shown)
    with pytest.raises(BreakpointException):
        pipeline.run(
            data,
            include_outputs_from=shown,
            break_point=Breakpoint(where, snapshot_file_path=str(tmp_path)),
        )
    (file,) = tmp_path.glob("*.json")
    fresh = answering(SecondPassRanker("lexical"))
    resumed = fresh.run({}, pipeline_snapshot=load_pipeline_snapshot(file))
    assert resumed["prompt"] == through["prompt"]
    assert resumed["middle"] == through["middle"]
    assert timeless(resumed["ranker"]) == timeless(through["ranker"])


def test_a_strict_failure_leaves_a_snapshot_to_go_on_from() -> None:
    broken = SecondPassRanker({"method": Broken()}, raise_on_failure=True)
    data = asking("retriever", "ranker")
    with pytest.raises(PipelineRuntimeError, match="strict is set") as raised:
        answering(broken).run(data)
    assert isinstance(raised.value.__cause__, RerankError)
    assert raised.value.pipeline_snapshot is not None
    mended = answering(SecondPassRanker("lexical", raise_on_failure=True))
    resumed = mended.run({}, pipeline_snapshot=raised.value.pipeline_snapshot)
    assert resumed == mended.run(data)


def test_documents_of_every_kind_outlive_a_pause(tmp_path: Path) -> None:
    # Haystack's snapshots make mappings of pictures in metadata, and lists of tuples.
    documents = [one for one in of_every_kind() if one.id not in {"picture", "nested"}]
    data = {"ranker": {"query": QUERY, "documents": documents}}
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker("lexical"))
    pipeline.add_component("joiner", DocumentJoiner(sort_by_score=False))
    pipeline.connect("ranker.documents", "joiner.documents")
    with pytest.raises(BreakpointException) as paused:
        pipeline.run(data, break_point=Breakpoint("joiner"))
    file = tmp_path / "snapshot.json"
    assert paused.value.pipeline_snapshot is not None
    file.write_text(json.dumps(paused.value.pipeline_snapshot.to_dict()), encoding="utf-8")
    resumed = pipeline.run({}, pipeline_snapshot=load_pipeline_snapshot(file))
    assert resumed["joiner"] == pipeline.run(data)["joiner"]


# ---------------------------------------------------------------------- saved and loaded


def openai_generator(model: str) -> OpenAIChatGenerator:
    return OpenAIChatGenerator(api_key=Secret.from_env_var("A_SECRET_KEY"), model=model)


SAVED: dict[str, Callable[[], SecondPassRanker]] = {
    **{f"preset {name}": partial(SecondPassRanker, name) for name in preset_names()},
    "flat": lambda: SecondPassRanker(
        "lexical",
        top_k=2,
        depth=7,
        score_threshold=-1.0,
        meta_fields_to_embed=["page"],
        embedding_separator=" | ",
        query_prefix="q: ",
        query_suffix="?",
        document_prefix="d: ",
        document_suffix=".",
        dedupe=False,
        meta_prefix="second_",
        raise_on_failure=True,
    ),
    "flat token": lambda: SecondPassRanker(
        "cohere", model="other", token=Secret.from_env_var("A_SECRET_KEY"), top_k=2
    ),
    "openai": lambda: SecondPassRanker("attune", chat_generator=openai_generator("one")),
    "fallback of two": lambda: SecondPassRanker(
        {"method": "listwise", "depth": 5},
        chat_generator=FallbackChatGenerator([openai_generator("one"), openai_generator("two")]),
    ),
    "mock": lambda: SecondPassRanker(
        {"method": {"type": "graded", "scale": [0, 3]}}, chat_generator=MockChatGenerator("{}")
    ),
    "mock of messages": lambda: SecondPassRanker(
        {"method": "listwise"},
        chat_generator=MockChatGenerator([ChatMessage.from_assistant("{}"), "[]"], model="m"),
    ),
    "cascade": lambda: SecondPassRanker(
        {
            "method": {"type": "cascade", "stages": ["lexical", {"type": "listwise", "depth": 2}]},
            "blend": {"original": 0.2, "normalize": "minmax"},
            "orders": {"learn": {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]}},
            "limits": {"deadline": 5},
        },
        chat_generator=MockChatGenerator("{}"),
    ),
}

LOADING = """
import json, sys
from haystack import Pipeline

told = {}
for name, text in json.load(sys.stdin).items():
    try:
        told[name] = Pipeline.loads(text).dumps()
    except Exception as error:
        told[name] = f"{type(error).__name__}: {error}"
json.dump(told, sys.stdout)
"""


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, tuple[str, str]]:
    """Each saved pipeline, and what an interpreter that never saw this module makes of it."""
    texts = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("A_SECRET_KEY", "sk-very-secret")
        for name, make in SAVED.items():
            pipeline = Pipeline()
            try:
                pipeline.add_component("ranker", make())
            except MissingExtraError:
                continue
            texts[name] = pipeline.dumps()
    done = subprocess.run(
        [sys.executable, "-c", LOADING],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    return {name: (text, loaded[name]) for name, text in texts.items()}


@pytest.mark.parametrize("name", SAVED)
def test_a_fresh_interpreter_loads_what_was_saved(
    name: str, elsewhere: dict[str, tuple[str, str]]
) -> None:
    if name not in elsewhere:
        pytest.skip("an extra is not installed")
    saved, loaded = elsewhere[name]
    assert loaded == saved
    assert "sk-very-secret" not in saved
    assert ("A_SECRET_KEY" in saved) == (name in {"flat token", "openai", "fallback of two"})


@pytest.mark.parametrize(
    "make",
    [
        lambda: SecondPassRanker("cohere", token=Secret.from_token("sk-very-secret")),
        lambda: SecondPassRanker(
            {"method": "listwise"},
            chat_generator=OpenAIChatGenerator(api_key=Secret.from_token("sk-very-secret")),
        ),
    ],
    ids=["token", "chat generator"],
)
def test_a_token_itself_is_not_saved_and_the_reason_is_told(make: Any) -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", make())
    with pytest.raises(Exception, match="Cannot serialize token-based secret") as raised:
        pipeline.dumps()
    chain: BaseException | None = raised.value
    while chain is not None:
        assert "sk-very-secret" not in str(chain)
        chain = chain.__cause__ or chain.__context__


# ---------------------------------------------------------------------- documents


def of_every_kind() -> list[Document]:
    image = ByteStream(b"\x89PNG", meta={"page": 1}, mime_type="image/png")
    return [
        Document(id="plain", content="castle", score=0.3),
        Document(id="blob", blob=image, meta={"title": "garden"}, score=0.9),
        Document(id="both", content="garden", blob=image),
        Document(
            id="picture",
            content="castle garden",
            meta={"image": ImageContent(base64_image="aGVsbG8=", mime_type="image/png")},
        ),
        Document(id="dense", content="market", embedding=[0.1, -0.2, 1e-30], score=-2.5),
        Document(
            id="sparse",
            content="the castle again",
            sparse_embedding=SparseEmbedding(indices=[1, 7], values=[0.5, 0.25]),
            score=0.0,
        ),
        Document(
            id="nested",
            content="",
            meta={
                "deep": {"list": [1, {"two": [None, False, 0, ""]}], "tuple": (1, 2)},
                "none": None,
                "type": "some.Class",
                "content": "of the metadata",
                "score": 7,
            },
        ),
        Document(content="nameless \u202e castle \x00 \U0001f3f0", meta={"µ": "ß"}),
    ]


def untouched(document: Document) -> Result:
    """Everything of a document but what a ranking sets."""
    told = document.to_dict(flatten=False)
    meta = {key: value for key, value in told["meta"].items() if key not in KEYS}
    return {**told, "meta": meta, "score": None}


@every_way
@pytest.mark.parametrize("method", ["lexical", "broken"])
def test_documents_of_every_kind_pass_untouched(way: Way, method: str) -> None:
    documents = of_every_kind()
    before = copy.deepcopy([document.to_dict(flatten=False) for document in documents])
    ranker = SecondPassRanker({"method": Broken() if method == "broken" else "lexical"})
    pipeline = Pipeline()
    pipeline.add_component("ranker", ranker)
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.connect("ranker.documents", "joiner.documents")
    result = way(pipeline, {"ranker": {"query": QUERY, "documents": documents}})
    assert [document.to_dict(flatten=False) for document in documents] == before
    came = {document.id: untouched(document) for document in result["joiner"]["documents"]}
    assert came == {document.id: untouched(document) for document in documents}
    assert len(result["joiner"]["documents"]) == len(documents)


# ---------------------------------------------------------------------- many at once


MANY: dict[str, Callable[[], SecondPassRanker]] = {
    "scorer": lambda: SecondPassRanker({"method": ByWorth(0.002)}, top_k=5),
    "chat generator": lambda: SecondPassRanker(
        {"method": "listwise"}, chat_generator=BothSides(), raise_on_failure=True
    ),
    "sync chat generator": lambda: SecondPassRanker(
        {"method": {"type": "listwise", "window": 6, "stride": 3}}, chat_generator=SyncOnly()
    ),
    "cascade": lambda: SecondPassRanker(
        {
            "method": {
                "type": "cascade",
                "stages": [ByWorth(0.002), {"type": "listwise", "depth": 4}],
            },
        },
        chat_generator=BothSides(),
    ),
}
every_kind = pytest.mark.parametrize("kind", MANY)


def calls() -> list[tuple[str, list[Document]]]:
    """Queries, each with documents of its own; the same texts have other worth in each."""
    return [
        (
            f"query {at}",
            [
                Document(id=f"{at}-{n}", content=f"passage {(at + n) % 11}", score=1 / (n + 1))
                for n in range(9)
            ],
        )
        for at in range(AT_ONCE)
    ]


@every_kind
def test_many_at_once_in_one_loop_give_what_they_give_one_by_one(kind: str) -> None:
    wanted = [timeless(MANY[kind]().run(*call)) for call in calls()]
    assert all(one["report"]["status"] == "ok" for one in wanted)
    ranker = MANY[kind]()

    async def together() -> list[Result]:
        return await asyncio.gather(*(ranker.run_async(*call) for call in calls()))

    assert [timeless(one) for one in asyncio.run(together())] == wanted


@every_kind
def test_many_threads_get_what_one_gets(kind: str) -> None:
    wanted = [timeless(MANY[kind]().run(*call)) for call in calls()]
    ranker = MANY[kind]()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = list(threads.map(lambda call: timeless(ranker.run(*call)), calls()))
    assert found == wanted


@every_kind
def test_one_pipeline_is_run_many_times_at_once(kind: str) -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", MANY[kind]())
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.connect("ranker.documents", "joiner.documents")
    inputs = [{"ranker": {"query": query, "documents": found}} for query, found in calls()]
    wanted = [ids(MANY[kind]().run(*call)["documents"]) for call in calls()]

    async def together() -> list[Result]:
        return await asyncio.gather(*(pipeline.run_async(data) for data in inputs))

    assert [ids(one["joiner"]["documents"]) for one in asyncio.run(together())] == wanted


# ---------------------------------------------------------------------- event loops


@every_kind
def test_one_component_serves_event_loops_one_after_the_other_and_side_by_side(kind: str) -> None:
    ranker = MANY[kind]()
    asked = calls()[:8]
    wanted = [timeless(MANY[kind]().run(*call)) for call in asked]

    async def work() -> list[Result]:
        await ranker.warm_up_async()
        return await asyncio.gather(*(ranker.run_async(*call) for call in asked))

    for _ in range(2):
        assert [timeless(one) for one in asyncio.run(work())] == wanted
    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(lambda: asyncio.run(work())) for _ in range(4)]
        for future in futures:
            assert [timeless(one) for one in future.result()] == wanted


@every_kind
def test_run_works_while_an_event_loop_runs_in_the_same_thread(kind: str) -> None:
    pipeline = Pipeline()
    ranker = MANY[kind]()
    pipeline.add_component("ranker", ranker)
    query, documents = calls()[3]
    wanted = ids(MANY[kind]().run(query, documents)["documents"])

    async def notebook() -> None:
        # As a cell of a notebook does: a synchronous call where a loop is running.
        data = {"ranker": {"query": query, "documents": documents}}
        assert ids(pipeline.run(data)["ranker"]["documents"]) == wanted
        assert ids((await pipeline.run_async(data))["ranker"]["documents"]) == wanted
        assert ids(pipeline.run(data)["ranker"]["documents"]) == wanted

    asyncio.run(notebook())


@contextmanager
def asking_a_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Pipeline, Result]]:
    """A pipeline whose chat generator is a real client of a server here, and its inputs."""
    monkeypatch.setenv("A_SECRET_KEY", "sk-very-secret")
    with FakeProvider() as provider:
        generator = OpenAIChatGenerator(
            api_key=Secret.from_env_var("A_SECRET_KEY"),
            api_base_url=provider.base_url("openai"),
            model="some-model",
            max_retries=0,
        )
        pipeline = Pipeline()
        ranker = SecondPassRanker({"method": "graded"}, chat_generator=generator)
        pipeline.add_component("ranker", ranker)
        try:
            yield pipeline, {"ranker": {"query": QUERY, "documents": numbered(2, 9, 5)}}
        finally:
            pipeline.close()


@every_way
def test_a_chain_of_generators_answers_when_its_first_cannot(way: Way) -> None:
    def fails(messages: list[ChatMessage]) -> str:
        raise OSError("sk-secret is no key")

    generators: Any = [MockChatGenerator(response_fn=reply) for reply in (fails, in_order)]
    chain = FallbackChatGenerator(generators)
    ranker = SecondPassRanker({"method": "listwise"}, chat_generator=chain)
    result = way(retrieving(ranker), asking("retriever", "ranker"))["ranker"]
    assert result["report"]["status"] == "ok"
    best = sorted(result["documents"], key=lambda one: -worth(QUERY, one.content or ""))
    assert ids(result["documents"]) == ids(best)


def test_a_real_client_is_asked_in_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with asking_a_server(monkeypatch) as (pipeline, data):

        async def life() -> list[Result]:
            results = [await pipeline.run_async(data)]
            async for one in pipeline.run_async_generator(data):
                results.append(one)
            handle = pipeline.stream(data)
            async for _ in handle:
                pass
            # A client of an event loop has to be closed in it, as in any pipeline.
            await pipeline.close_async()
            return [*results, handle.result]

        results = [*asyncio.run(life()), pipeline.run(data), *asyncio.run(life())]
    reports = [result["ranker"]["report"] for result in results]
    assert [report["status"] for report in reports] == ["ok"] * len(reports)
    assert all(report["usage"]["input_tokens"] for report in reports)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_real_client_that_nobody_closes_serves_a_second_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with asking_a_server(monkeypatch) as (pipeline, data):
        results = [asyncio.run(pipeline.run_async(data)) for _ in range(3)]
    del pipeline, data
    gc.collect()  # or connections of closed loops would be complained of in another test
    assert [result["ranker"]["report"]["status"] for result in results] == ["ok"] * 3


# ---------------------------------------------------------------------- run-time inputs


@component
class Choices:
    """Chooses how to rank, as a planner would."""

    @component.output_types(
        top_k=int, depth=int, floor=float, order=str, rule=dict[str, Any], context=dict[str, Any]
    )
    def run(self, query: str) -> Result:
        return {
            "top_k": 3,
            "depth": 5,
            "floor": 2.5,
            "order": "learn",
            "rule": {"type": "tiers", "field": "at", "tiers": [4, 2]},
            "context": {"user": 7},
        }


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


# ---------------------------------------------------------------------- one component does it all


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


@every_way
def test_cascade_blend_and_named_orders_take_one_call_of_one_component(way: Way) -> None:
    found = InMemoryBM25Retriever(store_of(passages())).run(query=QUERY)["documents"]
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
        assert {one.meta["retrieval_score"] for one in result["documents"]} == {
            one.score for one in found
        }
    assert sorted(orders[None]) == sorted(ids(found))
    assert orders["research"] == orders[None]
    level = {one.id: one.meta["level"] for one in found}
    assert orders["learn"] == sorted(orders[None], key=lambda name: level[name] == "hard")
    assert orders["learn"] != orders[None]
    # The blend has a say: without it the order is another.
    best = sorted(found, key=lambda one: -worth(QUERY, one.content or ""))
    assert orders[None] != ids(best)
    assert set(orders[None][:4]) == set(ids(best)[:4])


# ---------------------------------------------------------------------- what is logged and printed


@contextmanager
def listening(name: str) -> Iterator[list[logging.LogRecord]]:
    """What reaches the handlers of this logger, at the level of warnings."""
    heard: list[logging.LogRecord] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record)

    handler = Ear(logging.WARNING)
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield heard
    finally:
        logger.removeHandler(handler)


@every_way
def test_a_degraded_run_logs_one_warning_and_prints_nothing(
    way: Way, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = retrieving(SecondPassRanker({"method": Broken(), "fallback": ["lexical"]}))
    with listening("") as heard:
        result = way(pipeline, asking("retriever", "ranker"))
    assert result["ranker"]["report"]["status"] == "degraded"
    assert [record.levelname for record in heard] == ["WARNING"]
    assert "degraded" in heard[0].getMessage()
    assert "castle" not in heard[0].getMessage()
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_the_warning_of_a_degraded_run_reaches_the_loggers_that_haystack_sets_up() -> None:
    # `haystack.logging.configure_logging` puts its handler onto these names, not onto the root.
    pipeline = retrieving(SecondPassRanker({"method": Broken()}))
    with listening("haystack_integrations") as heard:
        pipeline.run(asking("retriever", "ranker"))
    assert len(heard) == 1


@every_way
def test_a_generator_that_cannot_be_warmed_up_is_told_of_and_fails_nothing(
    way: Way, capsys: pytest.CaptureFixture[str]
) -> None:
    ranker = SecondPassRanker({"method": "listwise"}, chat_generator=ColdGenerator())
    pipeline = retrieving(ranker)
    with listening("haystack_integrations") as heard:
        for _ in range(2):
            result = way(pipeline, asking("retriever", "ranker"))
            assert result["ranker"]["report"]["status"] == "ok"
    (record,) = heard
    assert record.getMessage() == "the chat generator can't be warmed up: OSError"
    # The values by themselves are what structured logs are made of, and only `haystack.logging`
    # leaves them on the record.
    assert record.__dict__["error"] == "OSError"
    assert capsys.readouterr().out == ""


@every_way
def test_a_generator_that_cannot_be_warmed_up_raises_where_failures_shall(way: Way) -> None:
    ranker = SecondPassRanker(
        {"method": "listwise"}, chat_generator=ColdGenerator(), raise_on_failure=True
    )
    pipeline = retrieving(ranker)
    for _ in range(2):
        with pytest.raises(OSError, match="sk-secret is no key"):
            way(pipeline, asking("retriever", "ranker"))


# ---------------------------------------------------------------------- pictures and telemetry


class Mermaid(http.server.BaseHTTPRequestHandler):
    """A server that draws an empty picture."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "image/png")
        self.end_headers()
        self.wfile.write(b"\x89PNG\r\n\x1a\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_a_pipeline_with_it_is_drawn(tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mermaid) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            picture = tmp_path / "pipeline.png"
            answering(SecondPassRanker("default")).draw(
                path=picture, server_url=f"http://127.0.0.1:{server.server_address[1]}"
            )
        finally:
            server.shutdown()
            thread.join()
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_telemetry_tells_its_class_and_nothing_of_its_settings() -> None:
    pipeline = retrieving(SecondPassRanker("lexical", query_prefix="confidential"))
    told = pipeline_running.__wrapped__(pipeline)  # type: ignore[attr-defined]
    event = json.dumps(told)
    assert "SecondPassRanker" in event
    assert "confidential" not in event
