"""When a service is asked: by what it says of its rate limit, and by what it rejects.

Nothing is limited until the service rejects a request (429) or says that none is left. From then
on, requests are sent in the order in which they came, spaced by a rate: first that at which the
service has answered lately. It grows fast until the second rejection, and slowly from then on; each
rejection lowers it, at least to the rate at which the service has answered since the one before
(additive increase, multiplicative decrease). Times are those of ``time.monotonic()``; tests pass
their own.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import time
from bisect import insort
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple
from weakref import WeakValueDictionary

from secondpass.concurrency.lazy import PerObject
from secondpass.concurrency.locks import fork_lock
from secondpass.errors import reraise_exit

_SHARE = 0.92  # share of the rate at a rejection that a service is asked at from then on
_FAST_GROWTH = 0.7  # of the rate per second, until the second rejection; never more after that
_SLOW_GROWTH = 0.01  # of the rate per second, just after the second or a later rejection
_DOUBLES = 5.0  # seconds without a rejection after which the slow growth is twice as fast
_LOWEST = 0.2  # requests per second at the least
_WINDOW = 2.0  # seconds after which an answer before the first rejection weighs 1/e
_BURST = 0.25
"""Seconds of requests that may be sent at once after a time without any; the longest pause after a
rejection; and how late a request may be for its place."""
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
    if not 0 <= number < math.inf:
        return None
    if number > _EPOCH_MILLISECONDS:
        number /= 1000
    return max(0.0, number - now) if number > _EPOCH else number


class _Place(NamedTuple):
    """When a request may be sent, and the rate from then on: requests per second, or None."""

    at: float
    rate: float | None


@dataclass(slots=True, eq=False)
class Ticket:
    """A request in the queue of a service. Times are values of ``time.monotonic()``.

    As a context manager, it leaves the queue at the end.
    """

    throttle: Throttle
    number: int  # of its question; the lowest is next
    latest: float  # when it has to be sent
    place: _Place
    late: bool = False  # whether it cannot be sent in time; then it has left the queue
    wake: Callable[[], object] = lambda: None
    """Called, in any thread, when its place is earlier than before, or when it is late."""

    def __enter__(self) -> Ticket:
        return self

    def __exit__(self, *_error: object) -> None:
        self.throttle.leave(self, time.monotonic())


_numbers = itertools.count()


class Throttle:
    """The queue of requests to one service, of all threads and event loops.

    Every request takes a ticket, whose place is the time at which it may be sent. The order of
    places is that of the numbers of tickets. Places are planned again when the service rejects a
    request, and when a request leaves the queue without being sent: those behind it move up. A
    request that misses its place, because its event loop was busy or has stopped, is out of the
    queue until it asks again. So it delays no other.
    """

    def __init__(self) -> None:
        self._lock = fork_lock()
        self._process = os.getpid()
        self._queue: list[Ticket] = []
        self._sent = _Place(-math.inf, None)
        """The last place of a request that was sent; after a rejection, that before the next."""
        self._end = self._sent
        """The last place of the queue."""
        self._resumes = -math.inf
        """When requests may be sent again."""
        self._settled = False
        """Whether there were two rejections, so that the rate grows slowly."""
        self._rejected = -math.inf
        """The time of the last rejection."""
        self._answers = 0.0
        """Answers since the last rejection; before the first one, old answers weigh less."""
        self._answers_since = math.inf
        """The time from which on these are counted."""
        self._answered = -math.inf
        """The time of the last answer."""

    @property
    def rate(self) -> float | None:
        """Requests per second; None while it is not limited."""
        return self._sent.rate

    def enter(self, now: float, latest: float = math.inf, number: int | None = None) -> Ticket:
        """Take a ticket.

        Args:
            now: the time.
            latest: when the request has to be sent. The ticket is late if its place is later.
            number: that of an earlier ticket, if the question was asked before: it goes before
                questions that came after it.
        """
        with self._lock:
            if self._process != os.getpid():  # the parent's requests do not exist here
                self._process, self._queue, self._end = os.getpid(), [], self._sent
            if self.rate is not None and now - self._rejected > _FORGOTTEN:
                self._sent = self._end = _Place(now, None)
                self._answers, self._answers_since = 0.0, math.inf
            while self._queue and _is_missed(self._queue[0], now):
                self._queue.pop(0)
            number = next(_numbers) if number is None else number
            ticket = Ticket(self, number, latest, _Place(now, None))
            self._add(ticket, now)
            return ticket

    def pause(self, ticket: Ticket, now: float) -> float:
        """Seconds until the request may be sent: 0 if it may be sent now, infinity if it is late.

        Ask again after that time, and when the ticket was woken.
        """
        with self._lock:
            if self.rate is not None and not ticket.late and _is_missed(ticket, now):
                self._remove(ticket)
                ticket.place = _Place(now, None)
                self._add(ticket, now)
            return math.inf if ticket.late else max(0.0, ticket.place.at - now)

    def use(self, ticket: Ticket) -> None:
        """The request is sent."""
        with self._lock:
            self._remove(ticket)
            self._sent = max(self._sent, ticket.place, key=attrgetter("at"))

    def leave(self, ticket: Ticket, now: float) -> None:
        """Return a ticket that was not used; no effect otherwise."""
        with self._lock:
            if self._remove(ticket):
                self._plan(now)

    def answered(self, now: float) -> None:
        """Count a request that the service did not reject."""
        with self._lock:
            self._answers = self._answers_at(now) + 1
            self._answers_since = min(self._answers_since, now)
            self._answered = now

    def rejected(self, sent: float, now: float, retry_after: float | None = None) -> None:
        """Lower the rate, unless that was done since the rejected request was sent."""
        with self._lock:
            self._wait(now, retry_after)
            if sent >= self._rejected:
                rate = max(self._lower_rate(now), _LOWEST)
                # The next place, which is one interval later, is after a short pause.
                interval = 1 / rate
                at = now + min(interval, _BURST) - interval
                if self.rate is not None:
                    at = max(at, self._sent.at)
                self._settled = self.rate is not None  # this is not the first rejection
                self._sent = _Place(at, rate)
                self._rejected = self._answers_since = now
                self._answers = 0.0
            self._plan(now)
            _remember(self, now)

    def note(self, headers: Mapping[str, str], now: float) -> None:
        """Wait with further requests if the headers of a response say that none is left."""
        if (seconds := reset_seconds(headers)) is not None:
            with self._lock:
                self._wait(now, seconds)
                self._plan(now)
                _remember(self, now)

    def _wait(self, now: float, seconds: float | None) -> None:
        """Send nothing for a time, unless it is too long or None."""
        if seconds is not None and seconds <= LONGEST:
            self._resumes = max(self._resumes, now + seconds)

    def _answers_at(self, now: float) -> float:
        """The number of answers, with their weights."""
        if self.rate is not None:
            return self._answers
        return self._answers * math.exp((self._answered - now) / _WINDOW)

    def _lower_rate(self, now: float) -> float:
        """The rate after a rejection."""
        seconds = now - min(self._answers_since, now)
        if self.rate is None:
            window = _WINDOW * (1 - math.exp(-max(seconds, 1.0) / _WINDOW))
            return max(1.0, self._answers_at(now) / window)
        lower = self.rate * _SHARE
        return min(lower, self._answers / seconds) if seconds >= 1 and self._answers else lower

    # ------------------------------------------------------------------ places

    def _add(self, ticket: Ticket, now: float) -> None:
        """Give a ticket its place, unless that is too late for it."""
        if self._queue and ticket.number < self._queue[-1].number:
            insort(self._queue, ticket, key=attrgetter("number"))
            self._plan(now)
            return
        ticket.place = self._following(self._end, now)
        ticket.late = ticket.place.at >= ticket.latest
        if not ticket.late:
            self._queue.append(ticket)
            self._end = ticket.place

    def _remove(self, ticket: Ticket) -> bool:
        """Take a ticket out of the queue; False if it is not there."""
        try:
            self._queue.remove(ticket)
        except ValueError:
            return False
        return True

    def _plan(self, now: float) -> None:
        """Give all tickets new places; those that missed theirs leave the queue."""
        place, queue = self._sent, []
        for ticket in list(self._queue):
            if _is_missed(ticket, now):
                continue
            before, ticket.place = ticket.place, self._following(place, now)
            ticket.late = ticket.place.at >= ticket.latest
            if not ticket.late:
                queue.append(ticket)
                place = ticket.place
            if ticket.late or ticket.place.at < before.at:
                ticket.wake()
        self._queue, self._end = queue, place

    def _following(self, place: _Place, now: float) -> _Place:
        """The place after another one. The rate grows between them."""
        if place.rate is None:
            return _Place(max(now, self._resumes), None)
        at = max(place.at + 1 / place.rate, now - _BURST, self._resumes)
        growth = _FAST_GROWTH
        if self._settled:
            growth = min(growth, _SLOW_GROWTH * (1 + (at - self._rejected) / _DOUBLES))
        return _Place(at, place.rate * (1 + growth * min(at - place.at, 1.0)))


def _is_missed(ticket: Ticket, now: float) -> bool:
    return ticket.place.at < now - _BURST


THROTTLE: ContextVar[Throttle | None] = ContextVar("secondpass_throttle", default=None)
"""That of the request that is sent in this context."""

_lock = fork_lock()
_throttles: WeakValueDictionary[int, Throttle] = WeakValueDictionary()
"""By what stands for address, model and key of a service."""
_remembered: dict[Throttle, float] = {}
"""Those of services that rejected a request lately, with its time, the oldest first: the next
object that stands for the same service, perhaps one for each ranking, has to know of it."""
_throttles_of_object: Callable[[object], dict[int | None, Throttle]] = PerObject(dict).value


def _remember(throttle: Throttle, now: float) -> None:
    with _lock:
        _remembered.pop(throttle, None)
        _remembered[throttle] = now


def throttle_of(service: object) -> Throttle:
    """The throttle of a service: of one address, model and key, or of one object.

    It exists as long as an object of the service does, and for ten minutes after a rejection.
    """
    identity = _identity_of(service)
    held = _throttles_of_object(service)
    throttle = held.get(identity)
    if throttle is not None:
        return throttle
    if identity is None:
        return held.setdefault(None, Throttle())
    held.clear()  # that of a key that is not used any more
    return held.setdefault(identity, _shared_throttle(identity))


def _identity_of(service: object) -> int | None:
    """What stands for address, model and key of a service; None if it does not state them."""
    try:
        identity = getattr(service, "throttle_identity", None)
    except BaseException as error:  # a foreign property may raise anything
        reraise_exit(error)
        return None
    return identity if isinstance(identity, int) else None


def _shared_throttle(identity: int) -> Throttle:
    """The throttle of all objects with this identity."""
    now = time.monotonic()
    with _lock:
        while _remembered and now - next(iter(_remembered.values())) > _FORGOTTEN:
            del _remembered[next(iter(_remembered))]
        throttle = _throttles.get(identity)
        if throttle is None:
            throttle = _throttles[identity] = Throttle()
        return throttle
