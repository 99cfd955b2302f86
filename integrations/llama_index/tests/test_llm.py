"""Any LlamaIndex LLM as the language model: chat or completion, asynchronous or not."""

import asyncio
import copy
import json
import pickle
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.llms import CustomLLM, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.prompts import PromptTemplate, RichPromptTemplate
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import ValidationError

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import texts
from secondpass import ConfigurationError, InputError, NotSerializableError, Reranker

NODES = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in ("b", "ccc", "a", "dddd")]


def reply(prompt: str) -> str:
    passages = re.findall(r'<doc id="([^"]*)">([^<]*)</doc>', prompt)
    return json.dumps(
        {"ranking": [label for label, _ in sorted(passages, key=lambda x: -len(x[1]))]}
    )


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
    postprocessor = SecondPassRerank("blended_scores", llm=Completing())
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


@pytest.mark.parametrize(
    "reranker", ["listwise_guided", {"method": {"type": "graded", "scale": [0, 3]}}]
)
def test_it_is_never_serialised_and_given_again(reranker: Any) -> None:
    postprocessor = SecondPassRerank(reranker, llm=Completing(error="sk-secret"))
    written = postprocessor.to_json()
    assert "sk-secret" not in written
    back = SecondPassRerank.from_json(written, llm=Completing())
    assert back._reranker.method.name == postprocessor._reranker.method.name
    assert back.to_json() == written


@pytest.mark.parametrize("wrong", ["gpt-4.1-mini", Completing, 5])
def test_objects_that_are_no_llm_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="llm: give an LLM of LlamaIndex, not a"):
        SecondPassRerank({"method": "listwise"}, llm=wrong)


def test_timeout_of_the_configured_model_is_kept() -> None:
    config = {"method": {"type": "listwise", "llm": {"timeout": 300}}}
    postprocessor = SecondPassRerank(config, llm=Completing())
    assert postprocessor._reranker.method.llm.timeout == 300
    back = SecondPassRerank.from_json(postprocessor.to_json(), llm=Completing())
    assert back._reranker.method.llm.timeout == 300


WRONG_PROMPTS = [
    RichPromptTemplate("Rank {{context_str}} for {{query_str}}"),
    PromptTemplate("Rank {context_str} for {query_str}").partial_format(tone="plain"),
    PromptTemplate("Rank {documents}"),
    PromptTemplate("Rank {documents} for {query}, {x}", template_var_mappings={"y": "x"}),
]


@pytest.mark.parametrize("prompt", WRONG_PROMPTS, ids=range(len(WRONG_PROMPTS)))
def test_a_prompt_that_would_ask_nothing_is_refused(prompt: Any) -> None:
    postprocessor = SecondPassRerank({"method": "listwise"}, llm=Completing())
    before = postprocessor.to_json()
    with pytest.raises(ConfigurationError, match=r"user(_prompt)?: has"):
        postprocessor.update_prompts({"user_prompt": prompt})
    assert postprocessor.to_json() == before


def test_a_prompt_of_other_names_is_taken_where_they_are_mapped() -> None:
    prompt = PromptTemplate(
        "Rank {context_str} for {query_str}. {reply}",
        template_var_mappings={"documents": "context_str", "query": "query_str"},
    )
    postprocessor = SecondPassRerank({"method": "listwise"}, llm=Completing())
    postprocessor.update_prompts({"user_prompt": prompt})
    nodes, report = postprocessor.rerank_nodes(NODES, "q")
    assert report.status == "ok"
    assert texts(nodes) == ["dddd", "ccc", "b", "a"]


def test_copies_from_a_file_can_be_changed(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("method: lexical\ndepth: 50\n")
    for copied in (
        copy.deepcopy(SecondPassRerank(file)),
        pickle.loads(pickle.dumps(SecondPassRerank(file))),
    ):
        copied.depth = 1
        statuses = [
            node.metadata["rerank_status"] for node in copied.postprocess_nodes(NODES, None, "b")
        ]
        assert statuses == ["scored", "tail", "tail", "tail"]


class WithHeaders(Completing):
    default_headers: dict[str, str] = {}  # noqa: RUF012 - a pydantic field


def test_no_key_under_another_name_is_pickled() -> None:
    headers = {"Authorization": "Bearer sk-SECRET"}
    in_options = {"type": "openai", "model": "m", "options": {"extra_headers": headers}}
    for postprocessor in (
        SecondPassRerank({"method": "graded"}, llm=WithHeaders(default_headers=headers)),
        SecondPassRerank({"method": {"type": "graded", "llm": in_options}}),
    ):
        with pytest.raises(NotSerializableError, match="holds a key"):
            pickle.dumps(postprocessor)
    plain = SecondPassRerank({"method": "graded"}, llm=WithHeaders())
    assert pickle.loads(pickle.dumps(plain)).to_json() == plain.to_json()


def test_its_life_is_that_of_the_reranker() -> None:
    class Scorer:
        model_name = "alive"

        def __init__(self) -> None:
            self.calls: list[str] = []

        def score_pairs(self, query: str, documents: list[str]) -> list[float]:
            return [0.0] * len(documents)

        def warm_up(self) -> None:
            self.calls.append("warm")

        def close(self) -> None:
            self.calls.append("closed")

    scorer = Scorer()
    postprocessor = SecondPassRerank({"method": scorer})

    async def live() -> None:
        await postprocessor.awarm_up()
        await postprocessor.aclose()

    postprocessor.warm_up()
    postprocessor.close()
    asyncio.run(live())
    assert scorer.calls == ["warm", "closed"] * 2


def test_wrong_arguments_are_named() -> None:
    postprocessor = SecondPassRerank("lexical")
    with pytest.raises(InputError, match="query: give a string or a QueryBundle, not 5"):
        postprocessor.rerank_nodes(NODES, 5)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="similarity_cutoff"):
        SecondPassRerank("lexical", similarity_cutoff=True)
