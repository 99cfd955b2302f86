"""The queue and the rate of requests to a service, with a simulated clock."""

import gc
import heapq
import itertools
import math
import pickle
import time
import weakref
from operator import attrgetter
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forked import IGNORES_FORKS, NEEDS_FORK, ended_well, run_child
from secondpass.services import throttle as module
from secondpass.services.throttle import THROTTLE, Throttle, reset_seconds, throttle_of

NOW = 1_800_000_000.0
RESETS = {
    "openai": (
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "12ms"},
        0.012,
    ),
    "groq": ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0.5s"}, 360.5),
    "anthropic": (
        {
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:07Z",
        },
        7.0,
    ),
    "draft": ({"ratelimit-remaining": "0", "ratelimit-reset": "5"}, 5.0),
    "epoch": ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(NOW + 3)}, 3.0),
    "milliseconds of the epoch": (
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(round(NOW + 3) * 1000)},
        3.0,
    ),
    "some left": ({"ratelimit-remaining": "1", "ratelimit-reset": "5"}, None),
    "no time": ({"ratelimit-remaining": "0"}, None),
    "not a time": ({"ratelimit-remaining": "0", "ratelimit-reset": "soon"}, None),
    "negative": ({"ratelimit-remaining": "0", "ratelimit-reset": "-1"}, None),
    "nan": ({"ratelimit-remaining": "0", "ratelimit-reset": "nan"}, None),
    "none": ({}, None),
}


@pytest.mark.parametrize(("headers", "seconds"), RESETS.values(), ids=RESETS)
def test_headers(headers, seconds):
    assert reset_seconds(headers, NOW) == (None if seconds is None else pytest.approx(seconds))


class Request:
    """A request of a simulation.

    Args:
        arrives: when.
        latest: when it has to be sent.
        patience: seconds after which its caller gives up.
        at_wake_up: whether it gives up when it may be sent.
        late: seconds after the time at which it may be sent when its event loop runs again.
    """

    def __init__(self, arrives, latest=math.inf, patience=math.inf, at_wake_up=False, late=0.0):
        self.arrives, self.latest, self.late = arrives, latest, late
        self.patience, self.at_wake_up = patience, at_wake_up
        self.ticket = self.sent = self.failed = None

    @property
    def is_open(self):
        return self.sent is None and self.failed is None


class Simulation:
    """Sends requests, each of which waits for its own time, as event loops do."""

    def __init__(self, throttle):
        self.throttle = throttle
        self.now = 0.0
        self._count = itertools.count()
        self._events = []

    def at(self, time, act, *arguments):
        if time < math.inf:
            heapq.heappush(self._events, (time, next(self._count), act, arguments))

    def run(self, requests, rejections=()):
        for request in requests:
            self.at(request.arrives, self.arrive, request)
        for rejected in rejections:
            self.at(rejected, lambda: self.throttle.rejected(self.now, self.now))
        while self._events:
            self.now, _, act, arguments = heapq.heappop(self._events)
            act(*arguments)
        return [request.sent for request in requests]

    def arrive(self, request):
        request.ticket = self.throttle.enter(self.now, request.latest)
        request.ticket.wake = lambda: self.at(self.now, self.check, request)
        self.check(request)
        self.at(self.now + request.patience, self.leave, request)

    def check(self, request):
        if not request.is_open:
            return
        pause = self.throttle.pause(request.ticket, self.now)
        if pause == math.inf:
            request.failed = self.now
        elif pause:
            late, request.late = request.late, 0.0
            self.at(self.now + pause + late, self.check, request)
        else:
            self.at(self.now, self.leave if request.at_wake_up else self.send, request)

    def send(self, request):
        if request.is_open:
            self.throttle.use(request.ticket)
            request.sent = self.now

    def leave(self, request):
        if request.is_open:
            self.throttle.leave(request.ticket, self.now)
            request.failed = self.now


def limited(now, rate):
    """A throttle at this rate after a rejection."""
    throttle = Throttle()
    throttle.rejected(now, now)
    throttle._sent = throttle._end = throttle._sent._replace(at=now, rate=rate)
    return throttle


def constant_rates():
    """Without growth, so that the times of a queue are known."""
    return mock.patch.multiple(module, _SLOW_GROWTH=0.0, _FAST_GROWTH=0.0)


TIMES = st.floats(0, 12).map(lambda seconds: round(seconds, 3))
RATES = st.floats(0.5, 20)
REQUESTS = st.lists(
    st.builds(
        Request,
        TIMES,
        patience=st.one_of(st.just(math.inf), TIMES),
        at_wake_up=st.sampled_from([False, False, True]),
    ),
    max_size=40,
).map(lambda requests: sorted(requests, key=attrgetter("arrives")))


@given(REQUESTS, RATES, st.lists(TIMES, max_size=4))
def test_nobody_is_overtaken_by_a_later_request(requests, rate, rejections):
    simulation = Simulation(limited(0.0, rate))
    times = [time for time in simulation.run(requests, rejections) if time is not None]
    assert times == sorted(times)
    assert not any(request.is_open for request in requests)
    assert simulation.throttle._queue == []


