"""Any ChatGenerator as the language model: asked, traced, saved, and survived when it fails."""

import asyncio
import copy
import json
import re
from typing import Any

import pytest
from haystack import Document, Pipeline, component, default_from_dict, default_to_dict
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tracing import disable_tracing, enable_tracing
from haystack.utils import Secret

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import ConfigurationError, Reranker, RerankError

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


@component
class Both:
    """The same with an asynchronous side, which tells the loop that it ran in."""

    def __init__(self) -> None:
        self.loops: list[Any] = []

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"replies": [_reply(messages)]}

    @component.output_types(replies=list[ChatMessage])
    async def run_async(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return {"replies": [_reply(messages)]}


def texts(result: dict[str, Any]) -> list[str | None]:
    return [document.content for document in result["documents"]]


@pytest.mark.parametrize("generator", [SyncOnly, Both])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_chat_generator_is_asked(generator: type, asynchronous: bool) -> None:
    ranker = SecondPassRanker({"method": "listwise"}, chat_generator=generator())
    if asynchronous:
        result = asyncio.run(ranker.run_async(query="q", documents=DOCUMENTS))
    else:
        result = ranker.run(query="q", documents=DOCUMENTS)
    assert texts(result) == ["dddd", "ccc", "b", "a"]
    assert result["report"]["status"] == "ok"
    assert result["report"]["usage"]["input_tokens"] == 11
    assert result["report"]["usage"]["output_tokens"] == 7


def test_the_asynchronous_side_runs_in_the_loop_of_the_pipeline() -> None:
    generator = Both()
    ranker = SecondPassRanker({"method": "listwise"}, chat_generator=generator)

    async def go() -> Any:
        await ranker.run_async(query="q", documents=DOCUMENTS)
        return asyncio.get_running_loop()

    loop = asyncio.run(go())
    assert generator.loops == [loop]


def test_replaces_the_model_of_presets_and_stages() -> None:
    generator = SyncOnly()
    ranker = SecondPassRanker("listwise_guided", chat_generator=generator)
    assert ranker.reranker.method.llm.chat_generator is generator
    config = {
        "method": {"type": "cascade", "stages": ["lexical", {"type": "listwise", "depth": 3}]},
        "fallback": ["graded"],
    }
    cascade = SecondPassRanker(config, chat_generator=generator)
    assert cascade.reranker.method.stages[1].method.llm.chat_generator is generator
    assert cascade.reranker.fallback[0].method.llm.chat_generator is generator


@pytest.mark.parametrize("reranker", ["lexical", Reranker("lexical")])
def test_it_is_refused_where_nothing_would_ask_it(reranker: Any) -> None:
    with pytest.raises(ConfigurationError):
        SecondPassRanker(reranker, chat_generator=SyncOnly())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_failing_generator_fails_no_pipeline(asynchronous: bool) -> None:
    secret = "sk-secret and the passage"
    ranker = SecondPassRanker({"method": "listwise"}, chat_generator=SyncOnly(secret))
    if asynchronous:
        result = asyncio.run(ranker.run_async(query="q", documents=DOCUMENTS))
    else:
        result = ranker.run(query="q", documents=DOCUMENTS)
    assert texts(result) == ["b", "ccc", "a", "dddd"]
    assert result["report"]["status"] == "unchanged"
    assert secret not in json.dumps(result["report"])
    strict = SecondPassRanker(
        {"method": "listwise"}, chat_generator=SyncOnly(secret), raise_on_failure=True
    )
    with pytest.raises(RerankError) as raised:
        strict.run(query="q", documents=DOCUMENTS)
    assert secret not in str(raised.value)


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


def test_its_life_is_that_of_the_component() -> None:
    generator = SyncOnly()
    ranker = SecondPassRanker({"method": "listwise"}, chat_generator=generator)
    assert generator.warmed == 0
    ranker.warm_up()
    ranker.warm_up()
    ranker.close()
    assert (generator.warmed, generator.closed) == (1, 1)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_its_calls_are_traced_with_their_usage(asynchronous: bool) -> None:
    from haystack.tracing import Span, Tracer

    class Recorded(Span):
        def __init__(self, name: str) -> None:
            self.name = name
            self.tags: dict[str, Any] = {}

        def set_tag(self, key: str, value: Any) -> None:
            self.tags[key] = value

        def set_content_tag(self, key: str, value: Any) -> None:
            self.tags[key] = value

    class Recording(Tracer):
        def __init__(self) -> None:
            self.spans: list[Recorded] = []

        def trace(self, operation_name: str, tags: Any = None, parent_span: Any = None) -> Any:
            import contextlib

            span = Recorded(operation_name)
            self.spans.append(span)
            return contextlib.nullcontext(span)

        def current_span(self) -> None:
            return None

    recording = Recording()
    enable_tracing(recording)
    try:
        ranker = SecondPassRanker({"method": "listwise"}, chat_generator=Both())
        if asynchronous:
            asyncio.run(ranker.run_async(query="q", documents=DOCUMENTS))
        else:
            ranker.run(query="q", documents=DOCUMENTS)
    finally:
        disable_tracing()
    (span,) = [one for one in recording.spans if one.name == "haystack.chat_generator.run"]
    replies = span.tags["haystack.component.output"]["replies"]
    assert replies[0].meta["usage"]["prompt_tokens"] == 11


# ---------------------------------------------------------------------- as a part of the component


@pytest.mark.parametrize("wrong", ["gpt-4.1-mini", SyncOnly, object(), {"type": "openai"}])
def test_objects_that_are_no_chat_generator_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="chat_generator: give a chat generator"):
        SecondPassRanker({"method": "listwise"}, chat_generator=wrong)


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


def test_settings_assigned_later_count() -> None:
    ranker = SecondPassRanker("lexical")
    documents = [Document(content="cat"), Document(content="dog")]
    ranker.score_threshold = 0.1
    assert texts(ranker.run("cat", documents)) == ["cat"]
    ranker.score_threshold, ranker.depth = None, 1
    assert ranker.run("dog", documents)["documents"][1].meta["rerank_status"] == "tail"


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
