"""Sketches: errors of values, order of bins, merging, and what can be read."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.monitoring.sketches import (
    ERROR,
    LARGEST,
    MOST_BINS,
    SMALLEST,
    Sketch,
    bin_of,
    value_of,
)

numbers = st.floats(allow_nan=False, allow_infinity=False)
sizes = st.floats(SMALLEST, LARGEST)


def sketch_of(values):
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch


@given(sizes, st.sampled_from([1, -1]))
def test_error_of_a_value(size, sign):
    value = sign * size
    assert value_of(bin_of(value)) == pytest.approx(value, rel=ERROR * (1 + 1e-6))


@given(numbers, numbers)
def test_bins_have_the_order_of_the_values(a, b):
    low, high = sorted((a, b))
    assert bin_of(low) <= bin_of(high)
    assert bin_of(-low) == -bin_of(low)
    assert abs(bin_of(low)) <= MOST_BINS // 2


@pytest.mark.parametrize(
    ("value", "same"), [(1e-10, 0.0), (-1e-300, 0.0), (1e12, LARGEST), (-1e300, -LARGEST)]
)
def test_limits(value, same):
    assert bin_of(value) == bin_of(same)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_number_is_not_counted(value):
    assert sketch_of([1.0, value]).count == 1


@given(st.lists(numbers, max_size=30), st.lists(numbers, max_size=30))
def test_parts_make_the_whole(first, second):
    merged = sketch_of(first)
    merged.merge(sketch_of(second))
    assert merged == sketch_of([*second, *first])
    assert merged.count == len(first) + len(second)


@given(st.lists(sizes, min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles(values, share):
    exact = sorted(values)[math.floor(share * (len(values) - 1))]
    assert sketch_of(values).quantile(share) == pytest.approx(exact, rel=ERROR * (1 + 1e-6))


def test_no_quantile_without_values():
    assert math.isnan(Sketch().quantile(0.5))


@given(st.lists(numbers, max_size=30))
def test_pairs_and_back(values):
    sketch = sketch_of(values)
    assert Sketch.from_pairs(sketch.to_pairs()) == sketch


@pytest.mark.parametrize(
    "pairs",
    [
        *([[1, count]] for count in (0, -1, 1.5)),
        *([[number, 1]] for number in (1.5, "1", True, MOST_BINS)),
        *([[1, 1], [1, 2]], [[1]], [[1, 2, 3]]),
    ],
)
def test_other_pairs_are_errors(pairs):
    with pytest.raises(ValueError, match=r"."):
        Sketch.from_pairs(pairs)


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_a_rounding_error_about_1_is_no_other_value(value):
    assert bin_of(value * (1 - 1e-7)) == bin_of(value) == bin_of(value * (1 + 1e-7))
