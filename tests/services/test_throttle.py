"""The rate of requests to a service, with a simulated clock."""

import pytest

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


def used(rate, burst, seconds, latency=0.3, width=8, retry_after=1.0):
    """Requests per answer, and answers a second, of ``width`` callers of a token bucket."""
    throttle, left, filled = Throttle(), burst, 0.0
    events = [(0.0, number) for number in range(width)]
    ending = {}
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
        if pause := throttle.pause(now):
            events.append((now + pause, number))
            continue
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
        assert throttle.pause(float(number)) == 0
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


def test_a_pause_holds_for_all_and_ends():
    throttle = Throttle()
    throttle.rejected(0.0, 1.0, retry_after=2.0)
    assert throttle.pause(1.5) == pytest.approx(1.5)
    assert throttle.pause(3.1) == 0
    throttle.rejected(4.0, 5.0, retry_after=3600.0)  # nobody waits that long
    assert throttle.pause(7.0) < 30


def test_the_rate_is_forgotten():
    throttle = Throttle()
    throttle.rejected(0.0, 1.0)
    assert throttle.pause(700.0) == 0
    assert throttle.rate is None


def test_a_service_has_one_throttle():
    class Service:
        origin = "[https://example.com, model m, key of K]"

    class Own:
        pass

    own = Own()
    assert throttle_of(Service()) is throttle_of(Service())
    assert throttle_of(own) is throttle_of(own) is not throttle_of(Own())
    assert THROTTLE.get() is None
