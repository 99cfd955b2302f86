"""Objects of LlamaIndex for tests: nodes, a function calling LLM by a script, handlers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.callbacks import CBEventType
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.llms import LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import Field, PrivateAttr

from llama_index.postprocessor.secondpass import SecondPassReportEvent, SecondPassRerank

KEY = "sk-secret-0123456789"
QUERY = "wombats"
LENGTHS = (3, 7, 1, 9, 5)
BEST_FIRST = [9, 7, 5, 3, 1]
PANDA = "red panda"
"""A query for `pandas`."""


def nodes_of(lengths: Sequence[int] = LENGTHS, **metadata: Any) -> list[NodeWithScore]:
    """Nodes whose grade increases with their length."""
    return [
        NodeWithScore(
            node=TextNode(text="x" * length, id_=f"n{index}", metadata={"at": index, **metadata}),
            score=1 - index / 100,
        )
        for index, length in enumerate(lengths)
    ]


def node(text: str, score: float | None = None, **kwargs: Any) -> NodeWithScore:
    return NodeWithScore(node=TextNode(text=text, **kwargs), score=score)


def pandas() -> list[NodeWithScore]:
    return [
        node("A car has four wheels.", 0.9, id_="car", metadata={"page": 0, "tags": ["a"]}),
        node("The red panda eats bamboo.", 0.8, id_="panda", metadata={"page": 1}),
        node("A panda is a bear.", 0.7, id_="bear"),
    ]


def lengths(nodes: Sequence[NodeWithScore]) -> list[int]:
    return [len(node.node.get_content()) for node in nodes]


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [node.node_id for node in nodes]


def plain(nodes: Sequence[NodeWithScore]) -> list[dict[str, Any]]:
    return [node.to_dict() for node in nodes]


Said = dict[str, Any] | str | Exception


def honest(passages: dict[str, str], words: str) -> dict[str, Any]:
    """Grades or an order by length, as the prompt requests."""
    if '"ranking"' in words:
        return {"ranking": sorted(passages, key=lambda label: -len(passages[label]))}
    return {label: min(10, len(text)) for label, text in passages.items()}


class Scripted(FunctionCallingLLM):
    """A function calling LLM whose replies come from a function of the passages."""

    api_key: str = KEY
    calls_tools: bool = True
    usage: dict[str, int] | None = None
    finish_reason: str | None = None
    refuses: Any = None
    """Raised where tools are given."""

    # In a list, for pydantic would bind a function.
    _says: list[Callable[[dict[str, str], str], Said]] = PrivateAttr(default=[honest])
    _asked: list[list[ChatMessage]] = PrivateAttr(default_factory=list)
    _offered: list[list[dict[str, Any]]] = PrivateAttr(default_factory=list)
    """The tools of each call."""
    _required: list[bool] = PrivateAttr(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name="scripted", is_chat_model=True, is_function_calling_model=self.calls_tools
        )

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[Any],
        user_msg: Any = None,
        chat_history: Any = None,
        tool_required: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        self._required.append(tool_required)
        asked = [] if user_msg is None else [ChatMessage(role="user", content=str(user_msg))]
        return {
            "messages": [*(chat_history or ()), *asked],
            "tools": [tool.metadata.to_openai_tool() for tool in tools],
        }

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        tools = kwargs.get("tools", [])
        self._asked.append(list(messages))
        self._offered.append(tools)
        if tools and self.refuses is not None:
            raise self.refuses
        words = "\n".join(message.content or "" for message in messages)
        shown = dict(re.findall(r'<doc id="([^"]*)">(.*?)</doc>', words, re.DOTALL))
        said = self._says[0](shown, words)
        if isinstance(said, Exception):
            raise said
        extra: dict[str, Any] = {}
        if isinstance(said, dict) and tools:
            extra, said = {"tool_calls": [(tools[0]["function"]["name"], said)]}, ""
        text = said if isinstance(said, str) else json.dumps(said)
        message = ChatMessage(role="assistant", content=text, additional_kwargs=extra)
        raw = {"usage": self.usage, "choices": [{"finish_reason": self.finish_reason}]}
        return ChatResponse(message=message, raw=raw)

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        await asyncio.sleep(0)
        return self.chat(messages, **kwargs)

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        calls = response.message.additional_kwargs.get("tool_calls", [])
        return [
            ToolSelection(tool_id="1", tool_name=name, tool_kwargs=said) for name, said in calls
        ]

    def _not_here(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    complete = stream_chat = stream_complete = _not_here
    acomplete = astream_chat = astream_complete = _not_here


def scripted(reply: Callable[[dict[str, str], str], Said] = honest, **fields: Any) -> Scripted:
    llm = Scripted(**fields)
    llm._says = [reply]
    return llm


def asking(kind: str, llm: Any, **settings: Any) -> SecondPassRerank:
    """A postprocessor with an LLM that logs no errors."""
    return SecondPassRerank({"method": {"type": kind}, "log_level": "debug"}, llm=llm, **settings)


class Events(BaseEventHandler):
    """Records the events of reranking."""

    seen: list[Any] = Field(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "Events"

    def handle(self, event: Any, **kwargs: Any) -> None:
        if isinstance(event, ReRankStartEvent | ReRankEndEvent | SecondPassReportEvent):
            self.seen.append(event)


class Callbacks(BaseCallbackHandler):
    """Records the callbacks of reranking."""

    def __init__(self) -> None:
        super().__init__([], [])
        self.seen: list[tuple[str, Any]] = []

    def on_event_start(self, event_type: Any, payload: Any = None, **kwargs: Any) -> str:
        if event_type == CBEventType.RERANKING:
            self.seen.append(("start", payload))
        return ""

    def on_event_end(self, event_type: Any, payload: Any = None, **kwargs: Any) -> None:
        if event_type == CBEventType.RERANKING:
            self.seen.append(("end", payload))

    def start_trace(self, trace_id: str | None = None) -> None: ...

    def end_trace(self, trace_id: Any = None, trace_map: Any = None) -> None: ...
