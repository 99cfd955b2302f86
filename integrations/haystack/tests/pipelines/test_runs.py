"""Pipelines that are saved, paused, logged, and run beside each other."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from haystack import Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import (
    FallbackChatGenerator,
    MockChatGenerator,
    OpenAIChatGenerator,
)
from haystack.components.rankers import LostInTheMiddleRanker
from haystack.core.errors import BreakpointException, PipelineRuntimeError
from haystack.core.pipeline.breakpoint import load_pipeline_snapshot
from haystack.dataclasses import ChatMessage
from haystack.dataclasses.breakpoints import Breakpoint
from haystack.utils import Secret

from fake_provider import FakeProvider
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_objects import CASTLES, Broken, Result, Way, asking, every_way, numbered, retrieving
from secondpass import RerankError
from secondpass.types import TIMES


def openai_generator(model: str) -> OpenAIChatGenerator:
    return OpenAIChatGenerator(api_key=Secret.from_env_var("A_SECRET_KEY"), model=model)


SAVED: dict[str, Callable[[], SecondPassRanker]] = {
    "flat token": lambda: SecondPassRanker(
        "cohere", model="other", api_key=Secret.from_env_var("A_SECRET_KEY"), top_k=2
    ),
    "openai": lambda: SecondPassRanker("listwise_guided", chat_generator=openai_generator("one")),
    "fallback of two": lambda: SecondPassRanker(
        {"method": "listwise", "depth": 5},
        chat_generator=FallbackChatGenerator([openai_generator("one"), openai_generator("two")]),
    ),
    "mock": lambda: SecondPassRanker(
        {"method": {"type": "graded", "scale": [0, 3]}}, chat_generator=MockChatGenerator("{}")
    ),
    "mock of messages": lambda: SecondPassRanker(
        {"method": "listwise"},
        chat_generator=MockChatGenerator([ChatMessage.from_assistant("{}"), "[]"], model="m"),
    ),
    "cascade": lambda: SecondPassRanker(
        {
            "method": {"type": "cascade", "stages": ["lexical", {"type": "listwise", "depth": 2}]},
            "blend": {"original": 0.2, "normalize": "minmax"},
            "orders": {"learn": {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]}},
            "limits": {"deadline": 5},
        },
        chat_generator=MockChatGenerator("{}"),
    ),
}


@pytest.mark.parametrize("name", SAVED)
def test_saved_pipelines_load_without_an_allow_list(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_KEY", "sk-very-secret")
    pipeline = Pipeline()
    pipeline.add_component("ranker", SAVED[name]())
    saved = pipeline.dumps()
    assert Pipeline.loads(saved).dumps() == saved
    assert "sk-very-secret" not in saved
    assert ("A_SECRET_KEY" in saved) == (name in {"flat token", "openai", "fallback of two"})


# ---------------------------------------------------------------------- breakpoints


def answering(ranker: SecondPassRanker) -> Pipeline:
    pipeline = retrieving(ranker)
    pipeline.add_component("middle", LostInTheMiddleRanker())
    template = "{{ report.status }}: {% for one in documents %}{{ one.content }}|{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.connect("ranker.documents", "middle.documents")
    pipeline.connect("middle.documents", "prompt.documents")
    pipeline.connect("ranker.report", "prompt.report")
    return pipeline


def timeless(result: Result) -> Result:
    """A result without its times."""
    report = {key: value for key, value in result["report"].items() if key not in TIMES}
    return {**result, "report": report}


@pytest.mark.parametrize("where", ["ranker", "middle", "prompt"])
def test_paused_run_resumes_with_the_same_result(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAYSTACK_PIPELINE_SNAPSHOT_SAVE_ENABLED", "true")
    data = {
        "retriever": {"query": CASTLES},
        "ranker": {"query": CASTLES, "top_k": 3, "order": {"type": "lost_in_the_middle"}},
    }
    shown = {"ranker", "middle"}
    pipeline = answering(SecondPassRanker("lexical"))
    through = pipeline.run(data, include_outputs_from=shown)
    with pytest.raises(BreakpointException):
        pipeline.run(
            data,
            include_outputs_from=shown,
            break_point=Breakpoint(where, snapshot_file_path=str(tmp_path)),
        )
    (file,) = tmp_path.glob("*.json")
    fresh = answering(SecondPassRanker("lexical"))
    resumed = fresh.run({}, pipeline_snapshot=load_pipeline_snapshot(file))
    assert resumed["prompt"] == through["prompt"]
    assert resumed["middle"] == through["middle"]
    assert timeless(resumed["ranker"]) == timeless(through["ranker"])


def test_strict_failure_leaves_a_snapshot() -> None:
    broken = SecondPassRanker({"method": Broken()}, raise_on_failure=True)
    data = asking("retriever", "ranker")
    with pytest.raises(PipelineRuntimeError, match="strict is set") as raised:
        answering(broken).run(data)
    assert isinstance(raised.value.__cause__, RerankError)
    assert raised.value.pipeline_snapshot is not None
    mended = answering(SecondPassRanker("lexical", raise_on_failure=True))
    resumed = mended.run({}, pipeline_snapshot=raised.value.pipeline_snapshot)
    assert resumed == mended.run(data)


# ---------------------------------------------------------------------- what is logged and printed


@component
class ColdGenerator:
    """Can't be warmed up, but answers."""

    def warm_up(self) -> None:
        raise OSError("sk-secret is no key")

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> Result:
        labels = re.findall(r'<doc id="([^"]*)">', messages[-1].text or "")
        return {"replies": [ChatMessage.from_assistant(json.dumps({"ranking": labels}))]}


@every_way
def test_a_degraded_run_logs_one_warning_and_prints_nothing(
    way: Way, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = retrieving(SecondPassRanker({"method": Broken(), "fallback": ["lexical"]}))
    with caplog.at_level(logging.WARNING):
        result = way(pipeline, asking("retriever", "ranker"))
    assert result["ranker"]["report"]["status"] == "degraded"
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "degraded" in record.getMessage()
    assert "castle" not in record.getMessage()
    assert capsys.readouterr() == ("", "")


@every_way
def test_failed_warm_up_is_logged(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    ranker = SecondPassRanker({"method": "listwise"}, chat_generator=ColdGenerator())
    pipeline = retrieving(ranker)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            result = way(pipeline, asking("retriever", "ranker"))
            assert result["ranker"]["report"]["status"] == "ok"
    (record,) = caplog.records
    assert record.getMessage() == "the chat generator can't be warmed up: OSError"
    # The values by themselves are what structured logs are made of, and only `haystack.logging`
    # leaves them on the record.
    assert record.__dict__["error"] == "OSError"


# ---------------------------------------------------------------------- event loops


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_unclosed_client_serves_a_second_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_KEY", "sk-very-secret")
    with FakeProvider() as provider:
        generator = OpenAIChatGenerator(
            api_key=Secret.from_env_var("A_SECRET_KEY"),
            api_base_url=provider.base_url("openai"),
            model="some-model",
            max_retries=0,
        )
        pipeline = Pipeline()
        ranker = SecondPassRanker({"method": "graded"}, chat_generator=generator)
        pipeline.add_component("ranker", ranker)
        data = {"ranker": {"query": CASTLES, "documents": numbered(2, 9, 5)}}
        results = [asyncio.run(pipeline.run_async(data)) for _ in range(3)]
        pipeline.close()
    del pipeline, ranker, generator
    gc.collect()  # or connections of closed loops would be complained of in another test
    assert [result["ranker"]["report"]["status"] for result in results] == ["ok"] * 3
