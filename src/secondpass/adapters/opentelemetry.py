"""Rankings as traces and metrics of OpenTelemetry.

:func:`instrument` registers an observer that opens a span for every ranking, method, request and
scorer call, and records metrics. Names follow the semantic conventions of OpenTelemetry for
generative AI (1.41) for requests, and those of OpenInference for rankings; others begin with
``secondpass.``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

from secondpass.concurrency.lazy import require
from secondpass.questions import Completion, Prompt
from secondpass.ranking.candidates import retrieval_score
from secondpass.ranking.observers import (
    MethodOperation,
    Operation,
    RankingOperation,
    Registration,
    RequestOperation,
    ScoringOperation,
    observe,
    registrations,
)
from secondpass.ranking.result import Ranking
from secondpass.types import Candidate, Report, Usage, record_id

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider


Value: TypeAlias = str | int | float | Sequence[str]

_PROVIDERS = {"google": "gcp.gemini"}
"""Provider names of secondpass that differ from the well-known values."""


def _span_name(operation: Operation) -> str:
    """The name of a span."""
    if isinstance(operation, RankingOperation):
        return f"rerank {operation.name}"
    if isinstance(operation, RequestOperation):
        return f"{operation.kind} {operation.name}"
    if isinstance(operation, ScoringOperation):
        return f"score {operation.name}"
    return operation.name


def _attributes(operation: Operation) -> dict[str, Value]:
    """The attributes that are known of an operation so far."""
    known: dict[str, Value | None] = {"error.type": operation.error}
    if isinstance(operation, RankingOperation):
        known["openinference.span.kind"] = "RERANKER"
        known["reranker.model_name"] = operation.name
        top_k = operation.candidates if operation.top_k is None else operation.top_k
        known["reranker.top_k"] = top_k
        known["secondpass.candidates"] = operation.candidates
        if operation.report is not None:
            known |= _report(operation.report)
    elif isinstance(operation, MethodOperation):
        known["openinference.span.kind"] = "CHAIN"
        known["secondpass.texts"] = operation.texts
        known["secondpass.scored"] = operation.scored
    elif isinstance(operation, ScoringOperation):
        known["openinference.span.kind"] = "CHAIN"
        known["secondpass.queries"] = operation.queries
        known["secondpass.pairs"] = operation.pairs
    elif isinstance(operation, RequestOperation):
        known |= _request_labels(operation)
        known["openinference.span.kind"] = "LLM" if operation.kind == "chat" else "RERANKER"
        known["secondpass.documents"] = operation.documents
        known["secondpass.attempt"] = operation.attempt
        known["secondpass.after"] = operation.after
        known["gen_ai.usage.input_tokens"] = operation.input_tokens
        known["gen_ai.usage.output_tokens"] = operation.output_tokens
        known["secondpass.usage.units"] = operation.units
        known["gen_ai.response.finish_reasons"] = ["length"] if operation.cut else None
    return {name: value for name, value in known.items() if value is not None}


def _report(report: Report) -> dict[str, Value | None]:
    usage = asdict(report.usage)
    return {
        "secondpass.status": report.status,
        "secondpass.degraded_by": report.degraded_by or None,
        "secondpass.method": report.method,
        "secondpass.score_kind": report.score_kind,
        "secondpass.skipped.pairs": None if report.skipped is None else report.skipped.pairs,
        "secondpass.nothing_relevant": report.nothing_relevant,
        "secondpass.issues": list(dict.fromkeys(issue.code for issue in report.issues)) or None,
        **{f"secondpass.usage.{name}": value for name, value in usage.items()},
    }


def _metric_labels(operation: Operation) -> dict[str, str | int]:
    """The attributes of metrics, which have few distinct values."""
    error = {} if operation.error is None else {"error.type": operation.error}
    if isinstance(operation, RankingOperation):
        status = "none" if operation.report is None else operation.report.status
        return {"secondpass.method": operation.name, "secondpass.status": status, **error}
    if isinstance(operation, RequestOperation):
        return {**_request_labels(operation), **error}
    name = "secondpass.method" if isinstance(operation, MethodOperation) else "secondpass.model"
    return {name: operation.name, **error}


def _request_labels(operation: RequestOperation) -> dict[str, str | int]:
    server = {"server.address": operation.address, "server.port": operation.port}
    address = {name: value for name, value in server.items() if value is not None}
    return {
        "gen_ai.operation.name": operation.kind,
        "gen_ai.provider.name": _PROVIDERS.get(operation.provider, operation.provider),
        "gen_ai.request.model": operation.name,
        **address,
    }


# ---------------------------------------------------------------------- texts


def of_texts(texts: Mapping[str, Any]) -> dict[str, Value]:
    """The attributes for the texts of an operation, which :meth:`Observer.content` receives."""
    attributes: dict[str, Value] = {}
    for name, value in texts.items():
        if name == "query":
            attributes["reranker.query"] = value
        elif name == "candidates":
            for index, candidate in enumerate(value):
                score = retrieval_score(candidate)
                attributes |= _document("input", index, candidate, score, candidate.metadata)
        elif isinstance(value, Ranking):
            for index, item in enumerate(value):
                score = item.final_score
                attributes |= _document("output", index, item.candidate, score, item.metadata)
        elif isinstance(value, Prompt):
            attributes |= _prompt(value)
        elif isinstance(value, Completion):
            attributes |= _completion(value)
    return attributes


def _document(
    side: str, index: int, candidate: Candidate, score: float | None, metadata: object
) -> dict[str, Value]:
    known = {
        "id": None if candidate.id is None else str(record_id(candidate.id)),
        "content": candidate.text if isinstance(candidate.text, str) else None,
        "score": score,
        "metadata": _json(metadata) if metadata else None,
    }
    prefix = f"reranker.{side}_documents.{index}.document"
    return {f"{prefix}.{name}": value for name, value in known.items() if value is not None}


def _prompt(prompt: Prompt) -> dict[str, Value]:
    messages = [
        {"role": turn.role, "parts": [{"type": "text", "content": turn.text}]}
        for turn in prompt.turns
    ]
    attributes: dict[str, Value] = {"gen_ai.input.messages": _json(messages)}
    if prompt.system:
        parts = [{"type": "text", "content": prompt.system}]
        attributes["gen_ai.system_instructions"] = _json(parts)
    return attributes


def _completion(completion: Completion) -> dict[str, Value]:
    message = {
        "role": "assistant",
        "parts": [{"type": "text", "content": completion.text}],
        "finish_reason": "length" if completion.cut else "stop",
    }
    return {"gen_ai.output.messages": _json([message])}


def _json(value: object) -> str:
    """A value as JSON; parts that JSON does not have are written as strings, or left out."""
    return json.dumps(value, default=str, ensure_ascii=False, skipkeys=True)


_SCOPE = "secondpass"
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(4**exponent for exponent in range(14))
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_COUNTERS = {
    "secondpass.rankings": ("{ranking}", "Rankings, by status."),
    "secondpass.issues": ("{issue}", "Issues, by code."),
    "secondpass.scoring.pairs": ("{pair}", "Scored pairs."),
}
_TOKEN_USAGE = "Number of input and output tokens used."
_HISTOGRAMS: Mapping[str, tuple[str, str, Sequence[float]]] = {
    "secondpass.ranking.duration": ("s", "Duration of a ranking.", _SECONDS),
    "secondpass.candidates": ("{candidate}", "Candidates of a ranking.", _COUNTS),
    "secondpass.ranking.calls": ("{call}", "Scorer calls and questions.", _COUNTS),
    "secondpass.ranking.tokens": ("{token}", "Tokens of a ranking.", _TOKENS),
    "secondpass.method.duration": ("s", "Duration of a method.", _SECONDS),
    "secondpass.scoring.duration": ("s", "Duration of a scorer call.", _SECONDS),
    "gen_ai.client.operation.duration": ("s", "GenAI operation duration.", _SECONDS),
    "gen_ai.client.token.usage": ("{token}", _TOKEN_USAGE, _TOKENS),
}


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    content: bool = False,
) -> Registration:
    """Open spans and record metrics for every ranking in this process.

    A call with the same providers as an earlier one replaces it, so that nothing is counted twice.

    Args:
        tracer_provider: of the spans; None: the global provider.
        meter_provider: of the metrics; None: the global provider.
        content: whether spans have queries, passages, metadata, prompts and replies.

    Returns:
        The registration; :meth:`~secondpass.ranking.observers.Registration.close` ends it.

    Raises:
        MissingExtraError: the package ``opentelemetry-api`` is not installed.
    """
    require(["opentelemetry.trace", "opentelemetry.metrics"], "otel", "tracing")
    from opentelemetry import metrics, trace

    providers = (
        tracer_provider or trace.get_tracer_provider(),
        meter_provider or metrics.get_meter_provider(),
    )
    telemetry = _Telemetry(*providers, content=content)
    for registration in registrations():
        other = registration.observer
        if isinstance(other, _Telemetry) and other.providers == providers:
            registration.close()
    return observe(telemetry)


class _Telemetry:
    """Opens spans and records metrics.

    The span of a request or a scorer call is the current one while it runs, so that spans of SDKs
    and frameworks are its children. Spans of rankings and methods are not, as several rankings of
    ``rerank_many`` alternate in one context.
    """

    def __init__(
        self, tracer_provider: TracerProvider, meter_provider: MeterProvider, *, content: bool
    ) -> None:
        from opentelemetry import metrics, trace

        if content:  # observers without this member are not offered texts
            self.content = self._add_texts
        self.providers = tracer_provider, meter_provider
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
        self._open: dict[Operation, tuple[Span, Any]] = {}
        meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
        self._counters = {
            name: meter.create_counter(name, unit, text) for name, (unit, text) in _COUNTERS.items()
        }
        self._histograms = {
            name: meter.create_histogram(
                name, unit, text, explicit_bucket_boundaries_advisory=buckets
            )
            for name, (unit, text, buckets) in _HISTOGRAMS.items()
        }

    def start(self, operation: Operation) -> None:
        """Open a span within that of the first parent, with links to the others."""
        from opentelemetry import context, trace

        parents = [self._open[parent][0] for parent in operation.parents if parent in self._open]
        within: Context | None = trace.set_span_in_context(parents[0]) if parents else None
        is_request = isinstance(operation, RequestOperation)
        span = self._tracer.start_span(
            _span_name(operation),
            within,
            trace.SpanKind.CLIENT if is_request else trace.SpanKind.INTERNAL,
            _attributes(operation),
            [trace.Link(parent.get_span_context()) for parent in parents[1:]],
        )
        token = None
        if isinstance(operation, RequestOperation | ScoringOperation):
            token = context.attach(trace.set_span_in_context(span))
        self._open[operation] = span, token

    def end(self, operation: Operation) -> None:
        """Record metrics of an operation, and close its span."""
        try:
            self._record(operation)
        finally:
            self._close_span(operation)

    def _close_span(self, operation: Operation) -> None:
        from opentelemetry import context, trace

        if operation not in self._open:
            return
        span, token = self._open.pop(operation)
        # Set again, as texts may have displaced them: a span has at most 128 attributes by default.
        span.set_attributes(_attributes(operation))
        if operation.error is not None:
            span.set_status(trace.StatusCode.ERROR)
        span.end()
        if token is not None:
            context.detach(token)

    def _record(self, operation: Operation) -> None:
        seconds = operation.seconds or 0.0
        labels = _metric_labels(operation)
        if isinstance(operation, RankingOperation):
            self._counters["secondpass.rankings"].add(1, labels)
            self._histograms["secondpass.ranking.duration"].record(seconds, labels)
            self._histograms["secondpass.candidates"].record(operation.candidates, labels)
            if operation.report is not None:
                usage = operation.report.usage
                self._histograms["secondpass.ranking.calls"].record(usage.calls, labels)
                self._record_tokens("secondpass.ranking.tokens", usage, labels)
                for issue in operation.report.issues:
                    issue_labels = {"secondpass.issue.code": issue.code}
                    self._counters["secondpass.issues"].add(1, issue_labels)
        elif isinstance(operation, MethodOperation):
            self._histograms["secondpass.method.duration"].record(seconds, labels)
        elif isinstance(operation, ScoringOperation):
            self._histograms["secondpass.scoring.duration"].record(seconds, labels)
            self._counters["secondpass.scoring.pairs"].add(operation.pairs, labels)
        elif isinstance(operation, RequestOperation):
            self._histograms["gen_ai.client.operation.duration"].record(seconds, labels)
            self._record_tokens("gen_ai.client.token.usage", operation, labels)

    def _record_tokens(
        self, name: str, usage: Usage | RequestOperation, labels: Mapping[str, str | int]
    ) -> None:
        counts = {"input": usage.input_tokens, "output": usage.output_tokens}
        for kind, count in counts.items():
            if count is not None:
                self._histograms[name].record(count, {**labels, "gen_ai.token.type": kind})

    def _add_texts(self, operation: Operation, texts: Mapping[str, Any]) -> None:
        """Add the texts of an operation to its span."""
        if operation in self._open:
            self._open[operation][0].set_attributes(of_texts(texts))
