"""Query engines and retrievers of retrievers."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager, CBEventType
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.query_engine import RouterQueryEngine, SubQuestionQueryEngine
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool

from llama_engines import (
    QUERY,
    TEXTS,
    Ask,
    Overlap,
    Retrieved,
    Scripted,
    by_overlap,
    echo,
    engine_of,
    ids,
    in_order,
    nodes_of,
)
from llama_index.postprocessor.secondpass import SecondPassReportEvent, SecondPassRerank


class Lengths(BaseEmbedding):
    """Texts are alike that are about as long: crude, but the same every time."""

    def _get_text_embedding(self, text: str) -> list[float]:
        length = math.hypot(len(text), 30.0)
        return [len(text) / length, 30.0 / length]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Reranked(BaseRetriever):
    """A retriever with a second pass of its own."""

    def __init__(self, retriever: BaseRetriever, postprocessor: SecondPassRerank) -> None:
        self.retriever = retriever
        self.postprocessor = postprocessor
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = self.retriever.retrieve(query_bundle)
        return self.postprocessor.postprocess_nodes(nodes, query_bundle)


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


# ---------------------------------------------------------------------- query engines


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
    index = VectorStoreIndex([node.node for node in nodes_of()], embed_model=Lengths())
    first = index.as_retriever(similarity_top_k=6).retrieve(QUERY)
    assert ids(first)[0] != "red"  # or this would show nothing
    engine = index.as_query_engine(
        llm=echo(), similarity_top_k=6, node_postprocessors=[by_overlap(top_n=2)]
    )
    response = ask(engine, QUERY)
    assert ids(response.source_nodes) == ["red", "bear"]
    retrieved = {item.node_id: item.score for item in first}
    for node in response.source_nodes:
        assert node.metadata["retrieval_score"] == retrieved[node.node_id]
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

    results, text = asyncio.run(streamed())
    assert results == ["red", "bear", "fox"]
    assert in_order(text, results)


def test_no_node_is_an_empty_response(ask: Ask) -> None:
    scorer = Overlap()
    assert str(ask(engine_of(Retrieved(), by_overlap(scorer)), QUERY)) == "Empty Response"
    assert scorer.queries == []


def test_a_query_bundle_is_read_by_its_query_string(ask: Ask) -> None:
    scorer = Overlap()
    bundle: Any = QueryBundle(QUERY, custom_embedding_strs=["something else"])
    ask(engine_of(Retrieved(*nodes_of()), by_overlap(scorer)), bundle)
    assert scorer.queries == [QUERY]


def test_query_reports_between_start_and_end_events(ask: Ask, events: list[Any]) -> None:
    ask(engine_of(Retrieved(*nodes_of()), by_overlap(top_n=2)), QUERY)
    start, report, end = events
    assert isinstance(start, ReRankStartEvent)
    assert isinstance(report, SecondPassReportEvent)
    assert isinstance(end, ReRankEndEvent)
    assert (start.top_n, len(start.nodes), ids(end.nodes)) == (2, 6, ["red", "bear"])
    assert report.report["status"] == "ok"
    assert sorted(report.report["left_out"]["top_k"]) == [0, 1, 2, 5]


def test_each_engine_gets_events_of_its_postprocessor() -> None:
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


# ---------------------------------------------------------------------- behind other retrievers


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
    fused = {node.node_id: node.score for node in fusion().retrieve(QUERY)}
    assert len(fused) == 6
    assert ids(response.source_nodes)[:2] == ["red", "bear"]
    assert sorted(ids(response.source_nodes)) == sorted(fused)
    assert scorer.queries == [QUERY]  # what the user asked, not what the fusion made of it
    for node in response.source_nodes:
        assert node.metadata["retrieval_score"] == fused[node.node_id]


@pytest.mark.parametrize("mode", ["reciprocal_rerank", "relative_score", "dist_based_score"])
def test_added_keys_change_hashes_before_a_fusion(mode: Any) -> None:
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
    assert [source.node_id for source in sources if source.node_id in TEXTS] == [
        "bear",
        "tea",
        "fox",
    ]
    assert sorted(scorer.queries) == sorted(question["sub_question"] for question in questions)
