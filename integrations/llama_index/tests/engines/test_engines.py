"""In query engines, chat engines, agents and evaluators, among other postprocessors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.callbacks import CallbackManager, CBEventType
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine

from llama_engines import (
    QUERY,
    TEXTS,
    Ask,
    Overlap,
    Retrieved,
    Scripted,
    by_overlap,
    engine_of,
    ids,
    in_order,
    memory,
    nodes_of,
)
from llama_nodes import plain


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


CHATS: dict[str, Callable[[Any, str], Any]] = {
    "chat": lambda engine, message: engine.chat(message),
    "achat": lambda engine, message: asyncio.run(engine.achat(message)),
}


def chatted(prompt: str) -> str:
    return QUERY if "Standalone question:" in prompt else prompt


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
