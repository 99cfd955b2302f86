"""The response cache of a postprocessor."""

import asyncio
import copy
import json
import re
from typing import Any

import pytest
from llama_index.core.base.llms.types import CompletionResponse
from llama_index.core.llms import CustomLLM, LLMMetadata
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import PrivateAttr

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import texts
from secondpass import ConfigurationError

LISTWISE = {"type": "listwise"}
NODES = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in ("b", "ccc", "a", "dddd")]


def reply(prompt: str) -> str:
    passages = re.findall(r'<doc id="([^"]*)">([^<]*)</doc>', prompt)
    best = sorted(passages, key=lambda passage: -len(passage[1]))
    return json.dumps({"ranking": [label for label, _ in best]})


class Counting(CustomLLM):
    """A completion model that counts its calls, without a key."""

    _calls: list[str] = PrivateAttr(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="counting", context_window=8000)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self._calls.append(prompt)
        return CompletionResponse(text=reply(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


class Named(Counting):
    """The same with a key."""

    cache_key: str = "named, version 1"


def run(rerank: SecondPassRerank, asynchronous: bool) -> list[str]:
    nodes = copy.deepcopy(NODES)
    if asynchronous:
        return texts(asyncio.run(rerank.apostprocess_nodes(nodes, query_str="q")))
    return texts(rerank.postprocess_nodes(nodes, query_str="q"))


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_an_llm_with_a_key_is_asked_once(tmp_path, asynchronous):
    llm = Named()
    settings = {"method": LISTWISE, "cache": str(tmp_path / "answers.sqlite")}
    rerank = SecondPassRerank(settings, llm=llm)
    assert [run(rerank, asynchronous) for _ in range(2)] == [["dddd", "ccc", "b", "a"]] * 2
    assert len(llm._calls) == 1


def test_another_key_is_another_model(tmp_path):
    settings = {"method": LISTWISE, "cache": {"path": str(tmp_path / "answers"), "max_mb": 1}}
    for version in ("1", "2"):
        llm = Named(cache_key=version)
        run(SecondPassRerank(settings, llm=llm), asynchronous=False)
        assert len(llm._calls) == 1


def test_an_llm_without_a_key_cannot_be_stored(tmp_path):
    settings = {"method": LISTWISE, "cache": str(tmp_path / "answers.sqlite")}
    with pytest.raises(ConfigurationError, match=r"cache: cannot be set: .*'cache_key'"):
        SecondPassRerank(settings, llm=Counting())
