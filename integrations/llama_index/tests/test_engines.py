"""In query engines, chat engines, agents and evaluators, among other postprocessors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.callbacks import CallbackManager
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor import (
    LongContextReorder,
    MetadataReplacementPostProcessor,
    PrevNextNodePostprocessor,
    SimilarityPostprocessor,
)
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import (
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore

from contract import says
from contract_llama_index import ADAPTER
from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_objects import Callbacks, ids, plain

QUERY = "what does the red panda eat"
TEXTS = {
    "car": "A car has four wheels.",
    "owl": "The owl sleeps by day and hunts at night.",
    "tea": "Green tea comes from the leaves of one single bush.",
    "bear": "The brown bear does eat berries.",
    "red": "The red panda does eat bamboo, whatever the weather.",
    "fox": "The red fox is no panda.",
}


class Overlap:
    """Scores by the number of shared words; records the queries."""

    model_name = "overlap"

    def __init__(self) -> None:
        self.queries: list[str] = []

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        self.queries.append(query)
        wanted = set(query.lower().split())
        return [float(len(wanted.intersection(document.lower().split()))) for document in documents]


class Retrieved(BaseRetriever):
    """Retrieves new copies of the nodes each time, as stores do."""

    def __init__(self, *nodes: NodeWithScore) -> None:
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [node.model_copy(deep=True) for node in self.nodes]


def nodes_of(*names: str) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(text=TEXTS[name], id_=name, metadata={"source": f"{name}.md"}),
            score=round(0.9 - index / 10, 6),
        )
        for index, name in enumerate(names or TEXTS)
    ]


def by_overlap(scorer: Any = None, **settings: Any) -> SecondPassRerank:
    return SecondPassRerank({"method": scorer or Overlap(), "log_level": "debug"}, **settings)


def in_order(text: str, names: Sequence[str]) -> bool:
    """Whether the nodes have these texts in this order."""
    places = [text.find(TEXTS[name]) for name in names]
    return -1 not in places and places == sorted(places)


def engine_of(retriever: BaseRetriever, *behind: Any, **settings: Any) -> RetrieverQueryEngine:
    """An engine whose answers contain what the model was shown."""
    return RetrieverQueryEngine.from_args(
        retriever, llm=MockLLM(), node_postprocessors=list(behind), **settings
    )


Ask = Callable[[Any, str], Any]


def inside_a_loop(call: Callable[[], Any]) -> Any:
    """The result of a synchronous call in a thread with a running event loop."""

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


@pytest.fixture(autouse=True)
def _a_model_for_what_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # Engines that generate nothing want an LLM all the same, and the default one needs a key.
    monkeypatch.setattr(Settings, "_llm", MockLLM())
    # LlamaIndex opens a loop where a thread has none, and leaves it open; where the thread has
    # said that it has none, it runs and closes one.
    asyncio.set_event_loop(None)


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
        assert [side for side, _ in handler.seen].count("start") == 2
        assert len(scorer.queries) == 2 * count  # the method is still the same


# ---------------------------------------------------------------------- chats and evaluations

CHATS: dict[str, Callable[[Any, str], Any]] = {
    "chat": lambda engine, message: engine.chat(message),
    "achat": lambda engine, message: asyncio.run(engine.achat(message)),
}


def chatted(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The condensed question; else what the model was shown."""
    shown = messages[-1]["content"]
    return says(QUERY if "Standalone question:" in shown else shown)


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
@pytest.mark.parametrize(
    ("kind", "asked"),
    [(ContextChatEngine, "and the red one?"), (CondensePlusContextChatEngine, QUERY)],
)
def test_chat_engine_ranks_for_its_condensed_question(
    kind: Any, asked: str, chat: Callable[[Any, str], Any]
) -> None:
    scorer = Overlap()
    engine = kind.from_defaults(
        Retrieved(*nodes_of()),
        llm=ADAPTER.llm("Completing", chatted),
        # The default one keeps a connection to a data base open.
        memory=ChatMemoryBuffer.from_defaults(
            chat_history=[ChatMessage(role="user", content="What do pandas eat?")], token_limit=4000
        ),
        node_postprocessors=[by_overlap(scorer, top_n=3)],
    )
    response = chat(engine, "and the red one?")
    expected = by_overlap(top_n=3).postprocess_nodes(nodes_of(), query_str=asked)
    assert scorer.queries == [asked]
    assert plain(response.source_nodes) == plain(expected)
    assert in_order(str(response), ids(expected))
    assert "rerank_status" not in str(response)


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


def store() -> SimpleDocumentStore:
    nodes = {node.node_id: node.node for node in nodes_of()}
    nodes["red"].relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="fox")
    kept = SimpleDocumentStore()
    kept.add_documents(list(nodes.values()))
    return kept


def linked() -> list[NodeWithScore]:
    nodes = nodes_of("car", "bear", "red")
    nodes[2].node.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="fox")
    for node in nodes:
        node.node.metadata["window"] = f"window_{node.node_id}"
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
    results = response.source_nodes
    if isinstance(other(), PrevNextNodePostprocessor):
        assert sorted(ids(results)) == sorted(expected)
    else:
        assert ids(results) == expected
    if isinstance(other(), MetadataReplacementPostProcessor):
        assert [one.text for one in results] == [f"window_{name}" for name in expected]
