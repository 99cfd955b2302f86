"""Any LlamaIndex LLM as the language model: chat or completion, asynchronous or not."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.llms import CustomLLM, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index.postprocessor.secondpass import SecondPassRerank
from secondpass import ConfigurationError, Reranker

NODES = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in ("b", "ccc", "a", "dddd")]


def reply(prompt: str) -> str:
    found = re.findall(r'<doc id="([^"]*)">([^<]*)</doc>', prompt)
    return json.dumps({"ranking": [label for label, _ in sorted(found, key=lambda x: -len(x[1]))]})


class Completing(CustomLLM):
    """A completion model, as most that people write themselves; it blocks."""

    error: str = ""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="completing", context_window=8000)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        if self.error:
            raise RuntimeError(self.error)
        return CompletionResponse(text=reply(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


class Chatting(FunctionCallingLLM):
    """A chat model with both sides, which tells its tokens."""

    loops: list[Any] = []  # noqa: RUF012 - a pydantic field

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="chatting", is_chat_model=True)

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        message = ChatMessage(role="assistant", content=reply(messages[-1].content or ""))
        usage = {"prompt_tokens": 11, "completion_tokens": 7}
        return ChatResponse(message=message, raw={"usage": usage})

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        self.loops.append(asyncio.get_running_loop())
        return self.chat(messages)

    def _not_here(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    complete = stream_chat = stream_complete = _not_here
    acomplete = astream_chat = astream_complete = _prepare_chat_with_tools = _not_here


def texts(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [one.node.get_content() for one in nodes]


@pytest.mark.parametrize("llm", [Completing, Chatting])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_llm_is_asked(llm: type, asynchronous: bool) -> None:
    postprocessor = SecondPassRerank({"method": "listwise"}, llm=llm())
    if asynchronous:
        nodes, report = asyncio.run(postprocessor.arerank_nodes(NODES, "q"))
    else:
        nodes, report = postprocessor.rerank_nodes(NODES, "q")
    assert texts(nodes) == ["dddd", "ccc", "b", "a"]
    assert report.status == "ok"
    assert report.usage.input_tokens == (11 if llm is Chatting else None)


def test_the_asynchronous_side_runs_in_the_callers_loop() -> None:
    llm = Chatting()
    postprocessor = SecondPassRerank({"method": "listwise"}, llm=llm)

    async def go() -> Any:
        await postprocessor.apostprocess_nodes(NODES, query_str="q")
        postprocessor.postprocess_nodes(NODES, query_str="q")  # as evaluators do, inside a loop
        return asyncio.get_running_loop()

    assert llm.loops == [asyncio.run(go())]


def test_it_stands_in_for_the_model_of_a_preset() -> None:
    postprocessor = SecondPassRerank("scallop", llm=Completing())
    assert postprocessor._reranker.method.name == "graded by completing"
    assert postprocessor._reranker.method.llm.context_window == 8000


@pytest.mark.parametrize("reranker", ["lexical", Reranker("lexical")])
def test_it_is_refused_where_nothing_would_ask_it(reranker: Any) -> None:
    with pytest.raises(ConfigurationError):
        SecondPassRerank(reranker, llm=Completing())


def test_a_failing_llm_loses_no_node() -> None:
    secret = "sk-secret and the passage"
    nodes, report = SecondPassRerank(
        {"method": "listwise"}, llm=Completing(error=secret)
    ).rerank_nodes(NODES, "q")
    assert texts(nodes) == ["b", "ccc", "a", "dddd"]
    assert report.status == "unchanged"
    assert secret not in repr(report)


@pytest.mark.parametrize("reranker", ["attune", {"method": {"type": "graded", "scale": [0, 3]}}])
def test_it_is_never_serialised_and_given_again(reranker: Any) -> None:
    postprocessor = SecondPassRerank(reranker, llm=Completing(error="sk-secret"))
    written = postprocessor.to_json()
    assert "sk-secret" not in written
    back = SecondPassRerank.from_json(written, llm=Completing())
    assert back._reranker.method.name == postprocessor._reranker.method.name
    assert back.to_json() == written
