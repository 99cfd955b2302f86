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


@pytest.fixture
def events() -> Iterator[list[Any]]:
    """Start, report and end of each reranking."""
    from llama_index.core.instrumentation import get_dispatcher

    from llama_objects import Events

    root, handler = get_dispatcher(), Events()
    root.event_handlers.append(handler)
    yield handler.seen
    root.event_handlers.remove(handler)


@pytest.fixture
def spans() -> Iterator[SimpleSpanHandler]:
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler

    root, handler = get_dispatcher(), SimpleSpanHandler()
    root.span_handlers.append(handler)
    yield handler
    root.span_handlers.remove(handler)


@pytest.fixture(autouse=True)
def _remembered_model(monkeypatch: pytest.MonkeyPatch) -> None:
    remember(monkeypatch)


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as served:
        yield served
