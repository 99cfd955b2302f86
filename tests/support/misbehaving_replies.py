"""Malformed and unusual replies of a model that ranks five passages, and LLMs that send them.

Each case is sent in the format that a reranker asks for, so that secondpass and LlamaIndex's own
rerankers can be compared: an answer is a list of (label, grade), best first, and a form serializes
it. ``integrations/llama_index/tests/test_tools.py`` tests what
secondpass promises; ``benchmarks/llama_index_peers.py`` compares all of them.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
        grades: whether an answer has grades, or an order only.
    """

    name: str
    shown: re.Pattern[str]
    written: Callable[[Pairs], str]
    arguments: Callable[[Pairs], dict[str, Any]]
    grades: bool = True


def _keyed(pairs: Pairs) -> str:
    return "{" + ", ".join(f"{json.dumps(str(x))}: {json.dumps(grade)}" for x, grade in pairs) + "}"


def _ranking(pairs: Pairs) -> dict[str, Any]:
    return {"ranking": [label for label, _ in pairs]}


def _documents(pairs: Pairs) -> dict[str, Any]:
    return {"documents": [{"document_number": x, "relevance": grade} for x, grade in pairs]}


_OURS = re.compile(r'<doc id="([^"]*)">(.*?)</doc>', re.S)
_NUMBERED = re.compile(r"Document (\d+):\s+(?:number: \d+\s+)?(grade [^\n]*)")
GRADED = Form("graded", _OURS, _keyed, lambda p: {str(x): grade for x, grade in p})
LISTWISE = Form("listwise", _OURS, lambda p: json.dumps(_ranking(p)), _ranking, grades=False)
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
    grades=False,
)
OURS = (GRADED, LISTWISE)
WORDS = frozenset({LINES, PERMUTATION})
"""Forms that are no JSON."""


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
        graded = [(_label(x), number_of(text)) for x, text in self.shown.items()]
        return sorted(graded, key=lambda pair: -pair[1])


def _label(label: str) -> Any:
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


# ---------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Case:
    """A way to misbehave.

    Attributes:
        say: the reply.
        graded: the status that the report of ``graded`` has, and the code of one of its issues.
        listwise: the same of ``listwise``; empty where the case is about grades.
        meant: what the reply plainly states: grades of passages by their numbers, best first.
        without: forms that the case says nothing of.
        batch_size: passages a question, where more than one question is to be asked.
        limits: of ours; none of the others has any.
        by_tool: the promise where a tool is called, if it is another.
    """

    name: str
    say: Script
    graded: str
    listwise: str
    meant: Mapping[int, float] = field(default_factory=dict)
    without: frozenset[Form] = frozenset()
    batch_size: int | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    by_tool: str = ""

    def promised(self, form: Form, *, by_tool: bool = False) -> tuple[str, str]:
        """Status and code of ours; empty strings where the case says nothing of the form."""
        promise = self.graded if form is GRADED else self.listwise
        if by_tool and promise:
            promise = self.by_tool or promise
        status, _, code = promise.partition(" ")
        return status, code


def plain(*numbers: int) -> dict[int, float]:
    """Passages with the grades that they deserve."""
    return {number: float(number) for number in numbers}


ALL = plain(*sorted(NUMBERS, reverse=True))


REFUSED = "unchanged reply_refused"
OFF_SCALE = "unchanged score_out_of_range"
EMPTY = "unchanged empty_reply"
NO_RETRIES = {"retries": 0}
NOTHING: Mapping[int, float] = {}


def text(name: str, reply: str, promise: str = REFUSED, **more: Any) -> Case:
    """A reply without an answer."""
    return Case(name, lambda _: Said(before=reply), promise, promise, **more)


def around(name: str, before: str, after: str, promise: str = "ok", **more: Any) -> Case:
    """An honest answer, with text around it."""
    say: Script = lambda asked: Said(asked.honest, before, after)  # noqa: E731
    return Case(name, say, promise, promise, meant=ALL, **more)


