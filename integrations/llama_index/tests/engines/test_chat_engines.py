"""Chat engines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine

from llama_engines import (
    QUERY,
    Overlap,
    Retrieved,
    Scripted,
    by_overlap,
    ids,
    in_order,
    memory,
    nodes_of,
)
from llama_nodes import plain

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
