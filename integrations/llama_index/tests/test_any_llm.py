"""Any LLM: tools, completions, refusals and odd replies."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from llama_index.core.base.llms.types import CompletionResponse
from llama_index.core.llms import CustomLLM, LLMMetadata
from pydantic import PrivateAttr

from llama_llms import (
    BEST_FIRST,
    QUERY,
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
