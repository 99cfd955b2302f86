"""Any ChatGenerator as the language model: asked, traced, saved, and survived when it fails."""

import copy
import json
import re
from typing import Any

import pytest
from haystack import Document, Pipeline, component, default_from_dict, default_to_dict
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

from haystack_integrations.components.rankers.secondpass import SecondPassRanker

DOCUMENTS = [Document(content=text) for text in ("b", "ccc", "a", "dddd")]


def _reply(messages: list[ChatMessage]) -> ChatMessage:
    passages = re.findall(r'<doc id="([^"]*)">([^<]*)</doc>', messages[-1].text or "")
    best = sorted(passages, key=lambda one: -len(one[1]))
    usage = {"prompt_tokens": 11, "completion_tokens": 7}
    return ChatMessage.from_assistant(
        json.dumps({"ranking": [label for label, _ in best]}), meta={"usage": usage, "model": "m"}
    )


@component
class SyncOnly:
    """Puts the longest text first. Has no asynchronous side, as several generators have none."""

    def __init__(self, error: str | None = None) -> None:
        self.error = error
        self.warmed = self.closed = 0

    def warm_up(self) -> None:
        self.warmed += 1

    def close(self) -> None:
        self.closed += 1

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(self, error=self.error)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "SyncOnly":
        return default_from_dict(cls, data)

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        if self.error:
            raise RuntimeError(self.error)
        return {"replies": [_reply(messages)]}


def texts(result: dict[str, Any]) -> list[str | None]:
    return [document.content for document in result["documents"]]


def test_it_goes_round_with_its_secret_as_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")
    generator = OpenAIChatGenerator(api_key=Secret.from_env_var("SOME_KEY"), model="some-model")
    for reranker in (
        "listwise_guided",
        {"method": {"type": "graded", "scale": [0, 3]}, "depth": 5},
    ):
        pipeline = Pipeline()
        pipeline.add_component("ranker", SecondPassRanker(reranker, chat_generator=generator))
        dumped = pipeline.dumps()
        assert "sk-very-secret" not in dumped
        back = Pipeline.loads(dumped)
        assert back.dumps() == dumped
        ranker = back.get_component("ranker")
        assert isinstance(ranker, SecondPassRanker)
        assert ranker.reranker.method.name.endswith("by some-model")


# ---------------------------------------------------------------------- as a part of the component


def test_timeout_of_the_configured_model_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-some")  # Haystack 2 makes the client at construction
    config = {"method": {"type": "listwise", "llm": {"timeout": 300}}}
    generator = OpenAIChatGenerator(api_key=Secret.from_env_var("SOME_KEY", strict=False))
    ranker = SecondPassRanker(config, chat_generator=generator)
    assert ranker.reranker.method.llm.timeout == 300
    assert ranker.to_dict()["init_parameters"]["reranker"] == config
    back = SecondPassRanker.from_dict(ranker.to_dict())
    assert back.reranker.method.llm.timeout == 300


def test_a_warm_up_that_fails_is_tried_again() -> None:
    class Cold(SyncOnly):
        def warm_up(self) -> None:
            super().warm_up()
            if self.warmed == 1:
                raise OSError("not yet")

    generator = Cold()
    ranker = SecondPassRanker({"method": "listwise"}, chat_generator=generator)
    for _ in range(3):
        ranker.warm_up()
    assert generator.warmed == 2


def test_deep_copies_own_their_generator() -> None:
    generator = SyncOnly()
    ranker = SecondPassRanker({"method": "listwise"}, top_k=2, chat_generator=generator)
    copied = copy.deepcopy(ranker)
    assert copied is not ranker
    assert copied.chat_generator is generator
    assert texts(copied.run(query="q", documents=DOCUMENTS)) == ["dddd", "ccc"]
    copied.top_k = 1
    assert len(ranker.run(query="q", documents=DOCUMENTS)["documents"]) == 2
    assert copied.to_dict()["init_parameters"]["top_k"] == 1


def test_types_of_torch_are_taken_as_haystack_saves_them() -> None:
    kwargs = {"torch_dtype": "torch.float16", "nested": {"dtype": "torch.bfloat16"}, "a": "torch"}
    ranker = SecondPassRanker({"method": "cross_encoder"}, model_kwargs=kwargs)
    assert ranker.reranker.method.scorer.model_kwargs == {
        "torch_dtype": "float16",
        "nested": {"dtype": "bfloat16"},
        "a": "torch",
    }


def test_a_token_stands_in_no_attribute_in_plain_text() -> None:
    ranker = SecondPassRanker("cohere", token=Secret.from_token("sk-SECRET"))
    assert "sk-SECRET" not in repr(vars(ranker))
