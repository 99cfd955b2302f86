"""Tracing of a generator's calls."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
from collections.abc import Iterator
from typing import Any

import pytest
from haystack import Pipeline, component, default_from_dict, default_to_dict
from haystack.dataclasses import ChatMessage
from haystack.tracing import Span, Tracer, disable_tracing, enable_tracing, tracer

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_rankers import BY_INDEX, QUERY, Says, four


class Recorded(Span):
    """A span with its parent."""

    def __init__(self, name: str, parent: Recorded | None, tags: dict[str, Any] | None) -> None:
        self.name = name
        self.parent = parent
        self.tags = dict(tags or {})

    def set_tag(self, key: str, value: Any) -> None:
        self.tags[key] = value

    def set_content_tag(self, key: str, value: Any) -> None:
        self.tags[key] = value


class Recording(Tracer):
    """Keeps spans. Which one is current is a context variable, as in OpenTelemetry."""

    def __init__(self) -> None:
        self.spans: list[Recorded] = []
        self._current: contextvars.ContextVar[Recorded | None] = contextvars.ContextVar(
            "current", default=None
        )

    @contextlib.contextmanager
    def trace(
        self, operation_name: str, tags: dict[str, Any] | None = None, parent_span: Any = None
    ) -> Iterator[Span]:
        span = Recorded(operation_name, parent_span or self._current.get(), tags)
        self.spans.append(span)
        token = self._current.set(span)
        try:
            yield span
        finally:
            self._current.reset(token)

    def current_span(self) -> Span | None:
        return self._current.get()

    def named(self, name: str) -> list[Recorded]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def recording() -> Iterator[Recording]:
    before = tracer.actual_tracer
    recorder = Recording()
    enable_tracing(recorder)
    yield recorder
    disable_tracing()
    tracer.actual_tracer = before


def graded(messages: list[ChatMessage]) -> dict[str, Any]:
    """A grade for each document shown, and what it cost."""
    shown = (messages[-1].text or "").split('<doc id="')[1:]
    text = json.dumps({one.split('"')[0]: 5 for one in shown})
    usage = {"prompt_tokens": 11, "completion_tokens": len(shown)}
    return {"replies": [ChatMessage.from_assistant(text, meta={"usage": usage})]}


@component
class SyncGrades:
    """Grades in `run` alone, and opens a span of its own there."""

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SyncGrades:
        return default_from_dict(cls, data)

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        with tracer.trace("inside"):
            return graded(messages)


@component
class BothGrades:
    """The same, with an asynchronous side that gives way to others."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        with tracer.trace("inside"):
            return graded(messages)

    @component.output_types(replies=list[ChatMessage])
    async def run_async(self, messages: list[ChatMessage]) -> dict[str, Any]:
        with tracer.trace("inside"):
            await asyncio.sleep(0)
            return graded(messages)


@pytest.mark.parametrize("generator", [SyncGrades, BothGrades])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_generator_calls_are_traced_under_the_component(
    recording: Recording, generator: type, asynchronous: bool
) -> None:
    pipeline = Pipeline()
    config = {"method": {"type": "graded", "batch_size": 2}}
    pipeline.add_component("ranker", SecondPassRanker(config, chat_generator=generator()))
    data = {"ranker": {"query": QUERY, "documents": four()}}
    result = asyncio.run(pipeline.run_async(data)) if asynchronous else pipeline.run(data)
    assert result["ranker"]["report"]["status"] == "ok"
    (outer,) = recording.named("haystack.component.run")
    asked = recording.named("haystack.chat_generator.run")
    assert len(asked) == 2
    for span in asked:
        assert span.parent is outer
        assert span.tags["haystack.component.type"] == generator.__name__
        assert span.tags["haystack.component.input"]["messages"][-1].is_from("user")
        (reply,) = span.tags["haystack.component.output"]["replies"]
        assert reply.meta["usage"] == {"prompt_tokens": 11, "completion_tokens": 2}
    # What the generator traces itself belongs to the call that it is part of.
    inside = [span.parent for span in recording.named("inside")]
    assert sorted(map(id, inside)) == sorted(map(id, asked))  # threads come as they like


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_call_that_fails_is_traced_without_an_output(
    recording: Recording, asynchronous: bool
) -> None:
    generator = Says(error=RuntimeError("generator failed"))
    ranker = SecondPassRanker(BY_INDEX, chat_generator=generator)
    if asynchronous:
        asyncio.run(ranker.run_async(QUERY, four()))
    else:
        ranker.run(QUERY, four())
    spans = recording.named("haystack.chat_generator.run")
    assert spans
    for span in spans:
        assert "haystack.component.input" in span.tags
        assert "haystack.component.output" not in span.tags
