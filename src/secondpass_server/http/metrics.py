"""Metrics for Prometheus.

They use prometheus_client, which also adds up the metrics of several worker processes. Labels never
have text of a request: names of models are those that are served.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from secondpass import Ranking
from secondpass_server.http.admission import Admission

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
_CANDIDATES = (1, 5, 10, 20, 50, 100, 200, 500, 1000)
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Variable with the folder in which worker processes store their metrics."""


class Metrics:
    """Counts requests and rankings.

    Args:
        admission: has the number of running requests.
    """

    def __init__(self, admission: Admission) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        # Not the global registry, so that a process can have several servers.
        self._registry = registry = CollectorRegistry()
        own: dict[str, Any] = {"namespace": "secondpass", "registry": registry}
        self._requests = Counter(
            "requests", "Responses by API and status code.", ["api", "status"], **own
        )
        self._seconds = Histogram(
            "request_seconds", "Time from a request to its response.", buckets=_SECONDS, **own
        )
        self._under_way = Gauge(
            "requests_under_way", "Requests under way.", multiprocess_mode="livesum", **own
        )
        self._connections = Gauge(
            "connections", "Open connections.", multiprocess_mode="livesum", **own
        )
        self._closed_connections = Counter(
            "connections_closed", "Idle connections closed to make room for others.", **own
        )
        self._rankings = Counter(
            "rankings", "Rankings by model and report status.", ["model", "status"], **own
        )
        self._issues = Counter("issues", "Issues of rankings, by code.", ["code"], **own)
        self._candidates = Histogram(
            "candidates", "Candidates per request.", buckets=_CANDIDATES, **own
        )
        self._waiting = Histogram(
            "waiting_seconds",
            "Time of rankings that waited for a model or a thread.",
            buckets=_SECONDS,
            **own,
        )
        self._depth = Histogram(
            "depth_ratio",
            "Candidates scored, of those within the depth.",
            buckets=_SHARES,
            **own,
        )
        self._overloaded = Counter(
            "overloaded", "Rankings refused because of other rankings.", ["model"], **own
        )
        self._calls = Counter("calls", "Calls of scorers and services.", ["model"], **own)
        self._tokens = Counter(
            "tokens", "Tokens that services reported.", ["model", "direction"], **own
        )
        self._units = Counter("billed_units", "Billed units that are no tokens.", ["model"], **own)
        self._admission = admission

    def add_request(self, api: str, status: int, seconds: float | None = None) -> None:
        """Count a response, and record its duration if it has one."""
        self._requests.labels(api, status).inc()
        if seconds is not None:
            self._seconds.observe(seconds)

    def set_under_way(self) -> None:
        """Update the number of running requests."""
        self._under_way.set(self._admission.requests)

    def set_connections(self, count: int) -> None:
        """Update the number of open connections."""
        self._connections.set(count)

    def add_closed_connection(self) -> None:
        """Count an idle connection that was closed to make room."""
        self._closed_connections.inc()

    def add_ranking(self, model: str, ranking: Ranking, candidates: int) -> None:
        """Count a ranking, its issues and its usage."""
        report = ranking.report
        self._rankings.labels(model, report.status).inc()
        for code in _codes(issue.code for issue in report.issues):
            self._issues.labels(code).inc()
        self._candidates.observe(candidates)
        self._waiting.observe(report.waiting_seconds)
        if report.depth_asked:
            self._depth.observe(report.depth_done / report.depth_asked)
        refused = any(issue.code == "overloaded" for issue in report.issues)
        self._overloaded.labels(model).inc(refused)
        self._calls.labels(model).inc(report.usage.calls)
        usage = report.usage
        for direction, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if count is not None:
                self._tokens.labels(model, direction).inc(count)
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
