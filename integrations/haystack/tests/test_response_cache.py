"""The response cache of a ranker."""

import asyncio
import json
import re
from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.dataclasses import ChatMessage

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import ConfigurationError

DOCUMENTS = [Document(content=text) for text in ("b", "ccc", "a", "dddd")]
LISTWISE = {"type": "listwise"}


@component
class Generator:
    """Puts the longest text first."""

    def __init__(self, cache_key: Any = None) -> None:
        self.calls = 0
        if cache_key is not None:
            self.cache_key = cache_key

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.calls += 1
        passages = re.findall(r'<doc id="([^"]*)">([^<]*)</doc>', messages[-1].text or "")
        best = sorted(passages, key=lambda one: -len(one[1]))
        return {
            "replies": [
                ChatMessage.from_assistant(json.dumps({"ranking": [label for label, _ in best]}))
            ]
        }


def run(ranker: SecondPassRanker, asynchronous: bool) -> dict[str, Any]:
    if asynchronous:
        return asyncio.run(ranker.run_async(query="q", documents=DOCUMENTS))
    return ranker.run(query="q", documents=DOCUMENTS)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_a_generator_with_a_key_is_asked_once(tmp_path, asynchronous):
    generator = Generator({"model": "m", "version": 1})
    settings = {"method": LISTWISE, "cache": str(tmp_path / "answers.sqlite")}
    ranker = SecondPassRanker(settings, chat_generator=generator)
    first, again = run(ranker, asynchronous), run(ranker, asynchronous)
    assert generator.calls == 1
    assert [one.content for one in again["documents"]] == ["dddd", "ccc", "b", "a"]
    assert again["documents"] == first["documents"]
    assert (first["report"]["usage"]["cached"], again["report"]["usage"]["cached"]) == (0, 1)


def test_another_key_is_another_model(tmp_path):
    settings = {"method": LISTWISE, "cache": {"path": str(tmp_path / "answers"), "max_mb": 1}}
    for version in (1, 2):
        generator = Generator(version)
        run(SecondPassRanker(settings, chat_generator=generator), asynchronous=False)
        assert generator.calls == 1


def test_a_generator_without_a_key_cannot_be_stored(tmp_path):
    settings = {"method": LISTWISE, "cache": str(tmp_path / "answers.sqlite")}
    with pytest.raises(ConfigurationError, match=r"cache: cannot be set: .*'cache_key'"):
        SecondPassRanker(settings, chat_generator=Generator())


def test_it_is_saved_with_a_pipeline(tmp_path):
    llm = {"type": "openai", "model": "m"}
    cache = {"path": str(tmp_path / "answers.sqlite"), "max_age_days": 7.0}
    pipeline = Pipeline()
    settings = {"method": {**LISTWISE, "llm": llm}, "cache": cache}
    pipeline.add_component("ranker", SecondPassRanker(settings))
    loaded = Pipeline.loads(pipeline.dumps()).get_component("ranker")
    assert vars(loaded.reranker.cache)["path"] == cache["path"]
    assert loaded.reranker.cache.max_age_days == 7.0
