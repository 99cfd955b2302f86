"""Events and spans of LlamaIndex's dispatcher, a server, and one embedded model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from pydantic import Field

from fake_provider import FakeProvider
from llama_llms import Listening
from remembered_model import remember


class Events(BaseEventHandler):
    kinds: tuple[type, ...]
    seen: list[Any] = Field(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "Events"

    def handle(self, event: Any, **kwargs: Any) -> None:
        if isinstance(event, self.kinds):
            self.seen.append(event)


@pytest.fixture
def event_kinds() -> tuple[type, ...]:
    return ReRankStartEvent, ReRankEndEvent


@pytest.fixture
def events(event_kinds: tuple[type, ...]) -> Iterator[list[Any]]:
    root = get_dispatcher()
    handler = Events(kinds=event_kinds)
    root.event_handlers.append(handler)
    yield handler.seen
    root.event_handlers.remove(handler)


@pytest.fixture
def spans() -> Iterator[SimpleSpanHandler]:
    root = get_dispatcher()
    handler = SimpleSpanHandler()
    root.span_handlers.append(handler)
    yield handler
    root.span_handlers.remove(handler)


@pytest.fixture
def listening() -> Iterator[Listening]:
    root, handler = get_dispatcher(), Listening()
    root.event_handlers.append(handler)
    yield handler
    root.event_handlers.remove(handler)


@pytest.fixture(autouse=True)
def _remembered_model(monkeypatch: pytest.MonkeyPatch) -> None:
    remember(monkeypatch)


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as served:
        yield served
