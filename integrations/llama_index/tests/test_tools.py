"""LLMs that are asked by a tool, or in words, and what they may do wrong."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.llms import LLMMetadata, MockLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.utils import parse_partial_json
from llama_index.core.schema import NodeWithScore
from llama_index.core.settings import Settings

from llama_index.postprocessor.secondpass import LlamaIndexLLM, SecondPassRerank
from llama_objects import (
    BEST_FIRST,
    LENGTHS,
    QUERY,
    Said,
    Scripted,
    asking,
    honest,
    lengths,
    nodes_of,
    plain,
    scripted,
)
from rotation import rotating
from secondpass import ConfigurationError, Report

KINDS = ("graded", "listwise")


def both_ways(make: Callable[[], SecondPassRerank]) -> tuple[list[NodeWithScore], Report]:
    """What comes out, which is the same whether a caller waits or awaits."""
    ranked, report = make().rerank_nodes(nodes_of(), QUERY)
    again, other = asyncio.run(make().arerank_nodes(nodes_of(), QUERY))
    assert plain(again) == plain(ranked)
    assert outcome_of(other) == outcome_of(report)
    return ranked, report


def outcome_of(report: Report) -> tuple[Any, ...]:
    return report.status, [(issue.code, issue.message, issue.positions) for issue in report.issues]


class Garbling(Scripted):
    """Calls the tool with something that cannot be read."""

    arguments: Any = None

    def get_tool_calls_from_response(self, *args: Any, **kwargs: Any) -> list[ToolSelection]:
        if isinstance(self.arguments, Exception):
            raise type(self.arguments)(*self.arguments.args)
        results = super().get_tool_calls_from_response(*args, **kwargs)
        return [one.model_copy(update={"tool_kwargs": self.arguments}) for one in results]


GARBAGE = [
    {"x": 1},
    {"": None},
    {"ranking": "all of them"},
    {"ranking": [[]]},
    {"ranking": None, "grades": None},
    {"answer": {"answer": {}}},
    {"input": {1, 2}},
    {"when": object()},
    ["no", "mapping"],
    "text",
    7,
    ValueError("Expected at least one tool call, but got 0 tool calls."),
    KeyError("tool_calls"),
    NotImplementedError(),
]


@rotating(arguments=GARBAGE, kind=KINDS)
def test_arguments_that_are_garbage_are_refused(kind: str, arguments: Any) -> None:
    ranked, report = both_ways(lambda: asking(kind, Garbling(arguments=arguments)))
    assert report.status == "unchanged"
    assert lengths(ranked) == list(LENGTHS)
    known = {"reply_refused", "empty_reply", "llm_raised"}
    assert {issue.code for issue in report.issues} - {"asked_again"} <= known


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_in_words_counts_where_no_tool_was_called(kind: str) -> None:
    def in_words(passages: dict[str, str], words: str) -> Said:
        return f"Here:\n```json\n{json.dumps(honest(passages, words))}\n```"

    ranked, report = both_ways(lambda: asking(kind, scripted(in_words)))
    assert (report.status, lengths(ranked)) == ("ok", BEST_FIRST)


def test_last_grade_of_a_truncated_call_is_dropped() -> None:
    """An LLM runs out of tokens within a call, which LlamaIndex completes."""

    def ten_last(passages: dict[str, str], words: str) -> Said:
        grades = {label: 10 - len(text) for label, text in passages.items()}
        written = json.dumps({**grades, [*grades][-1]: 10})
        return parse_partial_json(written[:-2])  # of the 10, only the 1 has come

    ranked, report = both_ways(lambda: asking("graded", scripted(ten_last, finish_reason="length")))
    scored = [one for one in ranked if one.metadata["rerank_status"] == "scored"]
    assert lengths(scored) == [1, 3, 7, 9]
    assert report.status == "partial"


class UnsupportedError(Exception):
    """As SDKs raise it for a model that has no tools."""

    def __init__(self, message: str, status_code: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status_code = status_code
        self.body = {"error": {"message": message}}


NO_TOOLS = [
    TypeError("chat() got an unexpected keyword argument 'tools'"),
    NotImplementedError(),
    AttributeError("tools"),
    UnsupportedError("tools are not supported by this model"),
    UnsupportedError("`tool_choice` must be auto", 422),
]


@rotating(refuses=NO_TOOLS, kind=KINDS)
def test_refused_tools_are_not_sent_again(kind: str, refuses: Exception) -> None:
    created: list[Scripted] = []

    def make() -> SecondPassRerank:
        created.append(scripted(refuses=refuses))
        return asking(kind, created[-1])

    ranked, report = both_ways(make)
    assert (report.status, lengths(ranked)) == ("ok", BEST_FIRST)
    assert [issue.code for issue in report.issues] == ["asked_again"]
    reranker = make()
    for _ in range(3):
        assert lengths(reranker.postprocess_nodes(nodes_of(), query_str=QUERY)) == BEST_FIRST
    offered = [[len(tools) for tools in llm._offered] for llm in created]
    assert offered == [[1, 0], [1, 0], [1, 0, 0, 0]]


@pytest.mark.parametrize(
    ("refuses", "code"),
    [
        (RuntimeError("the server is on fire"), "llm_raised"),
        (UnsupportedError("invalid key", 401), "authentication"),
        (UnsupportedError("no such model", 404), "not_found"),
    ],
    ids=repr,
)
def test_other_errors_do_not_give_up_tools(refuses: Exception, code: str) -> None:
    created: list[Scripted] = []

    def make() -> SecondPassRerank:
        created.append(scripted(refuses=refuses))
        return asking("listwise", created[-1])

    _, report = both_ways(make)
    assert (report.status, report.issues[0].code) == ("unchanged", code)
    assert all(tools for llm in created for tools in llm._offered)


def test_an_llm_of_the_settings_is_not_taken_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = scripted()
    monkeypatch.setattr(Settings, "_llm", llm)
    with pytest.raises(ConfigurationError, match="llm"):
        SecondPassRerank({"method": {"type": "listwise"}})
    assert llm._asked == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_tool_is_the_form_of_the_reply(kind: str) -> None:
    created: list[Scripted] = []

    def make() -> SecondPassRerank:
        created.append(scripted(usage={"prompt_tokens": 11, "completion_tokens": 7}))
        return asking(kind, created[-1])

    ranked, report = both_ways(make)
    assert (report.status, lengths(ranked)) == ("ok", BEST_FIRST)
    usage = report.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 11, 7)
    for llm in created:
        assert llm._required == [True]
        ((tool,),) = llm._offered
        schema = tool["function"]["parameters"]
        labels = re.findall(r'<doc id="([^"]*)">', llm._asked[0][-1].content or "")
        assert len(labels) == 5
        if kind == "graded":
            assert list(schema["properties"]) == schema["required"] == labels
        else:
            array = schema["properties"]["ranking"]
            assert array["items"]["enum"] == labels
            assert (array["minItems"], array["maxItems"]) == (5, 5)


@pytest.mark.parametrize(("fields", "window"), [({}, None), ({"context_window": 8000}, 8000)])
def test_the_context_window_is_that_which_the_llm_has_set(fields: Any, window: Any) -> None:
    class Windowed(MockLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(**fields)

    assert LlamaIndexLLM(Windowed()).context_window == window
