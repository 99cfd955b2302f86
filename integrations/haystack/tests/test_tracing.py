"""What tracing and OpenInference show of the component."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from haystack import Document, Pipeline

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_rankers import BY_INDEX, QUERY, Recorder, Says, four
from secondpass import Reranker


class NamedSpan:
    """As much of a span of OpenTelemetry's SDK as the component uses."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.attributes: dict[str, Any] = {}

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value


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
    for name in ("run", "run_async"):
        span = NamedSpan(f"SecondPassRanker.{name}")
        monkeypatch.setitem(
            sys.modules, "opentelemetry.trace", SimpleNamespace(get_current_span=lambda s=span: s)
        )
        result = getattr(ranker, name)(QUERY, four()[:documents])
        if name == "run_async":
            asyncio.run(result)
        assert span.attributes == {"reranker.top_k": top_k}


@pytest.mark.parametrize("span", [NamedSpan("GET /search"), object()], ids=["other", "no name"])
def test_other_spans_are_left_alone(monkeypatch: pytest.MonkeyPatch, span: Any) -> None:
    monkeypatch.setitem(
        sys.modules, "opentelemetry.trace", SimpleNamespace(get_current_span=lambda: span)
    )
    SecondPassRanker("lexical", top_k=2).run(QUERY, four())
    assert not getattr(span, "attributes", None)


def test_the_model_is_named_as_in_reports() -> None:
    assert SecondPassRanker("lexical").model_name == "lexical"
    assert SecondPassRanker(Reranker(Recorder())).model_name == "recorder"
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