def answer(
    name: str, change: Callable[[list[tuple[Any, Any]]], Pairs], graded: str, listwise: str,
    meant: Mapping[int, float] = ALL, **more: Any,
) -> Case:  # fmt: skip
    """An answer of the right form, but for what a function changed."""
    return Case(name, lambda asked: Said(change(asked.honest)), graded, listwise, meant, **more)


def edited(name: str, edit: Callable[[str], str], promise: str, **more: Any) -> Case:
    """An honest answer whose text was changed."""
    say: Script = lambda asked: Said(asked.honest, edit=edit)  # noqa: E731
    return Case(name, say, promise, promise, ALL, by_tool=EMPTY, **more)


def grades(name: str, *values: Any, promise: str, meant: Mapping[int, float] = NOTHING) -> Case:
    """Other grades, for the passages from the best to the worst."""

    def changed(honest: list[tuple[Any, Any]]) -> Pairs:
        return [(label, value) for (label, _), value in zip(honest, values, strict=True)]

    without = frozenset({PERMUTATION})
    return answer(name, changed, promise, "", meant, without=without)


def fault(name: str, error: Exception, promise: str, **more: Any) -> Case:
    """A call that fails."""
    return Case(name, lambda _: error, promise, promise, **more)


def _one_fails(error: Reply) -> Script:
    return lambda asked: error if f"grade 9: {MARKER}" in asked.sent else Said(asked.honest)


def _labels(asked: Asked) -> list[Any]:
    return [label for label, _ in asked.honest]


def _another(asked: Asked) -> Said:
    """An answer, and behind it another that contradicts it."""
    both = [asked.form.written(one) for one in (asked.honest, _turned(asked.honest))]
    return Said(before="\n\nNo, wait. Rather:\n\n".join(both))


def _turned(honest: list[tuple[Any, Any]]) -> Pairs:
    return [(label, 10 - grade) for label, grade in reversed(honest)]


def _thought(asked: Asked, end: str) -> Said:
    draft = asked.form.written(_turned(asked.honest))
    return Said(asked.honest if end else None, f"<think>Perhaps\n{draft}\nbut no.{end}")


HONEST = Case("an honest answer", lambda asked: Said(asked.honest), "ok", "ok", ALL)
"""What all of them can read: the test of the table itself."""

