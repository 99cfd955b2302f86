"""The Haystack component under the contract, by itself and in a pipeline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, ClassVar

import haystack_two

haystack_two.install()

from haystack import Document, Pipeline, component, default_from_dict, default_to_dict  # noqa: E402
from haystack.core import serialization  # noqa: E402
from haystack.core.serialization import component_to_dict  # noqa: E402
from haystack.dataclasses import ByteStream, ChatMessage, ToolCall  # noqa: E402

from contract import Carried, Odd  # noqa: E402
from haystack_integrations.components.rankers.secondpass import SecondPassRanker  # noqa: E402
from secondpass import Reranker  # noqa: E402

if hasattr(serialization, "allow_deserialization_module"):  # since Haystack 3
    serialization.allow_deserialization_module(__name__)


def message_of(response: dict[str, Any]) -> ChatMessage:
    """A response in OpenAI's dialect, as Haystack's generator for it would hand it on."""
    choice = response["choices"][0]
    calls = [
        ToolCall("search", json.loads(call["function"]["arguments"]), call["id"])
        for call in choice["message"].get("tool_calls", ())
    ]
    meta = {"finish_reason": choice.get("finish_reason"), "usage": response.get("usage")}
    return ChatMessage.from_assistant(choice["message"]["content"], meta, tool_calls=calls)


@component
class SyncOnly:
    """A chat generator with the one method that is demanded."""

    def __init__(self, answer: Callable[..., Any] | None = None) -> None:
        self.answer = answer
        self.model = "scripted"

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SyncOnly:
        return default_from_dict(cls, data)

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        assert self.answer is not None
        reply = self.answer([{"role": one.role.value, "content": one.text} for one in messages])
        if isinstance(reply, Odd):
            return reply.value
        return {"replies": [message_of(reply)]}


@component
class Both(SyncOnly):
    """One with an asynchronous side."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return SyncOnly.run(self, messages)

    @component.output_types(replies=list[ChatMessage])
    async def run_async(self, messages: list[ChatMessage]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return SyncOnly.run(self, messages)


class Haystack:
    """`SecondPassRanker`."""

    name = "haystack"
    document = ("Document", "Documents")
    names: ClassVar[dict[str, str]] = {
        **{name: name for name in ("model", "top_k", "depth", "dedupe", "batch_size", "device")},
        "floor": "score_threshold",
        "strict": "raise_on_failure",
        "key": "token",
        "prefix": "meta_prefix",
        "llm": "chat_generator",
    }
    unknown = TypeError
    frozen = AttributeError
    llms = ("SyncOnly", "Both")
    members = ("id", "content", "score", "meta", "blob", "embedding")

    def __init__(self) -> None:
        self.pipelines: dict[int, Pipeline] = {}

    def make(self, reranker: Any, **settings: Any) -> SecondPassRanker:
        return SecondPassRanker(
            reranker, **{self.names.get(name, name): value for name, value in settings.items()}
        )

    def core(self, component: SecondPassRanker) -> Reranker:
        return component._reranker

    def given(self, text: Any, id: Any, score: Any = None, metadata: Any = None) -> Document:
        blob = ByteStream(b"image") if text is None else None
        meta = {} if metadata is None else metadata
        return Document(content=text, id=id, score=score, meta=meta, blob=blob, embedding=[0.5])

    def carried(self, document: Document) -> Carried:
        return Carried(document.content, document.id, document.score, document.meta)

    def run(
        self, component: SecondPassRanker, way: str, query: Any, documents: Any, **options: Any
    ) -> tuple[list[Document], dict[str, Any] | None]:
        options = {self.names.get(name, name): value for name, value in options.items()}
        data = {"query": query, "documents": documents, **options}
        if way == "run":
            result = component.run(**data)
        elif way == "run_async":
            result = asyncio.run(component.run_async(**data))
        else:
            pipeline = self.pipeline(component)
            inputs = {"ranker": data}
            if way == "pipeline.run":
                result = pipeline.run(inputs)["ranker"]
            else:
                result = asyncio.run(pipeline.run_async(inputs))["ranker"]
        assert json.loads(json.dumps(result["report"])) == result["report"]
        return result["documents"], result["report"]

    async def arun(
        self, component: SecondPassRanker, query: Any, documents: Any, **options: Any
    ) -> list[Document]:
        result = await component.run_async(query=query, documents=documents, **options)
        return result["documents"]

    def pipeline(self, component: SecondPassRanker) -> Pipeline:
        """The pipeline of a component, which belongs to one only."""
        if id(component) not in self.pipelines:
            self.pipelines[id(component)] = Pipeline()
            self.pipelines[id(component)].add_component("ranker", component)
        return self.pipelines[id(component)]

    def llm(self, kind: str, answer: Callable[[list[dict[str, Any]]], Any]) -> Any:
        return {"SyncOnly": SyncOnly, "Both": Both}[kind](answer)

    def save(self, component: SecondPassRanker) -> str:
        components = {"ranker": component_to_dict(component, "ranker")}
        return json.dumps({**Pipeline().to_dict(), "components": components})

    def load(self, text: str, **more: Any) -> SecondPassRanker:
        pipeline = Pipeline.loads(text)
        loaded = pipeline.get_component("ranker")
        assert isinstance(loaded, SecondPassRanker)
        self.pipelines[id(loaded)] = pipeline
        if more:
            assert loaded.chat_generator is not None
            loaded.chat_generator.answer = more["llm"].answer
        return loaded

    def life(self, component: SecondPassRanker) -> tuple[Any, Any, Any, Any]:
        return (
            component.warm_up,
            component.warm_up_async,
            component.close,
            component.close_async,
        )


ADAPTER = Haystack()
