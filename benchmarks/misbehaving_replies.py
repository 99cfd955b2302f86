"""LLMs that rank five passages by a script, and the forms in which rerankers ask.

So that secondpass and LlamaIndex's own rerankers can be compared: an answer is a list of
(label, grade), best first, and a form serializes it. ``benchmarks/malformed_replies.py`` has a
table of replies for all of them.
"""

# ruff: noqa: ARG002 - the arguments are those of the base classes
from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms import CustomLLM, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import LLM, ToolSelection
from llama_index.core.schema import NodeWithScore, TextNode

NUMBERS = (3, 9, 5, 1, 7)
"""How good each of the five passages is, in the order that they are retrieved in."""
QUERY = "wombats"
MARKER = "wombats dig at dusk"
"""Stands in every passage, and may stand in no report and no log."""


def nodes() -> list[NodeWithScore]:
    """Five nodes. Two of them share their id, as chunks of a careless loader do."""
    return [
        NodeWithScore(
            node=TextNode(
                text=f"grade {number}: {MARKER}",
                id_=f"chunk-{min(index, 3)}",
                metadata={"number": number},
            ),
            score=0.9 - index / 10,
        )
        for index, number in enumerate(NUMBERS)
    ]


def number_of(text: str) -> int:
    """How good a passage is."""
    match = re.search(r"grade (\d+):", text)
    assert match is not None, "no passage of ours"
    return int(match[1])


# ---------------------------------------------------------------------- forms

Pairs: TypeAlias = Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class Form:
    """How a reranker shows passages, and how it wants to be answered.

    Attributes:
        shown: finds labels and passages in what the model is sent.
        written: an answer as text.
        arguments: the same as what a tool is called with.
    """

    name: str
    shown: re.Pattern[str]
    written: Callable[[Pairs], str]
    arguments: Callable[[Pairs], dict[str, Any]]


def _keyed(pairs: Pairs) -> str:
    return "{" + ", ".join(f"{json.dumps(str(x))}: {json.dumps(grade)}" for x, grade in pairs) + "}"


def _ranking(pairs: Pairs) -> dict[str, Any]:
    return {"ranking": [label for label, _ in pairs]}


def _documents(pairs: Pairs) -> dict[str, Any]:
    return {"documents": [{"document_number": x, "relevance": grade} for x, grade in pairs]}


_OURS = re.compile(r'<doc id="([^"]*)">(.*?)</doc>', re.S)
_NUMBERED = re.compile(r"Document (\d+):\s+(?:number: \d+\s+)?(grade [^\n]*)")
GRADED = Form("graded", _OURS, _keyed, lambda p: {str(x): grade for x, grade in p})
LISTWISE = Form("listwise", _OURS, lambda p: json.dumps(_ranking(p)), _ranking)
LINES = Form(
    "LLMRerank",
    _NUMBERED,
    lambda p: "\n".join(f"Doc: {x}, Relevance: {grade}" for x, grade in p),
    _documents,
)
DOCUMENTS = Form("StructuredLLMRerank", _NUMBERED, lambda p: json.dumps(_documents(p)), _documents)
PERMUTATION = Form(
    "RankGPTRerank",
    re.compile(r"\[(\d+)\] (grade [^\n]*)"),
    lambda p: " > ".join(f"[{x}]" for x, _ in p),
    _ranking,
)


@dataclass(frozen=True)
class Asked:
    """What a model was sent: passages by label, as shown."""

    form: Form
    sent: str

    @property
    def shown(self) -> dict[str, str]:
        """Passages by the labels that they are shown under."""
        results: dict[str, str] = {}
        for label, text in self.form.shown.findall(self.sent):
            results.setdefault(label, text)
        return results

    @property
    def honest(self) -> list[tuple[Any, Any]]:
        """Each label with the grade of its passage, best first."""
        graded = [(label_of(x), number_of(text)) for x, text in self.shown.items()]
        return sorted(graded, key=lambda pair: -pair[1])


def label_of(label: str) -> Any:
    return int(label) if label.isdecimal() else label


@dataclass(frozen=True)
class Said:
    """A reply: an answer, with text around it.

    Attributes:
        pairs: the answer; None where there is none.
        edit: changes the answer as it is written down.
        cut: whether the model ran out of tokens.
    """

    pairs: Pairs | None = None
    before: str = ""
    after: str = ""
    edit: Callable[[str], str] | None = None
    cut: bool = False

    def text(self, form: Form) -> str:
        """The reply as text."""
        written = "" if self.pairs is None else form.written(self.pairs)
        return self.before + (self.edit(written) if self.edit else written) + self.after


