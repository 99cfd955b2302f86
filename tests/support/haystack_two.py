"""Haystack 2 with the names of Haystack 3, so that the same tests run with both.

Haystack 2 has one class of pipelines with `run` and another with `run_async`, neither of which
closes its components, and no chat generator for tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import haystack
from haystack import component, default_from_dict, default_to_dict
from haystack.components.generators import chat
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore

IS_INSTALLED = hasattr(haystack, "AsyncPipeline")

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
        """Gives replies one after the other."""

        def __init__(
            self,
            responses: str | ChatMessage | Sequence[str | ChatMessage] = (),
            *,
            model: str = "mock-model",
        ) -> None:
            given = [responses] if isinstance(responses, (str, ChatMessage)) else responses
            self.responses = [
                one if isinstance(one, ChatMessage) else ChatMessage.from_assistant(one)
                for one in given
            ]
            self.model = model
            self.calls = 0

        def to_dict(self) -> dict[str, Any]:
            return default_to_dict(
                self,
                responses=[one.to_dict() for one in self.responses],
                model=self.model,
            )

        @classmethod
        def from_dict(cls, data: dict[str, Any]) -> MockChatGenerator:
            values = data["init_parameters"]
            values["responses"] = [ChatMessage.from_dict(one) for one in values["responses"]]
            return default_from_dict(cls, data)

        @component.output_types(replies=list[ChatMessage])
        def run(self, messages: list[ChatMessage], tools: Any = None, **_: Any) -> dict[str, Any]:
            self.calls += 1
            return {"replies": [self.responses[(self.calls - 1) % len(self.responses)]]}

        @component.output_types(replies=list[ChatMessage])
        async def run_async(
            self, messages: list[ChatMessage], tools: Any = None, **_: Any
        ) -> dict[str, Any]:
            return self.run(messages, tools)


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