@given(REQUESTS, RATES)
def test_nobody_waits_longer_than_in_order_by_more_than_an_interval(requests, rate):
    """The place of a request that is cancelled, even when it may be sent, goes to the next one."""
    with constant_rates():
        Simulation(limited(0.0, rate)).run(requests)
    free = 1 / rate  # when one request at a time, in order, could be sent
    for request in requests:
        if request.sent is not None:
            free = max(free, request.arrives)
            assert request.sent <= free + 1 / rate + 1e-9
            free += 1 / rate


@given(REQUESTS, RATES)
def test_requests_are_spaced(requests, rate):
    with constant_rates():
        Simulation(limited(0.0, rate)).run(requests)
    times = [request.sent for request in requests if request.sent is not None]
    for (first, start), (last, end) in itertools.combinations(enumerate(times), 2):
        assert last - first <= (end - start + module._BURST) * rate + 1 + 1e-6


def test_a_burst_is_sent_before_what_comes_later():
    burst = [Request(10 + number / 1000) for number in range(40)]
    later = [Request(10.5 + number / 5) for number in range(40)]
    times = Simulation(limited(10.0, 10.0)).run([*burst, *later])
    assert max(times[:40]) < min(times[40:])
    assert max(times[:40]) < 12.5


def test_a_request_that_cannot_be_sent_in_time_fails_at_once():
    requests = [Request(0.0, latest=5.5) for _ in range(20)] + [Request(0.1)]
    with constant_rates():
        times = Simulation(limited(0.0, 1.0)).run(requests)
    assert times == [*map(pytest.approx, range(1, 6)), *[None] * 15, pytest.approx(6.0)]
    assert {request.failed for request in requests[5:20]} == {0.0}


def test_the_growth_of_the_rate_is_part_of_the_plan():
    """At the first rate, the last one would be sent after 40 seconds."""
    times = Simulation(limited(0.0, 1.0)).run([Request(0.0, latest=6.0) for _ in range(40)])
    assert None not in times


def test_after_a_rejection_those_who_cannot_be_sent_in_time_any_more_fail():
    requests = [Request(0.0, latest) for latest in (9, 9, 9, 4.1, 9)]
    with constant_rates():
        times = Simulation(limited(0.0, 1.0)).run(requests, rejections=[1.5])
    assert times == [
        pytest.approx(time) if time else None
        for time in (1.0, 1 + 1 / 0.92, 1 + 2 / 0.92, None, 1 + 3 / 0.92)
    ]
    assert requests[3].failed == 1.5


def test_a_pause_that_a_service_asks_for_moves_the_queue():
    throttle = limited(0.0, 10.0)
    requests = [Request(0.0, latest) for latest in (9, 2.05, 9)]
    simulation = Simulation(throttle)
    headers = {"ratelimit-remaining": "0", "ratelimit-reset": "2"}
    simulation.at(0.05, lambda: throttle.note(headers, simulation.now))
    with constant_rates():
        assert simulation.run(requests) == [pytest.approx(2.05), None, pytest.approx(2.15)]
    assert requests[1].failed == 0.05


def test_a_question_that_is_asked_again_goes_before_those_who_came_later():
    throttle = limited(0.0, 1.0)
    first, second = throttle.enter(0.0), throttle.enter(0.0)
    throttle.use(first)
    throttle.rejected(1.0, 1.0)
    again = throttle.enter(1.2, number=first.number)
    assert throttle.pause(again, 1.2) < throttle.pause(second, 1.2)


@pytest.mark.parametrize(
    ("late", "of_these", "of_others"),
    [
        (0.2, [1.2, 2.2, 3.2], [4, 5, 6, 7]),
        (5.0, [6, 7, 8], [4, 5, 9, 10]),
        (math.inf, [None] * 3, [4, 5, 6, 7]),
    ],
)
def test_an_event_loop_that_does_not_run_delays_no_other(late, of_these, of_others):
    """When it runs again, what it missed is sent next, but not all at once."""
    requests = [Request(0.0, late=late) for _ in range(3)] + [Request(0.1) for _ in range(4)]
    with constant_rates():
        simulation = Simulation(limited(0.0, 1.0))
        times = simulation.run(requests)
        assert times == [
            None if time is None else pytest.approx(time) for time in of_these + of_others
        ]
        simulation.throttle.enter(20.0)
    assert len(simulation.throttle._queue) == 1


def used(rate, burst, seconds, latency=0.3, width=8, retry_after=1.0):
    """Requests per answer, and answers a second, of ``width`` callers of a token bucket."""
    throttle, left, filled = Throttle(), burst, 0.0
    events = [(0.0, number) for number in range(width)]
    ending, tickets = {}, {}
    requests = answers = 0
    while events:
        events.sort()
        now, number = events.pop(0)
        if number in ending:
            sent, rejected = ending.pop(number)
            if rejected:
                throttle.rejected(sent, now, retry_after)
            else:
                throttle.answered(now)
        if now > seconds:
            continue
        if number not in tickets:
            tickets[number] = throttle.enter(now)
        if pause := throttle.pause(tickets[number], now):
            events.append((now + pause, number))
            continue
        throttle.use(tickets.pop(number))
        requests += 1
        left, filled = min(burst, left + (now - filled) * rate), now
        rejected = left < 1
        if not rejected:
            left -= 1
            answers += 1
        ending[number] = (now, rejected)
        events.append((now + (0.02 if rejected else latency), number))
    return requests / answers, answers / (rate * seconds + burst)


