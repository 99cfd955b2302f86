"""The node postprocessor inside LlamaIndex's own engines, agents, workflows and evaluators.

All objects are LlamaIndex's; only what would need a key is played: language models by scripts,
embeddings by the length of texts.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent, ToolCallResult
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
    ToolCallBlock,
)
from llama_index.core.callbacks import CallbackManager, CBEventType
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.evaluation import (
    BaseEvaluator,
    BatchEvalRunner,
    EvaluationResult,
    RetrieverEvaluator,
)
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.llms import CustomLLM, MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor import (
    KeywordNodePostprocessor,
    LongContextReorder,
    MetadataReplacementPostProcessor,
    PrevNextNodePostprocessor,
    SimilarityPostprocessor,
)
from llama_index.core.query_engine import (
    RetrieverQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import (
    Document,
    ImageNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step
from pydantic import Field

from llama_index.postprocessor.secondpass import SecondPassReportEvent, SecondPassRerank

QUERY = "what does the red panda eat"
TEXTS = {
    "car": "A car has four wheels.",
    "owl": "The owl sleeps by day and hunts at night.",
    "tea": "Green tea comes from the leaves of one single bush.",
    "bear": "The brown bear does eat berries.",
    "red": "The red panda does eat bamboo, whatever the weather.",
    "fox": "The red fox is no panda.",
}
KEYS = (
    "rerank_score",
    "rerank_final_score",
    "retrieval_score",
    "rerank_rank",
    "rerank_status",
)
PATIENCE = 30.0
"""Seconds after which something that should have come long ago counts as missing."""


class Overlap:
    """Counts the words that query and text share; keeps the queries."""

    model_name = "overlap"

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.threads: set[int] = set()

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        self.queries.append(query)
        self.threads.add(threading.get_ident())
        wanted = set(query.lower().split())
        return [float(len(wanted.intersection(one.lower().split()))) for one in documents]


class Lengths(BaseEmbedding):
    """Texts are alike that are about as long: crude, but the same every time."""

    def _get_text_embedding(self, text: str) -> list[float]:
        length = math.hypot(len(text), 30.0)
        return [len(text) / length, 30.0 / length]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Retrieved(BaseRetriever):
    """Retrieves new copies of the nodes each time, as stores do."""

    def __init__(self, *nodes: NodeWithScore) -> None:
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [one.model_copy(deep=True) for one in self.nodes]


class Reranked(BaseRetriever):
    """A retriever with a second pass of its own."""

    def __init__(self, retriever: BaseRetriever, postprocessor: SecondPassRerank) -> None:
        self.retriever = retriever
        self.postprocessor = postprocessor
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = self.retriever.retrieve(query_bundle)
        return self.postprocessor.postprocess_nodes(nodes, query_bundle)


class Scripted(CustomLLM):
    """A completion model that answers by a function."""

    script: Callable[[str], str] = Field(exclude=True)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", context_window=16000)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self.script(prompt))

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Iterator[CompletionResponse]:
        text = ""
        for word in self.script(prompt).split(" "):
            text += f"{word} "
            yield CompletionResponse(text=text, delta=f"{word} ")


class Callbacks(BaseCallbackHandler):
    def __init__(self) -> None:
        super().__init__([], [])
        self.started: list[CBEventType] = []

    def on_event_start(self, event_type: Any, payload: Any = None, **kwargs: Any) -> str:
        self.started.append(event_type)
        return ""

    def on_event_end(self, event_type: Any, payload: Any = None, **kwargs: Any) -> None: ...

    def start_trace(self, trace_id: str | None = None) -> None: ...

    def end_trace(self, trace_id: Any = None, trace_map: Any = None) -> None: ...


class Events(BaseEventHandler):
    seen: list[Any] = Field(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "Events"

    def handle(self, event: Any, **kwargs: Any) -> None:
        if isinstance(event, ReRankStartEvent | SecondPassReportEvent | ReRankEndEvent):
            self.seen.append(event)


@pytest.fixture
def events() -> Iterator[list[Any]]:
    root = get_dispatcher()
    handler = Events()
    root.event_handlers.append(handler)
    yield handler.seen
    root.event_handlers.remove(handler)


@pytest.fixture(autouse=True)
def _a_model_for_what_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # Engines that generate nothing want an LLM all the same, and the default one needs a key.
    monkeypatch.setattr(Settings, "_llm", MockLLM())
    # LlamaIndex opens a loop where a thread has none, and leaves it open; where the thread has
    # said that it has none, it runs and closes one.
    asyncio.set_event_loop(None)


def nodes_of(*names: str, falling_from: float = 0.9) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(text=TEXTS[name], id_=name, metadata={"source": f"{name}.md"}),
            score=round(falling_from - at / 10, 6),
        )
        for at, name in enumerate(names or TEXTS)
    ]


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [one.node_id for one in nodes]


def plain(nodes: Sequence[NodeWithScore]) -> list[dict[str, Any]]:
    return [one.to_dict() for one in nodes]


def by_overlap(scorer: Any = None, **given: Any) -> SecondPassRerank:
    return SecondPassRerank({"method": scorer or Overlap(), "log_level": "debug"}, **given)


def in_order(text: str, names: Sequence[str]) -> bool:
    """Whether the texts of these nodes stand in this order."""
    places = [text.find(TEXTS[name]) for name in names]
    return -1 not in places and places == sorted(places)


def echo() -> MockLLM:
    """Answers with its prompt, so that answers tell what the model was shown."""
    return MockLLM()


def engine_of(
    retriever: BaseRetriever, *behind: Any, llm: Any = None, **given: Any
) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(
        retriever, llm=llm or echo(), node_postprocessors=list(behind), **given
    )


Ask = Callable[[Any, str], Any]


def inside_a_loop(call: Callable[[], Any]) -> Any:
    """What a synchronous call gives in a thread whose event loop runs."""

    async def go() -> Any:
        return call()

    return asyncio.run(go())


WAYS: dict[str, Ask] = {
    "sync": lambda engine, query: engine.query(query),
    "sync in a loop": lambda engine, query: inside_a_loop(lambda: engine.query(query)),
    "async": lambda engine, query: asyncio.run(engine.aquery(query)),
}


@pytest.fixture(params=WAYS)
def ask(request: pytest.FixtureRequest) -> Ask:
    return WAYS[request.param]


# ---------------------------------------------------------------- query engines


@pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize", "accumulate", "no_text"])
@pytest.mark.parametrize("use_async", [False, True])
def test_a_query_engine_shows_the_best_first(mode: Any, use_async: bool, ask: Ask) -> None:
    engine = engine_of(
        Retrieved(*nodes_of()), by_overlap(top_n=3), response_mode=mode, use_async=use_async
    )
    response = ask(engine, QUERY)
    assert ids(response.source_nodes) == ["red", "bear", "fox"]
    if mode != "no_text":
        # A refined answer repeats what it refines, so the last of each is looked at.
        shown = str(response)
        assert in_order(shown, ["red", "bear", "fox"]) or mode == "refine"
        assert TEXTS["red"] in shown
        assert "rerank_score" not in shown
        assert "source: red.md" in shown


def test_an_index_as_query_engine(ask: Ask) -> None:
    index = VectorStoreIndex([one.node for one in nodes_of()], embed_model=Lengths())
    first = index.as_retriever(similarity_top_k=6).retrieve(QUERY)
    assert ids(first)[0] != "red"  # or this would show nothing
    engine = index.as_query_engine(
        llm=echo(), similarity_top_k=6, node_postprocessors=[by_overlap(top_n=2)]
    )
    response = ask(engine, QUERY)
    assert ids(response.source_nodes) == ["red", "bear"]
    retrieved = {one.node_id: one.score for one in first}
    for one in response.source_nodes:
        assert one.metadata["retrieval_score"] == retrieved[one.node_id]
    assert ids(index.as_retriever(similarity_top_k=6).retrieve(QUERY)) == ids(first)
    stored = index.docstore.get_node("red")
    assert stored.metadata == {"source": "red.md"}


def test_streaming_sync_and_async() -> None:
    engine = engine_of(Retrieved(*nodes_of()), by_overlap(top_n=3), streaming=True, use_async=True)
    response = engine.query(QUERY)
    assert ids(response.source_nodes) == ["red", "bear", "fox"]
    assert in_order("".join(response.response_gen), ["red", "bear", "fox"])

    async def streamed() -> tuple[list[str], str]:
        response = await engine.aquery(QUERY)
        parts = [part async for part in response.async_response_gen()]
        return ids(response.source_nodes), "".join(parts)

    found, text = asyncio.run(streamed())
    assert found == ["red", "bear", "fox"]
    assert in_order(text, found)


def test_no_node_is_an_empty_response(ask: Ask) -> None:
    scorer = Overlap()
    assert str(ask(engine_of(Retrieved(), by_overlap(scorer)), QUERY)) == "Empty Response"
    assert scorer.queries == []


def test_a_query_bundle_is_read_by_its_query_string(ask: Ask) -> None:
    scorer = Overlap()
    bundle: Any = QueryBundle(QUERY, custom_embedding_strs=["something else"])
    ask(engine_of(Retrieved(*nodes_of()), by_overlap(scorer)), bundle)
    assert scorer.queries == [QUERY]


def test_a_query_tells_its_report_between_start_and_end(ask: Ask, events: list[Any]) -> None:
    ask(engine_of(Retrieved(*nodes_of()), by_overlap(top_n=2)), QUERY)
    start, report, end = events
    assert isinstance(start, ReRankStartEvent)
    assert isinstance(report, SecondPassReportEvent)
    assert isinstance(end, ReRankEndEvent)
    assert (start.top_n, len(start.nodes), ids(end.nodes)) == (2, 6, ["red", "bear"])
    assert report.report["status"] == "ok"
    assert sorted(report.report["left_out"]["top_k"]) == [0, 1, 2, 5]


def test_each_engine_hears_of_the_rerankings_of_its_postprocessor() -> None:
    scorer = Overlap()
    postprocessor = by_overlap(scorer)
    for count in (1, 2):
        handler = Callbacks()
        manager = CallbackManager([handler])
        engine = engine_of(Retrieved(*nodes_of()), postprocessor, callback_manager=manager)
        assert postprocessor.callback_manager is manager
        engine.query(QUERY)
        asyncio.run(engine.aquery(QUERY))
        assert handler.started.count(CBEventType.RERANKING) == 2
        assert len(scorer.queries) == 2 * count  # the method is still the same


# ---------------------------------------------------------------- chat engines

CHATS: dict[str, Callable[[Any, str], Any]] = {
    "chat": lambda engine, message: engine.chat(message),
    "achat": lambda engine, message: asyncio.run(engine.achat(message)),
}


def memory(*messages: ChatMessage) -> ChatMemoryBuffer:
    """The default one keeps a connection to a data base open."""
    return ChatMemoryBuffer.from_defaults(chat_history=list(messages), token_limit=4000)


def chatted(prompt: str) -> str:
    return QUERY if "Standalone question:" in prompt else prompt


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
@pytest.mark.parametrize(
    ("kind", "asked"),
    [(ContextChatEngine, "and the red one?"), (CondensePlusContextChatEngine, QUERY)],
)
def test_a_chat_engine_ranks_for_the_question_that_it_makes(
    kind: Any, asked: str, chat: Callable[[Any, str], Any]
) -> None:
    scorer = Overlap()
    engine = kind.from_defaults(
        Retrieved(*nodes_of()),
        llm=Scripted(script=chatted),
        memory=memory(ChatMessage(role="user", content="What do pandas eat?")),
        node_postprocessors=[by_overlap(scorer, top_n=3)],
    )
    response = chat(engine, "and the red one?")
    expected = by_overlap(top_n=3).postprocess_nodes(nodes_of(), query_str=asked)
    assert scorer.queries == [asked]
    assert plain(response.source_nodes) == plain(expected)
    assert in_order(str(response), ids(expected))
    assert "rerank_status" not in str(response)


@pytest.mark.parametrize("kind", [ContextChatEngine, CondensePlusContextChatEngine])
def test_a_chat_engine_that_streams(kind: Any) -> None:
    def engine() -> Any:
        return kind.from_defaults(
            Retrieved(*nodes_of()),
            llm=Scripted(script=chatted),
            memory=memory(),
            node_postprocessors=[by_overlap(top_n=3)],
        )

    async def streamed() -> str:
        response = await engine().astream_chat(QUERY)
        return "".join([part async for part in response.async_response_gen()])

    assert in_order("".join(engine().stream_chat(QUERY).response_gen), ["red", "bear", "fox"])
    assert in_order(asyncio.run(streamed()), ["red", "bear", "fox"])


# ---------------------------------------------------------------- behind other retrievers


@pytest.mark.parametrize("mode", ["reciprocal_rerank", "dist_based_score", "simple"])
@pytest.mark.parametrize("use_async", [False, True])
def test_behind_a_fusion(mode: Any, use_async: bool, ask: Ask) -> None:
    def fusion() -> QueryFusionRetriever:
        return QueryFusionRetriever(
            [
                Retrieved(*nodes_of("car", "owl", "red", "bear")),
                Retrieved(*nodes_of("fox", "red", "tea", "car")),
            ],
            llm=Scripted(script=lambda prompt: "red panda food\nbamboo"),
            num_queries=3,
            mode=mode,
            use_async=use_async,
            similarity_top_k=6,
        )

    scorer = Overlap()
    response = ask(engine_of(fusion(), by_overlap(scorer)), QUERY)
    fused = {one.node_id: one.score for one in fusion().retrieve(QUERY)}
    assert len(fused) == 6
    assert ids(response.source_nodes)[:2] == ["red", "bear"]
    assert sorted(ids(response.source_nodes)) == sorted(fused)
    assert scorer.queries == [QUERY]  # what the user asked, not what the fusion made of it
    for one in response.source_nodes:
        assert one.metadata["retrieval_score"] == fused[one.node_id]


@pytest.mark.parametrize("mode", ["reciprocal_rerank", "relative_score", "dist_based_score"])
def test_in_front_of_a_fusion_what_is_added_changes_hashes(mode: Any) -> None:
    # The hash of a TextNode covers all its metadata, and fusion knows nodes by their hash.
    lists = [nodes_of("red", "bear", "fox"), nodes_of("bear", "red", "owl")]
    fusion = QueryFusionRetriever(
        [Reranked(Retrieved(*one), by_overlap()) for one in lists],
        llm=echo(), num_queries=1, mode=mode, use_async=False, similarity_top_k=9,
    )  # fmt: skip
    bundle = QueryBundle(QUERY)
    assert len(fusion._retrieve(bundle)) == 6  # "red" and "bear" twice
    again = engine_of(fusion, by_overlap(dedupe=True)).retrieve(bundle)
    assert ids(again)[:2] == ["red", "bear"]
    assert sorted(ids(again)) == ["bear", "fox", "owl", "red"]
    # Fused first, each node is one.
    fusion = QueryFusionRetriever(
        [Retrieved(*one) for one in lists],
        llm=echo(), num_queries=1, mode=mode, use_async=False, similarity_top_k=9,
    )  # fmt: skip
    assert len(fusion._retrieve(bundle)) == 4


def test_a_router_leads_to_an_engine_with_a_second_pass(ask: Ask) -> None:
    shared = by_overlap(top_n=1)
    tools = [
        QueryEngineTool.from_defaults(
            engine_of(Retrieved(*nodes_of(*names)), shared), name=name, description=name
        )
        for name, names in (("things", ("car", "tea")), ("animals", ("owl", "red", "fox")))
    ]
    chosen = Scripted(script=lambda prompt: '[{"choice": 2, "reason": "it is an animal"}]')
    router = RouterQueryEngine(
        LLMSingleSelector.from_defaults(llm=chosen), tools, llm=echo(), verbose=False
    )
    assert ids(ask(router, QUERY).source_nodes) == ["red"]


@pytest.mark.parametrize("use_async", [False, True])
def test_sub_questions_share_one_postprocessor(use_async: bool, ask: Ask) -> None:
    scorer = Overlap()
    shared = by_overlap(scorer, top_n=1)
    questions = [
        {"sub_question": "what does the bear eat", "tool_name": "animals"},
        {"sub_question": "what are the leaves of tea", "tool_name": "things"},
        {"sub_question": "which fox is red", "tool_name": "animals"},
    ]
    tools = [
        QueryEngineTool.from_defaults(
            engine_of(Retrieved(*nodes_of(*names)), shared), name=name, description=name
        )
        for name, names in (("things", ("car", "tea")), ("animals", ("owl", "red", "bear", "fox")))
    ]
    asked = Scripted(script=lambda prompt: json.dumps({"items": questions}))
    engine = SubQuestionQueryEngine.from_defaults(
        tools,
        question_gen=LLMQuestionGenerator.from_defaults(llm=asked),
        response_synthesizer=get_response_synthesizer(llm=echo()),
        verbose=False,
        use_async=use_async,
    )
    sources = ask(engine, QUERY).source_nodes
    assert [one.node_id for one in sources if one.node_id in TEXTS] == ["bear", "tea", "fox"]
    assert sorted(scorer.queries) == sorted(one["sub_question"] for one in questions)


# ---------------------------------------------------------------- workflows and agents


class Ranked(Event):
    report: dict[str, Any]


class Search(Workflow):
    """Retrieves, reranks, and tells how that went while it runs."""

    def __init__(self, retriever: BaseRetriever, postprocessor: SecondPassRerank) -> None:
        super().__init__(timeout=PATIENCE)
        self.retriever = retriever
        self.postprocessor = postprocessor

    @step
    async def search(self, ctx: Context, ev: StartEvent) -> StopEvent:
        found = await self.retriever.aretrieve(ev.query)
        nodes, report = await self.postprocessor.arerank_nodes(found, ev.query, top_n=ev.top_n)
        ctx.write_event_to_stream(Ranked(report=report.to_dict()))
        return StopEvent(result=nodes)


def test_a_workflow_reranks_and_streams_the_report() -> None:
    search = Search(Retrieved(*nodes_of()), by_overlap())

    async def go() -> tuple[list[NodeWithScore], list[dict[str, Any]]]:
        handler = search.run(query=QUERY, top_n=2)
        told = [event.report async for event in handler.stream_events() if type(event) is Ranked]
        return await handler, told

    nodes, (report,) = asyncio.run(go())
    assert ids(nodes) == ["red", "bear"]
    assert (report["status"], report["usage"]["pairs"]) == ("ok", 6)
    json.dumps(report)


def calls_the_tool(messages: Sequence[ChatMessage], **given: Any) -> ChatMessage:
    """A model that uses the tool once and answers with what came back."""
    if messages[-1].role == MessageRole.TOOL:
        return ChatMessage(role="assistant", content=messages[-1].content)
    (tool,) = given["tools"]
    call = ToolCallBlock(
        tool_call_id="1", tool_name=tool.metadata.name, tool_kwargs={"input": QUERY}
    )
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
TOOLS: dict[str, Callable[[SecondPassRerank], Any]] = {
    "retriever": lambda rerank: RetrieverTool.from_defaults(
        Retrieved(*nodes_of()), node_postprocessors=[rerank], name="library", description="books"
    ),
    "query engine": lambda rerank: QueryEngineTool.from_defaults(
        engine_of(Retrieved(*nodes_of()), rerank), name="library", description="books"
    ),
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


# ---------------------------------------------------------------- evaluators


def test_a_retriever_evaluator_measures_the_second_pass() -> None:
    def evaluator(*behind: SecondPassRerank) -> RetrieverEvaluator:
        return RetrieverEvaluator.from_metric_names(
            ["mrr", "hit_rate", "precision"],
            retriever=Retrieved(*nodes_of()),
            node_postprocessors=list(behind),
        )

    shared = by_overlap(top_n=1)
    with_pass = evaluator(shared)
    assert with_pass.node_postprocessors is not None
    assert with_pass.node_postprocessors[0] is shared
    before = evaluator().evaluate(QUERY, ["red"]).metric_vals_dict
    after = with_pass.evaluate(QUERY, ["red"]).metric_vals_dict
    assert before["mrr"] == pytest.approx(1 / 5)
    assert after == {"mrr": 1.0, "hit_rate": 1.0, "precision": 1.0}
    # The evaluator calls the synchronous side from within its own asynchronous one.
    assert asyncio.run(with_pass.aevaluate(QUERY, ["red"])).metric_vals_dict == after
    assert inside_a_loop(lambda: with_pass.evaluate(QUERY, ["red"])).metric_vals_dict == after


def test_a_retriever_evaluator_measures_many_side_by_side() -> None:
    evaluator = RetrieverEvaluator.from_metric_names(
        ["mrr"], retriever=Retrieved(*nodes_of()), node_postprocessors=[by_overlap()]
    )

    async def go() -> list[Any]:
        return await asyncio.gather(
            *(evaluator.aevaluate(text, [name]) for name, text in TEXTS.items())
        )

    assert [one.metric_vals_dict["mrr"] for one in asyncio.run(go())] == [1.0] * len(TEXTS)


class BestIs(BaseEvaluator):
    """Reranks by the synchronous side, inside the loop of the runner."""

    postprocessor: Any = None

    def __init__(self, postprocessor: SecondPassRerank) -> None:
        self.postprocessor = postprocessor

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None: ...

    async def aevaluate(
        self, query: Any = None, response: Any = None, contexts: Any = None, **kwargs: Any
    ) -> EvaluationResult:
        asyncio.get_running_loop()
        nodes = [NodeWithScore(node=TextNode(text=one)) for one in contexts]
        best = self.postprocessor.postprocess_nodes(nodes, query_str=query)[0]
        return EvaluationResult(query=query, passing=best.text == contexts[0], score=best.score)


@pytest.mark.filterwarnings("ignore:asyncio_module:DeprecationWarning")
def test_a_batch_of_evaluations_of_an_engine() -> None:
    shared = by_overlap()
    runner = BatchEvalRunner({"best": BestIs(shared)}, workers=4)
    engine = engine_of(Retrieved(*nodes_of()), shared, response_mode="no_text")
    queries = list(TEXTS.values())
    results = runner.evaluate_queries(engine, queries=queries)["best"]
    assert [one.query for one in results] == queries
    # What was best in the engine still is.
    assert [one.passing for one in results] == [True] * len(queries)


# ---------------------------------------------------------------- nodes of every kind


def odd_nodes() -> list[NodeWithScore]:
    return [
        NodeWithScore(node=TextNode(text=TEXTS["car"], id_="same"), score=None),
        NodeWithScore(node=ImageNode(image_path="panda.png", id_="image"), score=0.9),
        NodeWithScore(node=Document(text=TEXTS["red"], id_="document"), score=None),
        NodeWithScore(node=IndexNode(text=TEXTS["bear"], index_id="other", id_="index"), score=0.1),
        NodeWithScore(
            node=TextNode(text=TEXTS["fox"], id_="same", metadata={"page": 2}), score=0.5
        ),
        NodeWithScore(node=ImageNode(text=TEXTS["tea"], image_path="t.png", id_="both"), score=0.2),
    ]


def test_odd_nodes_come_back_as_what_they_were() -> None:
    nodes = odd_nodes()
    for one in (nodes[0], nodes[3]):
        one.node.relationships = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="book")}
    ranked, report = by_overlap().rerank_nodes(nodes, QUERY)
    again, _ = asyncio.run(by_overlap().arerank_nodes(nodes, QUERY))
    assert plain(again) == plain(ranked)
    assert sorted(ids(ranked)) == sorted(ids(nodes))
    assert [type(one.node) for one in ranked][:2] == [Document, IndexNode]
    assert ranked[1].node.index_id == "other"
    assert ranked[-1].node.image_path == "panda.png"
    assert (report.status, [issue.code for issue in report.issues]) == ("partial", ["no_text"])
    for one in ranked:
        (source,) = [given for given in nodes if given.node.get_content() == one.node.get_content()]
        assert type(one.node) is type(source.node)
        assert one.node.relationships == source.node.relationships
        assert one.metadata["retrieval_score"] == source.score
        assert one.metadata.get("page") == source.metadata.get("page")


def test_odd_nodes_in_an_engine(ask: Ask) -> None:
    nodes = [one for one in odd_nodes() if one.node_id != "same"]
    response = ask(engine_of(Retrieved(*nodes), by_overlap(), SimilarityPostprocessor()), QUERY)
    # A SimilarityPostprocessor drops what has no score; here everything has one.
    assert ids(response.source_nodes) == ["document", "index", "both", "image"]


def test_an_index_node_leads_to_where_it_did() -> None:
    inner = Retrieved(*nodes_of("red"))
    (ranked,) = by_overlap().postprocess_nodes(
        [NodeWithScore(node=IndexNode(text="Animals.", index_id="a", obj=inner))], query_str=QUERY
    )
    assert ranked.node.obj is inner
    assert ids(Retrieved.retrieve(Passing([ranked]), QUERY)) == ["red"]


class Passing(BaseRetriever):
    """Retrieves the very nodes that it was given."""

    def __init__(self, nodes: list[NodeWithScore]) -> None:
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.nodes


# ---------------------------------------------------------------- hashes

plain_values = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


@settings(max_examples=60)
@given(
    text=st.text(max_size=20),
    metadata=st.dictionaries(st.text(max_size=5), plain_values, max_size=3),
    kind=st.sampled_from([TextNode, Document, IndexNode, ImageNode]),
    prefix=st.sampled_from(["", "ours_"]),
)
def test_property_models_are_shown_the_same_before_and_after(
    text: str, metadata: dict[str, Any], kind: Any, prefix: str
) -> None:
    more = {"index_id": "i"} if kind is IndexNode else {}
    node = kind(text=text, id_="n", metadata=dict(metadata), **more)
    before = node.hash
    shown = {mode: node.get_content(mode) for mode in (MetadataMode.LLM, MetadataMode.EMBED)}
    rerank = by_overlap(metadata_prefix=prefix)
    (ranked,) = rerank.postprocess_nodes([NodeWithScore(node=node, score=0.5)], query_str=QUERY)
    assert node.hash == before
    assert {mode: ranked.node.get_content(mode) for mode in shown} == shown
    # What is added is all that differs, so without it the hash is the old one.
    added = {f"{prefix}{key}" for key in KEYS} - metadata.keys()
    for key in added:
        ranked.node.metadata.pop(key, None)
    assert ranked.node.hash == before


def test_the_hash_of_text_nodes_covers_what_is_added() -> None:
    # Images are hashed without metadata; the others are not, whatever is excluded.
    kinds = {TextNode: False, Document: False, ImageNode: True}
    for kind, same in kinds.items():
        node = kind(text=TEXTS["red"])
        (ranked,) = by_overlap().postprocess_nodes([NodeWithScore(node=node)], query_str=QUERY)
        assert (ranked.node.hash == node.hash) is same


def test_an_ingestion_pipeline_knows_reranked_nodes_once_the_keys_are_gone() -> None:
    pipeline = IngestionPipeline(
        transformations=[],
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.DUPLICATES_ONLY,
    )
    nodes = nodes_of()
    assert len(pipeline.run(nodes=[one.node for one in nodes])) == len(nodes)
    ranked = [one.node for one in by_overlap().postprocess_nodes(nodes, query_str=QUERY)]
    without = [one.model_copy(deep=True) for one in ranked]
    for node in without:
        for key in KEYS:
            del node.metadata[key]
    assert pipeline.run(nodes=without) == []
    assert len(pipeline.run(nodes=ranked)) == len(nodes)  # other metadata, other hashes


# ---------------------------------------------------------------- among other postprocessors


def store() -> SimpleDocumentStore:
    nodes = {one.node_id: one.node for one in nodes_of()}
    nodes["red"].relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="fox")
    kept = SimpleDocumentStore()
    kept.add_documents(list(nodes.values()))
    return kept


def linked() -> list[NodeWithScore]:
    nodes = nodes_of("car", "bear", "red")
    nodes[2].node.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="fox")
    for one in nodes:
        one.node.metadata["window"] = f"window_{one.node_id}"
    return nodes


BEHIND: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a cutoff": (lambda: SimilarityPostprocessor(similarity_cutoff=1.5), ["red", "bear"]),
    "reordering": (LongContextReorder, ["red", "car", "bear"]),
    "replacement": (lambda: MetadataReplacementPostProcessor("window"), ["red", "bear", "car"]),
    "next nodes": (
        lambda: PrevNextNodePostprocessor(docstore=store(), num_nodes=1, mode="next"),
        ["red", "fox", "bear", "car"],
    ),
    "another of ours": (lambda: SecondPassRerank("lexical"), ["red", "bear", "car"]),
}


@pytest.mark.parametrize(("other", "expected"), BEHIND.values(), ids=BEHIND)
def test_other_postprocessors_behind(
    other: Callable[[], Any], expected: list[str], ask: Ask
) -> None:
    response = ask(engine_of(Retrieved(*linked()), by_overlap(), other()), QUERY)
    found = response.source_nodes
    if isinstance(other(), PrevNextNodePostprocessor):
        assert sorted(ids(found)) == sorted(expected)
    else:
        assert ids(found) == expected
    if isinstance(other(), MetadataReplacementPostProcessor):
        assert [one.text for one in found] == [f"window_{name}" for name in expected]


FRONT: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a cutoff": (lambda: SimilarityPostprocessor(similarity_cutoff=0.8), ["bear", "car"]),
    "reordering": (LongContextReorder, ["red", "bear", "car"]),
    # The windows share no word with the query, so the order that came in stays.
    "replacement": (lambda: MetadataReplacementPostProcessor("window"), ["car", "bear", "red"]),
    "next nodes": (
        lambda: PrevNextNodePostprocessor(docstore=store(), num_nodes=1, mode="next"),
        ["red", "bear", "fox", "car"],
    ),
}


@pytest.mark.parametrize(("other", "expected"), FRONT.values(), ids=FRONT)
def test_other_postprocessors_in_front(
    other: Callable[[], Any], expected: list[str], ask: Ask
) -> None:
    response = ask(engine_of(Retrieved(*linked()), other(), by_overlap()), QUERY)
    assert ids(response.source_nodes) == expected


@pytest.mark.parametrize("front", [False, True])
def test_keywords_in_front_and_behind(front: bool, ask: Ask) -> None:
    pytest.importorskip("spacy")
    both = [by_overlap(), KeywordNodePostprocessor(required_keywords=["eat"])]
    engine = engine_of(Retrieved(*nodes_of()), *(reversed(both) if front else both))
    assert ids(ask(engine, QUERY).source_nodes) == ["red", "bear"]


def test_what_others_write_reaches_no_node_that_went_in() -> None:
    nodes = linked()
    before = plain(nodes)
    ranked = by_overlap().postprocess_nodes(nodes, query_str=QUERY)
    MetadataReplacementPostProcessor("window").postprocess_nodes(ranked)
    assert plain(nodes) == before


def test_two_passes_after_one_another(ask: Ask) -> None:
    # The first cuts by words, the second decides; the retriever's score stays that of the first.
    first, second = by_overlap(top_n=3), by_overlap(Shortest())
    response = ask(engine_of(Retrieved(*nodes_of()), first, second), QUERY)
    found = response.source_nodes
    assert ids(found) == ["fox", "bear", "red"]
    retrieved = {one.node_id: one.score for one in nodes_of()}
    assert [one.metadata["retrieval_score"] for one in found] == [retrieved[i] for i in ids(found)]
    assert [one.metadata["rerank_rank"] for one in found] == [1, 2, 3]
    assert [one.score for one in found] == [-float(len(TEXTS[name])) for name in ids(found)]


def test_two_passes_that_tell_apart(ask: Ask) -> None:
    passes = [by_overlap(metadata_prefix="a_"), by_overlap(Shortest(), metadata_prefix="b_")]
    found = ask(engine_of(Retrieved(*nodes_of()), *passes), QUERY).source_nodes
    by_words = by_overlap().postprocess_nodes(nodes_of(), query_str=QUERY)
    assert {one.node_id: one.metadata["a_rerank_rank"] for one in found} == {
        one.node_id: one.metadata["rerank_rank"] for one in by_words
    }
    assert [one.metadata["b_rerank_rank"] for one in found] == list(range(1, len(TEXTS) + 1))
    assert {one.node_id: one.metadata["b_retrieval_score"] for one in found} == {
        one.node_id: one.score for one in by_words
    }


class Shortest:
    """The shorter the text, the higher the score."""

    model_name = "shortest"

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        return [-float(len(document)) for document in documents]


# ---------------------------------------------------------------- many at once

QUERIES = [*TEXTS.values(), QUERY, "red fox", "tea leaves", "night owl"]


def engines_that_share(postprocessor: SecondPassRerank) -> list[RetrieverQueryEngine]:
    names = list(TEXTS)
    return [
        engine_of(
            Retrieved(*nodes_of(*names[at:], *names[:at])), postprocessor, response_mode="no_text"
        )
        for at in range(len(names))
    ]


@pytest.mark.parametrize("shared", [by_overlap, lambda: SecondPassRerank("lexical", top_n=3)])
def test_engines_share_one_postprocessor_in_threads_and_tasks(
    shared: Callable[[], SecondPassRerank],
) -> None:
    postprocessor = shared()
    engines = engines_that_share(postprocessor)
    work = [(engines[at % len(engines)], QUERIES[at % len(QUERIES)]) for at in range(64)]
    expected = [plain(engine.query(query).source_nodes) for engine, query in work]
    assert len({json.dumps(one) for one in expected}) > 8  # not all the same

    with ThreadPoolExecutor(16) as threads:
        in_threads = list(threads.map(lambda one: plain(one[0].query(one[1]).source_nodes), work))
    assert in_threads == expected

    async def tasks() -> list[Any]:
        limit = asyncio.Semaphore(32)

        async def one(engine: RetrieverQueryEngine, query: str) -> Any:
            async with limit:
                return plain((await engine.aquery(query)).source_nodes)

        return await asyncio.gather(*(one(engine, query) for engine, query in work))

    assert asyncio.run(tasks()) == expected
    with ThreadPoolExecutor(4) as threads:  # a loop in each of several threads
        for found in threads.map(lambda _: asyncio.run(tasks()), range(4)):
            assert found == expected


def listed(prompt: str) -> str:
    """A listwise judge: the longest first."""
    shown = [part.split('">', 1) for part in prompt.split('<doc id="')[1:]]
    longest = sorted(shown, key=lambda one: -len(one[1].split("</doc>")[0]))
    return json.dumps({"ranking": [label for label, _ in longest]})


def test_an_llm_that_blocks_is_asked_from_every_side(ask: Ask) -> None:
    rerank = SecondPassRerank({"method": "listwise"}, llm=Scripted(script=listed), top_n=2)
    assert ids(ask(engine_of(Retrieved(*nodes_of()), rerank), QUERY).source_nodes) == ["red", "tea"]


class Waiting:
    """Blocks its thread until it is told to go on."""

    model_name = "waiting"

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.told = False

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        self.told = self.go_on.wait(PATIENCE)
        return [float(at) for at in range(len(documents))]

    def listed(self, prompt: str) -> str:
        self.told = self.go_on.wait(PATIENCE)
        return listed(prompt)


def from_a_scorer(waiting: Waiting) -> SecondPassRerank:
    return by_overlap(waiting)


def from_an_llm(waiting: Waiting) -> SecondPassRerank:
    return SecondPassRerank({"method": "listwise"}, llm=Scripted(script=waiting.listed))


ASYNC: dict[str, Callable[[SecondPassRerank], Awaitable[Any]]] = {
    "apostprocess_nodes": lambda rerank: rerank.apostprocess_nodes(nodes_of(), query_str=QUERY),
    "query engine": lambda rerank: engine_of(Retrieved(*nodes_of()), rerank).aquery(QUERY),
    "chat engine": lambda rerank: ContextChatEngine.from_defaults(
        Retrieved(*nodes_of()), llm=echo(), memory=memory(), node_postprocessors=[rerank]
    ).achat(QUERY),
    "tool": lambda rerank: TOOLS["retriever"](rerank).acall(QUERY),
}


@pytest.mark.parametrize("work", ASYNC.values(), ids=ASYNC)
@pytest.mark.parametrize("blocking", [from_a_scorer, from_an_llm])
def test_a_method_that_blocks_does_not_hold_the_loop(
    blocking: Callable[[Waiting], SecondPassRerank],
    work: Callable[[SecondPassRerank], Awaitable[Any]],
) -> None:
    waiting = Waiting()

    async def go() -> int:
        ticks = 0
        ranking = asyncio.ensure_future(work(blocking(waiting)))
        while not ranking.done():
            await asyncio.sleep(0.001)
            ticks += 1
            if ticks == 3:  # the loop ran meanwhile, or this would not be reached
                waiting.go_on.set()
        await ranking
        return ticks

    assert asyncio.run(go()) >= 3
    assert waiting.told
