"""What is learned of the time of calls: a constant and a rate, neither below 0."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.concurrency.cost import Cost

TIMES = st.floats(1e-5, 10.0)


def learned(times, **options):
    cost = Cost(0, **options)
    for pairs, seconds in times:
        cost.learn(pairs, seconds)
    return cost


@pytest.mark.parametrize(
    ("constant", "rate"), [(0.02, 0.0), (0.0, 0.001), (0.01, 0.0005)], ids=["c", "r", "both"]
)
def test_constant_and_rate_are_learned_from_a_few_calls(constant, rate):
    cost = learned([(pairs, constant + pairs * rate) for pairs in (20, 50, 10, 100)])
    assert (cost.constant, cost.rate) == pytest.approx((constant, rate), abs=1e-6)
    assert cost.seconds(70) == pytest.approx(constant + 70 * rate)
    if rate:
        assert cost.pairs(cost.seconds(70)) == pytest.approx(70)


@given(st.lists(st.tuples(st.integers(0, 1000), TIMES), min_size=1, max_size=30), st.booleans())
def test_neither_is_negative_and_the_mean_is_that_of_the_last_calls(times, has_constant):
    cost = learned(times, has_constant=has_constant)
    assert cost.constant >= 0
    assert cost.rate >= 0
    assert cost.is_known == any(pairs for pairs, _ in times)
    if cost.is_known:
        assert cost.constant <= cost.mean * (1 + 1e-9)
        assert cost.mean <= max(seconds for _, seconds in times) * (1 + 1e-9)
    if not has_constant:
        assert cost.constant == 0


@pytest.mark.parametrize("has_constant", [True, False])
def test_calls_of_one_length_have_no_constant(has_constant):
    cost = learned([(20, 0.02)] * 50, has_constant=has_constant)
    assert (cost.constant, cost.rate) == pytest.approx((0.0, 0.001))


def test_what_is_known_of_the_constant_remains_while_all_lengths_are_equal():
    cost = learned([(10, 0.02), (100, 0.02)] * 5 + [(100, 0.02)] * 400 + [(100, 0.04)] * 100)
    assert (cost.constant, cost.rate) == pytest.approx((0.04, 0.0), abs=1e-6)


def test_changed_times_are_learned():
    cost = learned([(20, 0.02), (100, 0.1)] * 20 + [(20, 0.04), (100, 0.2)] * 20)
    assert cost.seconds(50) == pytest.approx(0.1, rel=0.05)


def test_noise_is_not_taken_for_a_constant():
    draw = random.Random(1)
    times = [(size, 0.001 * size * draw.lognormvariate(0, 0.5)) for size in (10, 20) * 200]
    assert learned(times).constant < 0.002


def test_waits_of_calls_for_each_other_are_no_constant():
    """Of six calls at a time, a scorer runs two: a short call waits as long as a long one."""
    draw, free, running, now = random.Random(1), [0.0, 0.0], [], 0.0
    cost = Cost(0)
    for _ in range(600):
        if len(running) == 6:
            running.sort()
            now, began, pairs = running.pop(0)
            cost.learn(pairs, now - began)
        pairs = draw.choice([10, 10, 100])
        free.sort()
        free[0] = max(free[0], now) + 0.001 * pairs
        running.append((free[0], now, pairs))
    assert cost.constant < 0.2 * cost.mean


def test_a_slow_call_counts_at_most_four_times_as_slow():
    cost = learned([(20, 0.02)] * 20 + [(20, 20.0)])
    assert cost.seconds(20) < 0.03
    cost = learned([(10, 0.02), (100, 0.02)] * 10 + [(1, 0.02)])
    assert cost.seconds(1) == pytest.approx(0.02)


def test_first_calls_that_load_a_model_are_forgotten():
    cost = Cost(3)
    for seconds in (30.0, 30.0, 0.02):
        cost.learn(20, seconds)
    assert cost.seconds(20) == pytest.approx(0.02)


def test_short_first_calls_are_no_slow_ones():
    cost = Cost(10)
    for pairs in (1, 100, 1, 100):
        cost.learn(pairs, 0.02)
    assert (cost.constant, cost.rate) == pytest.approx((0.02, 0.0))


@given(
    st.lists(st.tuples(st.integers(1, 1000), TIMES), max_size=30),
    st.integers(1, 1000),
    TIMES,
)
def test_a_call_that_was_cut_off_makes_none_faster_and_none_more_than_twice_as_slow(
    times, pairs, seconds
):
    cost = learned(times)
    before = cost.seconds(pairs), cost.mean
    cost.learn_cut_off(pairs, seconds)
    after = cost.seconds(pairs), cost.mean
    if times:
        assert all(b * 0.999 <= a <= b * 2.001 for b, a in zip(before, after, strict=True))
    assert cost.is_known
