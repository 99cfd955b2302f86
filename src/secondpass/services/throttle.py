"""How fast a service is asked: by what it says of its rate limit, and by what it rejects.

Nothing is limited until the service rejects a request (429) or says that none is left. From then
on, requests are spaced by a rate: first that at which the service has answered lately. It grows
fast until the second rejection, and slowly from then on; each rejection lowers it, at least to the
rate at which the service has answered since the one before (additive increase, multiplicative
decrease). Times are those of ``time.monotonic()``; tests pass their own.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from secondpass.concurrency.lazy import PerObject
from secondpass.concurrency.locks import fork_lock
from secondpass.errors import reraise_exit

_SHARE = 0.92  # share of the rate at a rejection that a service is asked at from then on
_GROWTH = 0.01  # growth of the rate per second, more the longer nothing is rejected
_FASTER = 5.0  # seconds after which it grows twice as fast
_FAST = 0.7  # the same until the second rejection
_LOWEST = 0.2  # requests per second at the least
_WINDOW = 2.0  # seconds over which answers are counted
_BURST = 0.25  # seconds of requests that may be sent at once after a pause
LONGEST = 30.0
"""Seconds. A longer pause that a service asks for is not waited for."""
_FORGOTTEN = 600.0  # seconds without a rejection after which the rate is not limited any more

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_EPOCH, _EPOCH_MILLISECONDS = 1e9, 1e11
"""A larger number is a time, not a duration: in seconds, or in milliseconds (OpenRouter)."""
_LIMITS = (
    # OpenAI, Groq and servers that are compatible: durations such as 6m0s or 12ms
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    # Anthropic: times of RFC 3339
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    # The IETF's draft, and its older form: seconds
    ("ratelimit-remaining", "ratelimit-reset"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
)
"""Headers that state what is left, and when it is full again."""


def reset_seconds(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds until a service takes requests again; None unless a header says that none is left.

    Names of headers are in lower case; ``now`` is a time since 1970, by default that of the clock.
    """
    now = time.time() if now is None else now
    resets = [
        _seconds(headers.get(reset), now)
        for remaining, reset in _LIMITS
        if headers.get(remaining) in {"0", "0.0"}
    ]
    return max((seconds for seconds in resets if seconds is not None), default=None)


def _seconds(text: str | None, now: float) -> float | None:
    """A duration or a time as seconds from now; None if it is neither."""
    if text is None or len(text) > 40:
        return None
    try:
        number = float(text)
    except ValueError:
        match = _DURATION.fullmatch(text)
        if match is not None and any(match.groups()):
            hours, minutes, seconds, thousandths = (float(part or 0) for part in match.groups())
            return hours * 3600 + minutes * 60 + seconds + thousandths / 1000
        try:
            return max(0.0, datetime.fromisoformat(text).timestamp() - now)
        except (ValueError, OverflowError):
            return None
    if not 0 <= number < float("inf"):
        return None
    if number > _EPOCH_MILLISECONDS:
        number /= 1000
    return max(0.0, number - now) if number > _EPOCH else number


class Throttle:
    """The rate of requests to one service, of all threads and event loops."""

    def __init__(self) -> None:
        self.rate: float | None = None  # requests per second; None while it is not limited
        self._settled = False
        self._lock = fork_lock()
        self._next = 0.0
        self._resumes = 0.0
        self._rejected = 0.0
        self._grown = 0.0
        self._answers: deque[float] = deque(maxlen=10_000)

    def pause(self, now: float) -> float:
        """Seconds to wait before the next request; 0: it may be sent, and is counted."""
        with self._lock:
            if now < self._resumes:
                return self._resumes - now
            if self.rate is None:
                return 0.0
            if now - self._rejected > _FORGOTTEN:
                self.rate = None
                return 0.0
            slow = min(_FAST, _GROWTH * (1 + (now - self._rejected) / _FASTER))
            growth = slow if self._settled else _FAST
            self.rate *= 1 + growth * min(now - self._grown, 1.0)
            self._grown = now
            self._next = max(self._next, now - _BURST)
            if now < self._next:
                return self._next - now
            self._next += 1 / self.rate
            return 0.0

    def answered(self, now: float) -> None:
        """Count a request that the service did not reject."""
        with self._lock:
            self._answers.append(now)

    def rejected(self, sent: float, now: float, retry_after: float | None = None) -> None:
        """Lower the rate, unless that was done since the request was sent."""
        with self._lock:
            self._wait(now, retry_after)
            if sent < self._rejected:
                return
            start = now - _WINDOW if self.rate is None else self._rejected
            if self._answers:
                start = max(start, self._answers[0])
            measured = sum(time >= start for time in self._answers) / max(now - start, 1.0)
            self._settled = self.rate is not None
            if self.rate is None:
                self.rate = max(1.0, measured)
            else:
                lower = self.rate * _SHARE
                self.rate = min(lower, measured) if now - start >= 1 and measured else lower
            self.rate = max(self.rate, _LOWEST)
            self._rejected = self._grown = self._next = now

    def note(self, headers: Mapping[str, str], now: float) -> None:
        """Wait with further requests if the headers of a response say that none is left."""
        if (seconds := reset_seconds(headers)) is not None:
            with self._lock:
                self._wait(now, seconds)

    def _wait(self, now: float, seconds: float | None) -> None:
        if seconds is not None and seconds <= LONGEST:
            self._resumes = max(self._resumes, now + seconds)


THROTTLE: ContextVar[Throttle | None] = ContextVar("secondpass_throttle", default=None)
"""That of the request that is sent in this context."""

_throttles: dict[Any, Throttle] = {}
_throttle_of_object = PerObject(Throttle).value


def throttle_of(service: object) -> Throttle:
    """The throttle of a service: of one address, model and key, or of one object."""
    try:
        origin: Any = getattr(service, "origin", None)
        key = origin, getattr(service, "account", None)
    except BaseException as error:  # a foreign property may raise anything
        reraise_exit(error)
        origin = None
    if isinstance(origin, str) and origin:
        return _throttles.setdefault(key, Throttle())
    return _throttle_of_object(service)
