"""Events and spans of LlamaIndex's dispatcher, a server, and one embedded model.

LlamaIndex takes seconds to import, which the process that distributes tests to others is spared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from fake_provider import FakeProvider
from remembered_model import remember

if TYPE_CHECKING:
    from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler

    from llama_llms import Listening


@pytest.fixture
def event_kinds() -> tuple[type, ...]:
    from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent

    return ReRankStartEvent, ReRankEndEvent


@pytest.fixture
def events(event_kinds: tuple[type, ...]) -> Iterator[list[Any]]:
    from llama_index.core.instrumentation import get_dispatcher

    from llama_llms import Events

    root = get_dispatcher()
    handler = Events(kinds=event_kinds)
    root.event_handlers.append(handler)
    yield handler.seen
    root.event_handlers.remove(handler)


@pytest.fixture
def spans() -> Iterator[SimpleSpanHandler]:
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler

    root = get_dispatcher()
    handler = SimpleSpanHandler()
    root.span_handlers.append(handler)
    yield handler
    root.span_handlers.remove(handler)


@pytest.fixture
def listening() -> Iterator[Listening]:
    from llama_index.core.instrumentation import get_dispatcher

    from llama_llms import Listening

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