NEVER = object()
"""No answer, however long the wait."""
_RELEASED = threading.Event()

Reply: TypeAlias = Said | Exception | object
Script: TypeAlias = Callable[[Asked], Reply]


def release() -> None:
    """Release threads that wait for an answer that never comes."""
    _RELEASED.set()
    _RELEASED.clear()


def plain(*numbers: int) -> dict[int, float]:
    """Passages with the grades that they deserve."""
    return {number: float(number) for number in numbers}


ALL = plain(*sorted(NUMBERS, reverse=True))


# ---------------------------------------------------------------------- LLMs that say it


class _Scripted(LLM):
    """Replies by a script.

    Attributes:
        script: the reply.
        form: that is asked for.
        sent: what it was sent, one text a call.
    """

    script: Any
    form: Any
    sent: list[str] = []  # noqa: RUF012 - a pydantic field

    def _reply(self, sent: str) -> Said | None:
        """What is said; None for nothing, ever."""
        self.sent.append(sent)
        reply = self.script(Asked(self.form, sent))
        if isinstance(reply, Exception):
            # A new one each time: tracebacks pile up on one that is raised again and again.
            raise type(reply)(*reply.args)
        return None if reply is NEVER else reply

    def _not_here(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    complete = stream_complete = acomplete = astream_complete = _not_here
    stream_chat = astream_chat = _not_here


class Completing(CustomLLM, _Scripted):
    """A completion model, as most that people write themselves; it blocks."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="completing")

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        reply = self._reply(prompt)
        if reply is None:
            _RELEASED.wait(60)
            raise TimeoutError
        raw = {"choices": [{"finish_reason": "length" if reply.cut else "stop"}]}
        return CompletionResponse(text=reply.text(self.form), raw=raw)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


class Chatting(_Scripted):
    """A chat model with asynchronous methods."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="chatting", is_chat_model=True)

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        reply = self._said(messages, kwargs)
        if reply is None:
            _RELEASED.wait(60)
            raise TimeoutError
        return self._response(reply, kwargs)

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        reply = self._said(messages, kwargs)
        if reply is None:
            await asyncio.sleep(60)
            raise TimeoutError
        await asyncio.sleep(0)
        return self._response(reply, kwargs)

    def _said(self, messages: Sequence[ChatMessage], kwargs: Mapping[str, Any]) -> Said | None:
        return self._reply("\n".join(message.content or "" for message in messages))

    def _response(self, reply: Said, kwargs: Mapping[str, Any]) -> ChatResponse:
        message = ChatMessage(role="assistant", content=reply.text(self.form))
        return ChatResponse(message=message, raw=_raw(reply))


def _raw(reply: Said) -> dict[str, Any]:
    return {"choices": [{"finish_reason": "length" if reply.cut else "stop"}]}


class Calling(Chatting, FunctionCallingLLM):
    """A chat model that calls the tool it is given, and says the rest beside."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="calling", is_chat_model=True, is_function_calling_model=True)

    def _prepare_chat_with_tools(
        self,
        tools: Any,
        user_msg: Any = None,
        chat_history: Any = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        message = [user_msg] if isinstance(user_msg, ChatMessage) else []
        return {"messages": [*(chat_history or ()), *message], "tools": list(tools)}

    def _response(self, reply: Said, kwargs: Mapping[str, Any]) -> ChatResponse:
        tools = kwargs.get("tools")
        if not tools or reply.pairs is None:
            return super()._response(reply, kwargs)
        arguments = self.form.arguments(reply.pairs)
        if reply.edit is not None:
            arguments = _parsed(reply.edit(json.dumps(arguments)))
        blocks: list[Any] = [TextBlock(text=reply.before + reply.after)]
        name = tools[0].metadata.name
        blocks.append(ToolCallBlock(tool_call_id="0", tool_name=name, tool_kwargs=arguments))
        return ChatResponse(message=ChatMessage(role="assistant", blocks=blocks), raw=_raw(reply))

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        blocks = [one for one in response.message.blocks if isinstance(one, ToolCallBlock)]
        if not blocks and error_on_no_tool_call:
            raise ValueError("no tool was called")
        return [
            ToolSelection(tool_id=one.tool_call_id, tool_name=one.tool_name,
                          tool_kwargs=one.tool_kwargs)
            for one in blocks
        ]  # fmt: skip


def _parsed(arguments: str) -> dict[str, Any]:
    """As LLMs of LlamaIndex read arguments that are no JSON."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
