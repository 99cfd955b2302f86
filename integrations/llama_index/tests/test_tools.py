"""LLMs that are asked by a tool, or in words, and what they may do wrong."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.llms import CustomLLM, LLMMetadata
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.utils import parse_partial_json
from llama_index.core.schema import NodeWithScore
from llama_index.core.settings import Settings
from pydantic import PrivateAttr

import misbehaving_replies as replies
from llama_index.postprocessor.secondpass import LlamaIndexLLM, SecondPassRerank
from llama_llms import (
    BEST_FIRST,
    asking,
    lengths,
    nodes_of,
    scripted,
)
from llama_llms import (
    QUERY as WOMBATS,
)
from llama_llms import (
    honest as by_length,
)
from llama_nodes import plain
from misbehaving_replies import (
    GRADED,
    LISTWISE,
    OURS,
    QUERY,
    Asked,
    Calling,
    Completing,
    Form,
    Said,
)
from sampling import rotating
from secondpass import ConfigurationError, Report


@pytest.fixture(autouse=True)
def threads_that_wait() -> Iterator[None]:
    yield
    replies.release()


def reranking(form: Form, llm: Any, **more: Any) -> SecondPassRerank:
    return SecondPassRerank({"method": {"type": form.name}, **more}, llm=llm)


def both_ways(
    *makes: Callable[[], SecondPassRerank], before: Callable[[], None] = lambda: None
) -> tuple[list[NodeWithScore], Report]:
    """What comes out, which is the same whether a caller waits or awaits.

    Several functions make the same with longer and longer deadlines: a busy machine may not keep up
    with the first. ``before`` is called before each.
    """
    for make in makes:
        before()
        given = replies.nodes()
        ranked, report = make().rerank_nodes(given, QUERY)
        again, other = asyncio.run(make().arerank_nodes(given, QUERY))
        if plain(again) == plain(ranked) and outcome_of(other) == outcome_of(report):
            break
    assert plain(again) == plain(ranked)
    assert outcome_of(other) == outcome_of(report)
    assert plain(given) == plain(replies.nodes()), "the input was changed"
    check_nothing_is_lost(given, ranked)
    return ranked, report


def outcome_of(report: Report) -> tuple[Any, ...]:
    return report.status, [(issue.code, issue.message, issue.positions) for issue in report.issues]


def numbers(nodes: Sequence[NodeWithScore], status: str | None = None) -> list[int]:
    return [
        node.metadata["number"]
        for node in nodes
        if status is None or node.metadata["rerank_status"] == status
    ]


def check_nothing_is_lost(
    sources: Sequence[NodeWithScore], ranked: Sequence[NodeWithScore]
) -> None:
    """Each node that went in comes out once, with what belongs to it, and scores fall."""
    sources = {one.metadata["number"]: one for one in sources}
    assert sorted(numbers(ranked)) == sorted(sources)
    for one in ranked:
        source = sources[one.metadata["number"]]
        assert (one.node_id, one.text) == (source.node_id, source.text)
        assert source.metadata.items() <= one.metadata.items()
        assert one.metadata["retrieval_score"] == source.score
    scores = [one.score for one in ranked]
    assert all(type(score) is float and math.isfinite(score) for score in scores)
    assert scores == sorted(scores, reverse=True)


# ---------------------------------------------------------------------- tools


def honest(asked: Asked) -> Said:
    return Said(asked.honest)


class Contradicting(Calling):
    """Calls the tool twice, with answers that differ."""

    def get_tool_calls_from_response(self, *args: Any, **kwargs: Any) -> list[ToolSelection]:
        results = super().get_tool_calls_from_response(*args, **kwargs)
        other = dict(results[0].tool_kwargs)
        if "ranking" in other:
            other["ranking"] = other["ranking"][::-1]
        else:
            other = dict.fromkeys(other, 4)
        return [*results, results[0].model_copy(update={"tool_kwargs": other})]


class Garbling(Calling):
    """Calls the tool with something that cannot be read."""

    arguments: Any

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


@rotating(arguments=GARBAGE, form=OURS)
def test_arguments_that_are_garbage_are_refused(form: Form, arguments: Any) -> None:
    ranked, report = both_ways(
        lambda: reranking(form, Garbling(script=honest, form=form, arguments=arguments))
    )
    assert report.status == "unchanged"
    assert numbers(ranked) == list(replies.NUMBERS)
    known = {"reply_refused", "empty_reply", "llm_raised"}
    assert {issue.code for issue in report.issues} - {"asked_again"} <= known


@pytest.mark.parametrize("form", OURS, ids=lambda form: form.name)
def test_two_calls_that_differ_are_refused(form: Form) -> None:
    ranked, report = both_ways(lambda: reranking(form, Contradicting(script=honest, form=form)))
    assert report.status == "unchanged"
    assert numbers(ranked) == list(replies.NUMBERS)
    assert report.issues[-1].code == "reply_refused"


@pytest.mark.parametrize("form", OURS, ids=lambda form: form.name)
def test_an_answer_in_words_counts_where_no_tool_was_called(form: Form) -> None:
    def in_words(asked: Asked) -> Said:
        return Said(before=f"Here:\n```json\n{asked.form.written(asked.honest)}\n```")

    ranked, report = both_ways(lambda: reranking(form, Calling(script=in_words, form=form)))
    assert numbers(ranked) == list(replies.ALL)
    assert report.status == "ok"


class Breaking(Calling):
    """Runs out of tokens within a tool call, and completes what there is, as LLMs of LlamaIndex do.

    Args:
        at: how much of the arguments there is, in characters from their end.
    """

    at: int

    def _response(self, reply: Said, kwargs: Any) -> ChatResponse:
        arguments = json.dumps(self.form.arguments(reply.pairs or ()))
        begun = parse_partial_json(arguments[: -self.at])
        response = super()._response(Said(reply.pairs, cut=True), kwargs)
        for block in response.message.blocks:
            if block.block_type == "tool_call":
                block.tool_kwargs = begun
        return response


def test_last_grade_of_a_truncated_call_is_dropped() -> None:
    # Ten for the last of them, of which only the 1 has come.
    def ten(asked: Asked) -> Said:
        pairs = [(label, 10 - grade) for label, grade in asked.honest]
        return Said([*pairs[:-1], (pairs[-1][0], 10)])

    ranked, report = both_ways(lambda: reranking(GRADED, Breaking(script=ten, form=GRADED, at=2)))
    assert numbers(ranked, "scored") == [3, 5, 7, 9]
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


@rotating(refuses=NO_TOOLS, form=OURS)
def test_refused_tools_are_not_sent_again(form: Form, refuses: Exception) -> None:
    created: list[Calling] = []

    def make() -> SecondPassRerank:
        created.append(Calling(script=honest, form=form, refuses=refuses))
        return reranking(form, created[-1])

    ranked, report = both_ways(make)
    assert numbers(ranked) == list(replies.ALL)
    assert report.status == "ok"
    assert [issue.code for issue in report.issues] == ["asked_again"]
    for llm in created:
        assert llm.tools == [1, 0]

    reranker = reranking(form, llm := Calling(script=honest, form=form, refuses=refuses))
    for _ in range(3):
        assert numbers(reranker.postprocess_nodes(replies.nodes(), query_str=QUERY)) == list(
            replies.ALL
        )
    assert llm.tools == [1, 0, 0, 0]


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
    for asynchronous in (False, True):
        llm = Calling(script=honest, form=LISTWISE, refuses=refuses)
        reranker = reranking(LISTWISE, llm)
        if asynchronous:
            nodes, report = asyncio.run(reranker.arerank_nodes(replies.nodes(), QUERY))
        else:
            nodes, report = reranker.rerank_nodes(replies.nodes(), QUERY)
        check_nothing_is_lost(replies.nodes(), nodes)
        assert (report.status, report.issues[0].code) == ("unchanged", code)
        assert 0 not in llm.tools


# ---------------------------------------------------------------------- generated replies

NAMES = ("LABEL0", "LABEL1", "LABEL2", "LABEL3", "LABEL4")
"""Stand for the labels that the model is shown."""

numbers_of_grades = st.one_of(
    st.integers(0, 10),
    st.floats(0, 10),
    st.floats(),
    st.integers(-100, 100),
    st.booleans(),
    st.none(),
    st.sampled_from(["high", "7", "9/10", "0.5", "", [3], {"score": 3}, 10**400]),
)
labels_of_them = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from([0, 1, 5, -7, 99, "0", "1", "", "Document 1", "label0"]),
    st.text(max_size=3),
)
answers = st.lists(st.tuples(labels_of_them, numbers_of_grades), max_size=8)


def test_an_llm_of_the_settings_is_not_taken_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = Completing(script=honest, form=LISTWISE)
    monkeypatch.setattr(Settings, "_llm", llm)
    with pytest.raises(ConfigurationError, match="llm"):
        SecondPassRerank({"method": {"type": "listwise"}})
    assert llm.sent == []


@pytest.mark.parametrize("kind", ["graded", "listwise"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_tool_is_the_form_of_the_reply(kind: str, asynchronous: bool) -> None:
    llm = scripted(usage={"prompt_tokens": 11, "completion_tokens": 7})
    reranker = asking(kind, llm)
    if asynchronous:
        ranked, report = asyncio.run(reranker.arerank_nodes(nodes_of(), WOMBATS))
    else:
        ranked, report = reranker.rerank_nodes(nodes_of(), WOMBATS)
    assert (report.status, lengths(ranked)) == ("ok", BEST_FIRST)
    assert llm._required == [True]
    (tool,) = llm._offered
    schema = tool["function"]["parameters"]
    labels = re.findall(r'<doc id="([^"]*)">', llm._asked[0][-1].content or "")
    assert len(labels) == 5
    if kind == "graded":
        assert list(schema["properties"]) == schema["required"] == labels
    else:
        array = schema["properties"]["ranking"]
        assert array["items"]["enum"] == labels
        assert (array["minItems"], array["maxItems"]) == (5, 5)
    usage = report.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 11, 7)


class Plain(CustomLLM):
    """A completion model as people write them: it knows neither chat nor tools."""

    _asked: list[str] = PrivateAttr(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self._asked.append(prompt)
        shown = dict(re.findall(r'<doc id="([^"]*)">(.*?)</doc>', prompt, re.DOTALL))
        return CompletionResponse(
            text=f"Here:\n```json\n{json.dumps(by_length(shown, prompt))}\n```"
        )

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_completion_model_is_sent_one_prompt(asynchronous: bool) -> None:
    llm = Plain()
    reranker = asking("listwise", llm)
    if asynchronous:
        ranked = asyncio.run(reranker.apostprocess_nodes(nodes_of(), query_str=WOMBATS))
    else:
        ranked = reranker.postprocess_nodes(nodes_of(), query_str=WOMBATS)
    assert lengths(ranked) == BEST_FIRST
    assert "You order documents" in llm._asked[0]


def test_a_model_without_a_name_is_called_by_its_class() -> None:
    reranker = asking("listwise", Plain())
    assert reranker._reranker.method.name == "listwise by Plain"


@pytest.mark.parametrize(("fields", "window"), [({}, None), ({"context_window": 8000}, 8000)])
def test_the_context_window_is_that_which_the_llm_has_set(fields: Any, window: Any) -> None:
    class Windowed(Plain):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(**fields)

    assert LlamaIndexLLM(Windowed()).context_window == window
