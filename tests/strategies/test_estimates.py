"""Waves of calls, limits that are exceeded, and how many texts can be shown."""

from hypothesis import given
from hypothesis import strategies as st

from secondpass.strategies.base import Bounds
from secondpass.strategies.estimates import waves_of


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 12))
def test_waves_within_bounds_are_a_bound(rounds, concurrency):
    actual = sum(-(-number // concurrency) for number in rounds)
    wide = Bounds((1, sum(rounds)), (1, len(rounds)))
    exact = Bounds.exactly(sum(rounds), len(rounds))
    low, high = waves_of(wide, rounds, concurrency)
    assert low <= actual <= high
    assert waves_of(exact, rounds, concurrency) == (actual, actual)
    assert waves_of(None, rounds, concurrency) == (actual, actual)
