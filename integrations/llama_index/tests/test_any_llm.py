"""Any LLM: tools, completions, refusals and odd replies."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.llms import CustomLLM, LLMMetadata
from pydantic import PrivateAttr

from llama_llms import (
    BEST_FIRST,
    LENGTHS,
    QUERY,
    Said,
    Scripted,
    asking,
    honest,
    lengths,
    nodes_of,
    scripted,
)


@pytest.mark.parametrize("kind", ["graded", "listwise"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_tool_is_the_form_of_the_reply(kind: str, asynchronous: bool) -> None:
    llm = scripted(usage={"prompt_tokens": 11, "completion_tokens": 7})
    reranker = asking(kind, llm)
    if asynchronous:
        ranked, report = asyncio.run(reranker.arerank_nodes(nodes_of(), QUERY))
    else:
        ranked, report = reranker.rerank_nodes(nodes_of(), QUERY)
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


@pytest.mark.parametrize("calls_tools", [False, True])
def test_an_answer_in_words_is_read_as_well(calls_tools: bool) -> None:
    llm = scripted(calls_tools=calls_tools, by_tool=False)
    ranked, report = asking("graded", llm).rerank_nodes(nodes_of(), QUERY)
    assert (report.status, lengths(ranked)) == ("ok", BEST_FIRST)
    assert len(llm._offered) == calls_tools


@pytest.mark.parametrize(
    "refusal",
    [
        NotImplementedError(),
        TypeError("unexpected keyword argument 'tools'"),
        AttributeError("tools"),
    ],
)
def test_llm_without_tools_is_asked_in_words(
    refusal: Exception,
) -> None:
    llm = scripted()
    offered = []

    class Refusing(Scripted):
        def chat_with_tools(self, *args: Any, **kwargs: Any) -> ChatResponse:
            offered.append(kwargs["tools"])
            raise refusal

        async def achat_with_tools(self, *args: Any, **kwargs: Any) -> ChatResponse:
            return self.chat_with_tools(*args, **kwargs)

    llm = Refusing()
    reranker = asking("graded", llm)
    for _ in range(2):
        ranked, report = reranker.rerank_nodes(nodes_of(), QUERY)
        assert (report.status, lengths(ranked)) == ("ok", BEST_FIRST)
    assert len(offered) == 1
    assert len(llm._asked) == 2


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS"])
def test_a_reply_that_was_cut_counts_as_far_as_it_goes(reason: str) -> None:
    def says(passages: dict[str, str], words: str) -> Said:
        whole = json.dumps(honest(passages, words))
        return whole[: whole.rindex(",") + 3]

    llm = scripted(says, calls_tools=False, finish_reason=reason)
    ranked, report = asking("graded", llm).rerank_nodes(nodes_of(), QUERY)
    assert lengths(ranked) == [9, 7, 3, 1, 5]
    assert report.status == "partial"
    assert [issue.code for issue in report.issues] == ["not_in_reply"]
    assert [one.metadata["rerank_status"] for one in ranked] == ["scored"] * 4 + ["backfilled"]


@pytest.mark.parametrize("reason", ["content_filter", "refusal", "SAFETY"])
@pytest.mark.parametrize("calls_tools", [False, True])
def test_refusal_is_reported_and_loses_no_node(reason: str, calls_tools: bool) -> None:
    llm = scripted(calls_tools=calls_tools, finish_reason=reason)
    ranked, report = asking("listwise", llm).rerank_nodes(nodes_of(), QUERY)
    assert (report.status, lengths(ranked)) == ("unchanged", list(LENGTHS))
    assert [issue.code for issue in report.issues] == ["content_filter"]


@pytest.mark.parametrize(
    ("calls", "status"),
    [
        ([{}], "unchanged"),
        ([{"x": 1}, {"y": 2}], "unchanged"),
        ([{"ranking": ["n/a"]}], "unchanged"),
        (None, "unchanged"),
    ],
)
def test_odd_tool_calls_lose_no_node(calls: Any, status: str) -> None:
    extra = {} if calls is None else {"tool_calls": calls}
    message = ChatMessage(role="assistant", content=None, additional_kwargs=extra)
    llm = scripted(lambda *_: ChatResponse(message=message))
    ranked, report = asking("graded", llm).rerank_nodes(nodes_of(), QUERY)
    assert (report.status, lengths(ranked)) == (status, list(LENGTHS))
    assert sorted(one.metadata["at"] for one in ranked) == [0, 1, 2, 3, 4]


class Completing(CustomLLM):
    """A completion model as people write them: it knows neither chat nor tools."""

    _asked: list[str] = PrivateAttr(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self._asked.append(prompt)
        shown = dict(re.findall(r'<doc id="([^"]*)">(.*?)</doc>', prompt, re.DOTALL))
        return CompletionResponse(text=f"Here:\n```json\n{json.dumps(honest(shown, prompt))}\n```")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_completion_model_is_sent_one_prompt(asynchronous: bool) -> None:
    llm = Completing()
    reranker = asking("listwise", llm)
    if asynchronous:
        ranked = asyncio.run(reranker.apostprocess_nodes(nodes_of(), query_str=QUERY))
    else:
        ranked = reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
    assert lengths(ranked) == BEST_FIRST
    assert "You order documents" in llm._asked[0]


def test_a_model_without_a_name_is_called_by_its_class() -> None:
    reranker = asking("listwise", Completing())
    assert reranker._reranker.method.name == "listwise by Completing"
