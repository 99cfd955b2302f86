"""What tracing and OpenInference show of the component and of a generator's calls."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.tracing import Span, Tracer, disable_tracing, enable_tracing, tracer

from contract import Numbers, says
from contract_haystack import Both, SyncOnly
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_objects import BY_INDEX, QUERY, Says, four
from secondpass import Reranker


class NamedSpan:
    """As much of a span of OpenTelemetry's SDK as the component uses."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.attributes: dict[str, Any] = {}

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value


def traced(monkeypatch: pytest.MonkeyPatch, span: object) -> None:
    """Make a span the current one."""
    module = SimpleNamespace(get_current_span=lambda: span)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", module)


@pytest.mark.parametrize(
    ("settings", "documents", "top_k"),
    [
        ({"top_k": 3}, 4, 3),
        ({}, 4, 4),
        ({}, 0, 0),
        ({"reranker": {"method": "lexical", "top_k": 2}}, 4, 2),
        ({"reranker": Reranker("lexical", top_k=1)}, 4, 1),
    ],
)
def test_a_configured_top_k_is_added_to_the_span_of_the_run(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], documents: int, top_k: int
) -> None:
    ranker = SecondPassRanker(**{"reranker": "lexical", **settings})
    spans = [NamedSpan(f"SecondPassRanker.{name}") for name in ("run", "run_async")]
    traced(monkeypatch, spans[0])
    ranker.run(QUERY, four()[:documents])
    traced(monkeypatch, spans[1])
    asyncio.run(ranker.run_async(QUERY, four()[:documents]))
    assert [span.attributes for span in spans] == [{"reranker.top_k": top_k}] * 2


@pytest.mark.parametrize("span", [NamedSpan("GET /search"), object()], ids=["other", "no name"])
def test_other_spans_are_left_alone(monkeypatch: pytest.MonkeyPatch, span: Any) -> None:
    traced(monkeypatch, span)
    SecondPassRanker("lexical", top_k=2).run(QUERY, four())
    assert not getattr(span, "attributes", None)


def test_the_model_is_named_as_in_reports() -> None:
    assert SecondPassRanker("lexical").model_name == "lexical"
    assert SecondPassRanker(Reranker(Numbers())).model_name == "numbers"
    assert SecondPassRanker(BY_INDEX, chat_generator=Says("")).model_name == "listwise by Says"


# ---------------------------------------------------------------------- the real instrumentor


@pytest.fixture
def spans() -> Iterator[Any]:
    """The finished spans of a pipeline that OpenInference instruments."""
    instrumentation = pytest.importorskip("openinference.instrumentation.haystack")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = instrumentation.HaystackInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    yield exporter.get_finished_spans
    instrumentor.uninstrument()
    provider.shutdown()


@pytest.mark.long
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("at_run", "top_k"), [({}, 2), ({"top_k": 1}, 1)])
def test_openinference_shows_the_model_and_top_k(
    spans: Any, asynchronous: bool, at_run: dict[str, Any], top_k: int
) -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker("lexical", top_k=2))
    documents = [Document(content="the castle garden"), Document(content="a market")]
    data = {"ranker": {"query": QUERY, "documents": documents, **at_run}}
    _ = asyncio.run(pipeline.run_async(data)) if asynchronous else pipeline.run(data)
    name = "SecondPassRanker.run_async" if asynchronous else "SecondPassRanker.run"
    (span,) = [span for span in spans() if span.name == name]
    assert span.attributes["openinference.span.kind"] == "RERANKER"
    assert span.attributes["reranker.model_name"] == "lexical"
    assert span.attributes["reranker.top_k"] == top_k
    assert span.attributes["reranker.query"] == QUERY
    shown = json.loads(span.attributes["output.value"])
    assert shown["report"]["method"] == "lexical"


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


def graded(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A grade for each document shown, and what it cost; opens a span of its own."""
    shown = messages[-1]["content"].split('<doc id="')[1:]
    with tracer.trace("inside"):
        text = json.dumps({one.split('"')[0]: 5 for one in shown})
        return says(text, prompt_tokens=11, completion_tokens=len(shown))


@pytest.mark.parametrize("generator", [SyncOnly, Both])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_generator_calls_are_traced_under_the_component(
    recording: Recording, generator: type, asynchronous: bool
) -> None:
    pipeline = Pipeline()
    config = {"method": {"type": "graded", "batch_size": 2}}
    pipeline.add_component("ranker", SecondPassRanker(config, chat_generator=generator(graded)))
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
