"""Metrics for Prometheus.

They use prometheus_client, which also adds up the metrics of several worker processes. Labels never
have text of a request: names of models are those that are served.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

from secondpass import Ranking

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
_CANDIDATES = (1, 5, 10, 20, 50, 100, 200, 500, 1000)
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Variable with the folder in which worker processes store their metrics."""


class Metrics:
    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        # Not the global registry, so that a process can have several servers.
        self._registry = registry = CollectorRegistry()
        counter = partial(Counter, namespace="secondpass", registry=registry)
        histogram = partial(Histogram, namespace="secondpass", registry=registry)
        gauge = partial(
            Gauge, namespace="secondpass", registry=registry, multiprocess_mode="livesum"
        )
        self._requests = counter("requests", "Responses by API and status code.", ["api", "status"])
        self._seconds = histogram(
            "request_seconds", "Time from a request to its response.", buckets=_SECONDS
        )
        self.under_way = gauge("requests_under_way", "Requests under way.")
        self.connections = gauge("connections", "Open connections.")
        self.closed_connections = counter(
            "connections_closed", "Idle connections closed to make room for others."
        )
        self._rankings = counter(
            "rankings", "Rankings by model and report status.", ["model", "status"]
        )
        self._degraded = counter(
            "degraded", "Degraded rankings, by model and reason.", ["model", "by"]
        )
        self._issues = counter("issues", "Issues of rankings, by code.", ["code"])
        self._candidates = histogram("candidates", "Candidates per request.", buckets=_CANDIDATES)
        self._waiting = histogram(
            "waiting_seconds",
            "Time of rankings that waited for a model or a thread.",
            buckets=_SECONDS,
        )
        self._depth = histogram(
            "depth_ratio", "Candidates scored, of those within the depth.", buckets=_SHARES
        )
        self._overloaded = counter(
            "overloaded", "Rankings refused because of other rankings.", ["model"]
        )
        self._calls = counter("calls", "Calls of scorers and services.", ["model"])
        self._tokens = counter("tokens", "Tokens that services reported.", ["model", "direction"])
        self._passages = counter(
            "passages", "Passages whose encoding was known, and that were encoded.", ["state"]
        )
        self._units = counter("billed_units", "Billed units that are no tokens.", ["model"])

    def add_request(self, api: str, status: int, seconds: float | None = None) -> None:
        """Count a response, and record its duration if it has one."""
        self._requests.labels(api, status).inc()
        if seconds is not None:
            self._seconds.observe(seconds)

    def add_ranking(self, model: str, ranking: Ranking, candidates: int) -> None:
        report, usage = ranking.report, ranking.report.usage
        self._rankings.labels(model, report.status).inc()
        for reason in report.degraded_by:
            self._degraded.labels(model, reason).inc()
        for code in _codes(issue.code for issue in report.issues):
            self._issues.labels(code).inc()
        self._candidates.observe(candidates)
        self._waiting.observe(report.waiting_seconds)
        if report.depth_asked:
            self._depth.observe(report.depth_done / report.depth_asked)
        refused = any(issue.code == "overloaded" for issue in report.issues)
        self._overloaded.labels(model).inc(refused)
        self._calls.labels(model).inc(usage.calls)
        self._passages.labels("known").inc(usage.known)
        self._passages.labels("encoded").inc(usage.encoded)
        if usage.input_tokens is not None:
            self._tokens.labels(model, "input").inc(usage.input_tokens)
        if usage.output_tokens is not None:
            self._tokens.labels(model, "output").inc(usage.output_tokens)
        if usage.units is not None:
            self._units.labels(model).inc(usage.units)

    def text(self) -> tuple[bytes, str]:
        """The metrics of all workers in the format of Prometheus, and the content type."""
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = self._registry
        if os.environ.get(FOLDER_VARIABLE):
            from prometheus_client.multiprocess import MultiProcessCollector

            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST


def _codes(codes: Iterable[str]) -> set[str]:
    """Each code once. Custom methods may have codes that are not identifiers: ``other``."""
    return {code if code.isidentifier() and len(code) <= 50 else "other" for code in codes}
