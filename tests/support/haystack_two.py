"""Haystack 2 with the names of Haystack 3, so that the same tests run with both.

Haystack 2 has one class of pipelines with `run` and another with `run_async`, neither of which
closes its components, and no chat generator for tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import haystack
import pytest
from haystack import component, default_from_dict, default_to_dict
from haystack.components.generators import chat
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import deserialize_callable, serialize_callable

IS_INSTALLED = hasattr(haystack, "AsyncPipeline")
needs_three = pytest.mark.skipif(IS_INSTALLED, reason="needs Haystack 3")

if IS_INSTALLED:

    class Pipeline(haystack.Pipeline, haystack.AsyncPipeline):  # type: ignore[misc]
        """`run` of the one and `run_async` of the other, and ways to close the components."""

        def close(self) -> None:
            for _, one in self.walk():
                if hasattr(one, "close"):
                    one.close()

        async def close_async(self) -> None:
            for _, one in self.walk():
                if hasattr(one, "close_async"):
                    await one.close_async()

    @component
    class MockChatGenerator:
        """Gives replies one after the other, or those of a function."""

        def __init__(
            self,
            responses: str | ChatMessage | Sequence[str | ChatMessage] = (),
            *,
            response_fn: Callable[..., Any] | None = None,
            model: str = "mock-model",
        ) -> None:
            given = [responses] if isinstance(responses, (str, ChatMessage)) else responses
            self.responses = [_message(one) for one in given]
            self.response_fn = response_fn
            self.model = model
            self.calls = 0

        def to_dict(self) -> dict[str, Any]:
            return default_to_dict(
                self,
                responses=[one.to_dict() for one in self.responses],
                response_fn=self.response_fn and serialize_callable(self.response_fn),
                model=self.model,
            )

        @classmethod
        def from_dict(cls, data: dict[str, Any]) -> MockChatGenerator:
            values = data["init_parameters"]
            values["responses"] = [ChatMessage.from_dict(one) for one in values["responses"]]
            if values["response_fn"]:
                values["response_fn"] = deserialize_callable(values["response_fn"])
            return default_from_dict(cls, data)

        @component.output_types(replies=list[ChatMessage])
        def run(self, messages: list[ChatMessage], tools: Any = None, **_: Any) -> dict[str, Any]:
            if self.response_fn is not None:
                wants_tools = len(inspect.signature(self.response_fn).parameters) > 1
                arguments = (messages, tools) if wants_tools else (messages,)
                return {"replies": [_message(self.response_fn(*arguments))]}
            self.calls += 1
            return {"replies": [self.responses[(self.calls - 1) % len(self.responses)]]}

        @component.output_types(replies=list[ChatMessage])
        async def run_async(
            self, messages: list[ChatMessage], tools: Any = None, **_: Any
        ) -> dict[str, Any]:
            return self.run(messages, tools)


def _message(reply: str | ChatMessage) -> ChatMessage:
    return reply if isinstance(reply, ChatMessage) else ChatMessage.from_assistant(reply)


def install() -> None:
    """Put these in the place of Haystack's, if Haystack 2 is installed.

    And remove the finalizer of the document store, which waits for its threads. The collector may
    call it anywhere, so in a thread that has just begun and holds a lock of `threading`, for which
    that wait then waits forever. The threads end without it too, as soon as the executor that they
    belong to is collected.
    """
    if hasattr(InMemoryDocumentStore, "__del__"):
        del InMemoryDocumentStore.__del__
    if IS_INSTALLED:
        haystack.Pipeline = Pipeline  # type: ignore[misc]
        chat.MockChatGenerator = MockChatGenerator