@pytest.mark.parametrize("retry_after", [None, 0.2, 1.0])
def test_few_are_rejected_and_most_of_the_limit_is_used(retry_after):
    requests, share = used(10, 10, 60, retry_after=retry_after)
    assert requests <= 1.1
    assert share >= 0.9


def test_without_rejections_nothing_is_limited():
    throttle = Throttle()
    for number in range(100):
        throttle.answered(float(number))
        assert throttle.pause(throttle.enter(float(number)), float(number)) == 0
    assert throttle.rate is None


def test_rejections_of_requests_that_were_sent_together_count_once():
    throttle = Throttle()
    for _ in range(20):
        throttle.answered(1.0)
    for number in range(8):
        throttle.rejected(1.0, 1.5 + number / 100)
    first = throttle.rate
    throttle.rejected(2.0, 2.1)
    assert throttle.rate < first


SECOND = [9 + number / 20 for number in range(20)]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([number / 20 for number in range(200)], 20, id="steady"),
        pytest.param(SECOND, 20, id="since a second"),
        pytest.param([number / 990 for number in range(990)] + SECOND, 10, id="since a pause"),
    ],
)
def test_the_first_rate_is_that_of_the_answers_lately(answers, expected):
    throttle = Throttle()
    for answered in answers:
        throttle.answered(answered)
    throttle.rejected(10.0, 10.0)
    assert throttle.rate == pytest.approx(expected, rel=0.35)


def test_a_pause_holds_for_all_and_ends():
    throttle = Throttle()
    throttle.rejected(0.0, 1.0, retry_after=2.0)
    first = throttle.enter(1.5)
    assert throttle.pause(first, 1.5) == pytest.approx(1.5)
    assert throttle.pause(first, 3.1) == 0
    throttle.rejected(4.0, 5.0, retry_after=3600.0)  # nobody waits that long
    assert throttle.pause(throttle.enter(7.0), 7.0) < 30


def test_the_rate_is_forgotten():
    throttle = Throttle()
    throttle.rejected(0.0, 1.0)
    assert throttle.pause(throttle.enter(700.0), 700.0) == 0
    assert throttle.rate is None


@NEEDS_FORK
@IGNORES_FORKS
def test_requests_of_the_parent_are_in_no_queue_of_a_child():
    throttle = limited(0.0, 1.0)
    for _ in range(10):
        throttle.enter(0.0)
    child = run_child(lambda: throttle.pause(throttle.enter(0.0), 0.0) < 2)
    assert ended_well(child)
    assert throttle.pause(throttle.enter(0.0), 0.0) > 2


class Service:
    def __init__(self, model="m"):
        self.throttle_identity = hash(("https://example.com", model, "a key"))


class Own:
    pass


def test_a_service_has_one_throttle():
    own = Own()
    assert throttle_of(Service()) is throttle_of(Service())
    assert throttle_of(own) is throttle_of(own) is not throttle_of(Own())
    assert THROTTLE.get() is None


def test_an_object_keeps_the_throttle_of_its_service():
    service = Service("kept")
    throttle_of(service).answered(time.monotonic())
    gc.collect()
    assert throttle_of(Service("kept"))._answers == 1


@pytest.mark.parametrize("kind", [Service, Own])
def test_throttles_without_a_rejection_go_with_their_objects(kind):
    kept = [weakref.ref(throttle_of(kind())) for _ in range(100)]
    gc.collect()
    assert [reference for reference in kept if reference() is not None] == []


def test_a_rejection_is_remembered_for_ten_minutes(monkeypatch):
    """Also by a service whose objects are made for each request."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "_remembered", {})
    rejecting = throttle_of(Service("busy"))
    rejecting.rejected(now[0], now[0])
    throttle = weakref.ref(rejecting)
    del rejecting
    gc.collect()
    assert throttle_of(Service("busy")).rate is not None
    now[0] += 599
    throttle_of(Service("another"))
    assert throttle_of(Service("busy")) is throttle()
    now[0] += 2
    throttle_of(Service("a third"))
    assert throttle() is None
    assert throttle_of(Service("busy")).rate is None


def test_a_throttle_counts_answers():
    """It keeps no list of them."""
    throttle = Throttle()
    for number in range(10_000):
        throttle.answered(float(number))
    throttle.rejected(20_000.0, 20_000.0)
    for number in range(10_000):
        throttle.answered(20_000.0 + number)
    sizes = [len(pickle.dumps(value)) for name, value in vars(throttle).items() if name != "_lock"]
    assert sum(sizes) < 2_000
