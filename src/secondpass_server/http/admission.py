"""Limits the running requests, by number and by the bytes of their bodies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from secondpass_server.http.errors import RequestError
from secondpass_server.http.settings import ServerSettings

_LONGEST_WAIT = 30
"""Maximum seconds of ``Retry-After``."""
_WEIGHT = 0.1
"""Weight of the last request in the moving average of durations."""


class Slot:
    """The place of one running request."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.bytes = 0

    def add(self, count: int) -> None:
        """Count bytes of the body that have arrived; refuse them if all bodies are too large."""
        admission = self._admission
        # A single request is always admitted; its body has its own limit.
        if admission.bytes + count > admission.max_bytes and admission.bytes > self.bytes:
            raise admission.overloaded("the requests under way are too large")
        self.bytes += count
        admission.bytes += count


class Admission:
    """Admits requests while there is room.

    Attributes:
        requests: number of running requests.
        bytes: bytes of their bodies.
        seconds: moving average of the durations of requests.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.requests = 0
        self.bytes = 0
        self.seconds = 0.0
        self.max_bytes = settings.max_total_bytes
        self._max_requests = settings.max_requests

    @contextmanager
    def slot(self) -> Iterator[Slot]:
        """Admit a request for the duration of the block, or refuse it with status 429."""
        if self.requests >= self._max_requests:
            raise self.overloaded(f"{self._max_requests} requests are under way")
        slot = Slot(self)
        self.requests += 1
        try:
            yield slot
        finally:
            self.requests -= 1
            self.bytes -= slot.bytes

    def add_duration(self, seconds: float) -> None:
        """Add the duration of a request that was answered with a ranking to the average."""
        self.seconds += (seconds - self.seconds) * (_WEIGHT if self.seconds else 1)

    def overloaded(self, reason: str) -> RequestError:
        wait = min(max(1, round(self.seconds)), _LONGEST_WAIT)
        message = f"{reason}; try again in {wait} s"
        return RequestError(429, message, "overloaded", headers={"Retry-After": str(wait)})
