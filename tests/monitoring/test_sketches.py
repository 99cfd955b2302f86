"""Sketches and repetitions: errors of values, order of bins, merging, and what can be read."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.monitoring.sketches import (
    BINS,
    ERROR,
    LARGEST,
    MOST_BINS,
    SMALLEST,
    Repeats,
    Sketch,
    bin_of,
    design_effect,
    value_of,
)
from secondpass.ranking.candidates import query_key
from secondpass.ranking.observers import query_hash

numbers = st.floats(allow_nan=False, allow_infinity=False)
sizes = st.floats(SMALLEST, LARGEST)


def sketch_of(values):
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch


def repeats_of(queries):
    repeats = Repeats()
    for query in queries:
        repeats.add(query_hash(str(query)))
    return repeats


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


def test_limits():
    assert bin_of(1e-10) == bin_of(-1e-300) == bin_of(0.0)
    assert (bin_of(1e12), bin_of(-1e300)) == (bin_of(LARGEST), bin_of(-LARGEST))
    assert sketch_of([1.0, math.nan, math.inf, -math.inf]).count == 1
    assert math.isnan(Sketch().quantile(0.5))


@pytest.mark.parametrize(("make", "values"), [(sketch_of, numbers), (repeats_of, st.integers())])
@given(data=st.data())
def test_parts_make_the_whole_and_are_read_again(make, values, data):
    first, second = (data.draw(st.lists(values, max_size=30)) for _ in range(2))
    merged = make(first)
    merged.merge(make(second))
    assert merged == make([*second, *first])
    assert merged == type(merged).from_pairs(merged.to_pairs())
    assert make is repeats_of or merged.count == len(first) + len(second)


@given(st.lists(sizes, min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles(values, share):
    exact = sorted(values)[math.floor(share * (len(values) - 1))]
    assert sketch_of(values).quantile(share) == pytest.approx(exact, rel=ERROR * (1 + 1e-6))


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        *((Sketch, [[1, count]]) for count in (0, -1, 1.5)),
        *((Sketch, [[number, 1]]) for number in (1.5, "1", True, MOST_BINS)),
        *((Sketch, pairs) for pairs in ([[1, 1], [1, 2]], [[1]], [[1, 2, 3]])),
        *((Repeats, [[0, count]]) for count in (0, 1.0)),
        *((Repeats, [[number, 1]]) for number in (BINS, -1)),
    ],
)
def test_other_pairs_are_errors(kind, pairs):
    with pytest.raises(ValueError, match=r"."):
        kind.from_pairs(pairs)


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_a_rounding_error_about_1_is_no_other_value(value):
    assert bin_of(value * (1 - 1e-7)) == bin_of(value) == bin_of(value * (1 + 1e-7))


# ---------------------------------------------------------------------- repetitions


@pytest.mark.parametrize("text", ["Red  panda", " red panda\n", "RED\tPANDA", "\udc80 red panda"])
def test_case_and_white_space_make_no_other_query(text):
    same = "\udc80" not in text
    assert (query_key(text) == query_key("red panda")) is same
    assert (query_hash(text) == query_hash("red panda")) is same


@given(st.integers(1, 9))
def test_rankings_count_as_their_queries(times):
    first = repeats_of([*range(300)] * times)
    second = repeats_of([*range(300, 500)] * times)
    effect = design_effect(first, 300 * times, second, 200 * times)
    assert effect == pytest.approx(times, rel=0.1)


def test_queries_that_both_samples_repeat_alike_cost_nothing():
    """As those of a health check do."""
    first, second = [*range(300)] + [-1] * 300, [*range(300, 500)] + [-1] * 200
    effect = design_effect(repeats_of(first), 600, repeats_of(second), 400)
    assert effect == 1.0
    alone = design_effect(repeats_of(first), 600, repeats_of(range(300, 500)), 200)
    assert alone > 30
