"""Engines, called in each way, and what they report."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core import Settings
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.llms import MockLLM

from llama_engines import Ask, inside_a_loop
from llama_index.postprocessor.secondpass import SecondPassReportEvent


@pytest.fixture
def event_kinds() -> tuple[type, ...]:
    return ReRankStartEvent, SecondPassReportEvent, ReRankEndEvent


@pytest.fixture(autouse=True)
def _a_model_for_what_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # Engines that generate nothing want an LLM all the same, and the default one needs a key.
    monkeypatch.setattr(Settings, "_llm", MockLLM())
    # LlamaIndex opens a loop where a thread has none, and leaves it open; where the thread has
    # said that it has none, it runs and closes one.
    asyncio.set_event_loop(None)


WAYS: dict[str, Ask] = {
    "sync": lambda engine, query: engine.query(query),
    "sync in a loop": lambda engine, query: inside_a_loop(lambda: engine.query(query)),
    "async": lambda engine, query: asyncio.run(engine.aquery(query)),
}


@pytest.fixture(params=WAYS)
def ask(request: pytest.FixtureRequest) -> Ask:
    return WAYS[request.param]
