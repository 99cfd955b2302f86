"""The LlamaIndex postprocessor under the contract, by its own methods and the framework's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    MessageRole,
)
from llama_index.core.llms import LLM, CustomLLM, LLMMetadata
from llama_index.core.schema import ImageNode, NodeWithScore, TextNode
from pydantic import PrivateAttr, ValidationError

from contract import Carried, Odd
from llama_index.postprocessor.secondpass import SecondPassRerank
from secondpass import ConfigurationError, Reranker


class Scripted:
    """What both language models have in common."""

    _answer: list[Any] = PrivateAttr(default_factory=list)  # pydantic would bind a function

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", is_chat_model=not isinstance(self, CustomLLM))

    def next(self, messages: Sequence[ChatMessage]) -> Any:
        return self._answer[0]([{"role": m.role.value, "content": m.content} for m in messages])

    def _not_here(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    stream_complete = stream_chat = astream_chat = acomplete = astream_complete = _not_here


class Completing(Scripted, CustomLLM):
    """A completion model, as most that people write themselves; it blocks."""

    acomplete = CustomLLM.acomplete

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        reply = self.next([ChatMessage(role="user", content=prompt)])
        if isinstance(reply, Odd):
            return reply.value
        return CompletionResponse(text=reply["choices"][0]["message"]["content"] or "", raw=reply)


class Chatting(Scripted, LLM):
    """A chat model with an asynchronous side."""

    complete = Scripted._not_here

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        reply = self.next(messages)
        if isinstance(reply, Odd):
            return reply.value
        message = reply["choices"][0]["message"]
        more = {"tool_calls": message["tool_calls"]} if "tool_calls" in message else {}
        return ChatResponse(
            message=ChatMessage(
                role=MessageRole.ASSISTANT, content=message["content"], additional_kwargs=more
            ),
            raw=reply,
        )

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return self.chat(messages)


class LlamaIndex:
    """`SecondPassRerank`."""

    name = "llama_index"
    document = ("NodeWithScore", "NodeWithScore")
    names: ClassVar[dict[str, str]] = {
        **{name: name for name in ("model", "depth", "dedupe", "device", "strict", "order", "llm")},
        "top_k": "top_n",
        "floor": "similarity_cutoff",
        "batch_size": "choice_batch_size",
        "key": "api_key",
        "prefix": "metadata_prefix",
    }
    unknown = ConfigurationError
    frozen = ConfigurationError
    llms = ("Completing", "Chatting")
    members = (
        *("__dict__", "id_", "metadata", "relationships", "embedding"),
        *("excluded_llm_metadata_keys", "excluded_embed_metadata_keys"),
    )

    def make(self, reranker: Any, **settings: Any) -> SecondPassRerank:
        return SecondPassRerank(
            reranker, **{self.names.get(name, name): value for name, value in settings.items()}
        )

    def core(self, component: SecondPassRerank) -> Reranker:
        return component._reranker

    def given(self, text: Any, id: Any, score: Any = None, metadata: Any = None) -> NodeWithScore:
        node: Any = TextNode(text=text) if text is not None else ImageNode(image_path="a.png")
        node.id_, node.metadata = id, {} if metadata is None else metadata
        try:
            return NodeWithScore(node=node, score=score)
        except ValidationError:  # which who builds nodes without validation passes by
            return NodeWithScore.model_construct(node=node, score=score)

    def carried(self, document: NodeWithScore) -> Carried:
        node: Any = document.node
        text = (node.text or None) if isinstance(node, ImageNode) else node.text
        return Carried(text, node.node_id, document.score, node.metadata)

    def run(
        self, component: SecondPassRerank, way: str, query: Any, documents: Any, **options: Any
    ) -> tuple[list[NodeWithScore], dict[str, Any] | None]:
        options = {self.names.get(name, name): value for name, value in options.items()}
        if way == "rerank_nodes":
            nodes, report = component.rerank_nodes(documents, query, **options)
        elif way == "arerank_nodes":
            nodes, report = asyncio.run(component.arerank_nodes(documents, query, **options))
        else:
            with component.query_settings(**options):
                if way == "postprocess_nodes":
                    return component.postprocess_nodes(documents, query_str=query), None
                called = component.apostprocess_nodes(documents, query_str=query)
                return asyncio.run(called), None
        return nodes, report.to_dict()

    async def arun(
        self, component: SecondPassRerank, query: Any, documents: Any, **options: Any
    ) -> list[NodeWithScore]:
        return (await component.arerank_nodes(documents, query, **options))[0]

    def llm(self, kind: str, answer: Callable[[list[dict[str, Any]]], Any]) -> Any:
        llm: Any = {"Completing": Completing, "Chatting": Chatting}[kind]()
        llm._answer = [answer]
        return llm

    def save(self, component: SecondPassRerank) -> str:
        return component.to_json()

    def load(self, text: str, **more: Any) -> SecondPassRerank:
        return SecondPassRerank.from_json(text, **more)

    def life(self, component: SecondPassRerank) -> tuple[Any, Any, Any, Any]:
        return component.warm_up, component.awarm_up, component.close, component.aclose


ADAPTER = LlamaIndex()