CASES = [
    # What the known failures of LlamaIndex's own are about.
    text("refusal", "I'm sorry, but I can't help with that."),
    text("empty", "", EMPTY),
    answer("names 2 of 5", lambda h: h[:2], "partial not_in_reply", "partial not_in_reply",
           plain(9, 7)),
    answer("names one twice", lambda h: [*h, h[0]], "ok", "ok doubled_label"),
    answer("index 0 beside the others", lambda h: [(0, 10), *h], "ok unknown_label",
           "ok unknown_label"),
    answer("index -7 beside the others", lambda h: [(-7, 10), *h], "ok unknown_label",
           "ok unknown_label"),
    answer("index 99 beside the others", lambda h: [(99, 10), *h], "ok unknown_label",
           "ok unknown_label"),
    Case("counts from 0", lambda asked: Said(list(zip(range(5), (9, 7, 5, 3, 1), strict=True))),
         REFUSED, REFUSED),
    grades("“Relevance: high” for the best", "high", 7, 5, 3, 1, promise="partial grade_refused",
           meant=plain(7, 5, 3, 1)),
    grades("“high”, “medium” and “low”", "high", "high", "medium", "low", "low",
           promise=REFUSED, meant=ALL),
    grades("0.95, 7.9 and -9", 0.95, 7.9, 5, 3, -9, promise=OFF_SCALE,
           meant={7: 7.9, 5: 5, 3: 3, 9: 0.95, 1: -9}),
    Case("bullets", lambda asked: Said(before="\n".join(
        f"* [{label}] ({grade}/10)" for label, grade in asked.honest)), REFUSED, REFUSED,
        ALL),
    Case("a numbered list", lambda asked: Said(before="\n".join(
        f"{index}. [{label}]" for index, label in enumerate(_labels(asked), start=1))),
        REFUSED, REFUSED, ALL),
    Case("JSON pairs", lambda asked: Said(before=json.dumps(
        [{"id": label, "score": grade} for label, grade in asked.honest])), "ok", "ok",
        ALL),
    Case("a JSON array of ids", lambda asked: Said(before=json.dumps(_labels(asked))), REFUSED,
         "ok", ALL),
    Case("a reason after each", lambda asked: Said(before="\n".join(
        f"Doc: {label}, Relevance: {grade}, for it names wombats" for label, grade in asked.honest
    )), REFUSED, REFUSED, ALL),
    around("a reason after the answer", "", "\n\nReason: 5 of them, of 1899, name wombats."),
    text("digits in prose", "Result: 4, of the 5 passages: 2 were relevant in 1899."),
    around("digits in prose before the answer", "Of the 5 documents: 1, I think: 4.\n", ""),
    Case("closed <think>", lambda asked: _thought(asked, "</think>\n"), "ok", "ok", ALL),
    Case("<think> that breaks off", lambda asked: _thought(asked, ""), REFUSED, REFUSED),
    fault("the call fails", RuntimeError(f"401 sk-secret-key {MARKER}"), "unchanged llm_raised"),
    fault("the call times out", TimeoutError("timed out"), "unchanged", limits=NO_RETRIES),
    fault("no connection", ConnectionError("refused"), "unchanged", limits=NO_RETRIES),
    Case("one of three batches fails", _one_fails(RuntimeError("the server failed")),
         "partial llm_raised", "", plain(7, 5, 3, 1), frozenset({PERMUTATION}), 2),
    Case("one of three batches refuses", _one_fails(Said(before="I can't say.")),
         "partial reply_refused", "", plain(7, 5, 3, 1), frozenset({PERMUTATION}), 2),
    Case("never answers", lambda _: NEVER, "unchanged deadline", "unchanged deadline",
         limits={"deadline": 0.2}),
    # More of the same kind.
    text("white space", " \n\t\n ", EMPTY),
    text("null", "null"),
    text("an empty object", "{}"),
    text("an empty array", "[]"),
    text("a page of HTML", "<html><body><h1>502 Bad Gateway</h1><p>[1, 2]</p></body></html>"),
    text("two megabytes of apology", "I'm sorry, but I can't help: no, never. " * 50_000),
    text("the example of the prompt", "Doc: 9, Relevance: 7\nDoc: 3, Relevance: 4"),
    Case("says the question again", lambda asked: Said(before=asked.sent), REFUSED, REFUSED),
    Case("the passages instead of ids", lambda asked: Said(
        [(passage, number_of(passage)) for passage in asked.shown.values()]), REFUSED, REFUSED),
    Case("every id twice", lambda asked: Said([*asked.honest, *asked.honest]), "ok",
         "ok doubled_label", ALL),
    answer("one twice, with two grades", lambda h: [*h, (h[0][0], 1)], "partial grade_refused",
           "", plain(7, 5, 3, 1), without=frozenset({PERMUTATION}), by_tool="ok"),
    answer("worst first, with the right grades", lambda h: h[::-1], "ok", "", ALL,
           without=frozenset({PERMUTATION})),
    answer("ids backwards", lambda h: [(str(x)[::-1] + "!", g) for x, g in h], REFUSED, REFUSED),
    answer("ids in capitals", lambda h: [(str(x).upper(), g) for x, g in h], "ok", "ok"),
    answer("ids with blanks around", lambda h: [(f" {x} ", g) for x, g in h], "ok", "ok"),
    answer("ids of a hallucination", lambda h: [(50 + index, 9 - index) for index in range(5)],
           REFUSED, REFUSED, NOTHING),
    Case("all with the same grade", lambda asked: Said(
        [(_label(x), 5) for x in asked.shown]), "ok", "", without=frozenset({PERMUTATION})),
    grades("NaN", 9, math.nan, 5, 3, 1, promise="partial grade_refused", meant=plain(9, 5, 3, 1)),
    grades("NaN for all", *[math.nan] * 5, promise=REFUSED, meant=ALL),
    grades("infinity", math.inf, 7, 5, 3, 1, promise="partial grade_refused",
           meant=plain(7, 5, 3, 1)),
    grades("grades as strings", "9", "7", "5", "3", "1", promise="ok", meant=ALL),
    grades("null, list, object, true", 9, None, [7], {"score": 5}, True,
           promise="partial grade_refused", meant={9: 9, 5: 7, 3: 5}),
    grades("grades beyond the scale", 90, 70, 50, 3, 1, promise=OFF_SCALE,
           meant=plain(3, 1)),
    grades("“9/10”", "9/10", "7/10", "5/10", "3/10", "1/10", promise=REFUSED, meant=ALL),
    grades("a grade of four hundred digits", 10**400, 7, 5, 3, 1,
           promise=OFF_SCALE, meant=plain(7, 5, 3, 1)),
    around("a code fence", "```json\n", "\n```"),
    around("courtesies", "Certainly! Here is the ranking:\n\n", "\n\nI hope this helps!"),
    edited("cut in the middle", lambda written: written[: len(written) * 3 // 5], REFUSED),
    edited("without its end", lambda written: written[:-2], REFUSED),
    Case("cut, and says so", lambda asked: Said(
        asked.honest, edit=lambda written: written[: len(written) * 3 // 5], cut=True),
        "partial not_in_reply", "partial not_in_reply", ALL, by_tool=EMPTY),
    edited("single quotes", lambda written: written.replace('"', "'"), "ok",
           without=WORDS),
    edited("a comma too many", lambda written: written[:-1] + "," + written[-1:], "ok",
           without=WORDS),
    Case("two answers that differ", _another, REFUSED, REFUSED),
]  # fmt: skip


# ---------------------------------------------------------------------- LLMs that say it


class _Scripted(LLM):
    """Replies by a script.

    Attributes:
        script: the reply.
        form: that is asked for.
        sent: what it was sent, one text a call.
        tools: how many tools it was given with each call.
    """

    script: Any
    form: Any
    sent: list[str] = []  # noqa: RUF012 - a pydantic field
    tools: list[int] = []  # noqa: RUF012

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
        self.tools.append(len(kwargs.get("tools", ())))
        return self._reply("\n".join(message.content or "" for message in messages))

    def _response(self, reply: Said, kwargs: Mapping[str, Any]) -> ChatResponse:
        message = ChatMessage(role="assistant", content=reply.text(self.form))
        return ChatResponse(message=message, raw=_raw(reply))


def _raw(reply: Said) -> dict[str, Any]:
    return {"choices": [{"finish_reason": "length" if reply.cut else "stop"}]}


class Calling(Chatting, FunctionCallingLLM):
    """A chat model that calls the tool it is given, and says the rest beside.

    Args:
        name: of the tool that it calls; the right one where absent.
        calls: how often it calls it.
        refuses: raised where tools are given.
    """

    name: str | None = None
    calls: int = 1
    refuses: Any = None

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

    def _said(self, messages: Sequence[ChatMessage], kwargs: Mapping[str, Any]) -> Said | None:
        reply = super()._said(messages, kwargs)
        if self.refuses is not None and kwargs.get("tools"):
            raise self.refuses
        return reply

    def _response(self, reply: Said, kwargs: Mapping[str, Any]) -> ChatResponse:
        tools = kwargs.get("tools")
        if not tools or reply.pairs is None:
            return super()._response(reply, kwargs)
        arguments = self.form.arguments(reply.pairs)
        if reply.edit is not None:
            arguments = _parsed(reply.edit(json.dumps(arguments)))
        blocks: list[Any] = [TextBlock(text=reply.before + reply.after)]
        name = self.name or tools[0].metadata.name
        for index in range(self.calls):
            blocks.append(
                ToolCallBlock(tool_call_id=str(index), tool_name=name, tool_kwargs=arguments)
            )
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
