"""Bounds the requests that are under way, by number and by the bytes of their bodies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from secondpass.adapters.http_server.problems import RequestError
from secondpass.adapters.http_server.settings import ServerSettings

_LONGEST_WAIT = 30
"""Seconds of ``Retry-After`` at most."""
_WEIGHT = 0.1
"""Of the last request in the mean duration."""


class Slot:
    """The place of one request among those under way."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.bytes = 0

    def add(self, count: int) -> None:
        """Count bytes of the body that have arrived.

        Raises:
            RequestError: the bodies under way are too large together.
        """
        admission = self._admission
        if admission.bytes + count > admission.max_bytes and admission.bytes > self.bytes:
            raise admission.refusal("the requests under way are too large")
        self.bytes += count
        admission.bytes += count


class Admission:
    """Admits requests while there is room.

    Attributes:
        requests: number under way.
        bytes: of their bodies.
        max_bytes: the most of these.
        seconds: mean duration of the last requests.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.requests = 0
        self.bytes = 0
        self.seconds = 0.0
        self.max_bytes = settings.max_total_bytes
        self._max_requests = settings.max_requests

    @contextmanager
    def slot(self) -> Iterator[Slot]:
        """Hold a place.

        Raises:
            RequestError: there is none; status 429, with ``Retry-After``.
        """
        if self.requests >= self._max_requests:
            raise self.refusal(f"{self._max_requests} requests are under way")
        slot = Slot(self)
        self.requests += 1
        try:
            yield slot
        finally:
            self.requests -= 1
            self.bytes -= slot.bytes

    def add_duration(self, seconds: float) -> None:
        """Count a request that was answered with a ranking."""
        self.seconds += (seconds - self.seconds) * (_WEIGHT if self.seconds else 1)

    def refusal(self, reason: str) -> RequestError:
        """The error of a request for which there is no room."""
        wait = min(max(1, round(self.seconds)), _LONGEST_WAIT)
        headers = {"Retry-After": str(wait)}
        message = f"{reason}; try again in {wait} s"
        return RequestError(429, message, "overloaded", headers=headers)
