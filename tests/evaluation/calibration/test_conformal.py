"""Thresholds with finite-sample bounds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from secondpass_evaluation.calibration.conformal import (
    fewest,
    highest_share,
    rounded_down,
    share_kept,
    threshold,
    tolerance_rank,
)

QUERIES = st.lists(
    st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda item: np.array(item, float)),
    min_size=1,
    max_size=30,
)
KEEPS = st.sampled_from([0.5, 0.8, 0.9, 0.95])
PER = st.sampled_from(["query", "document"])


@examples(25)
@given(QUERIES, KEEPS, PER)
def test_the_highest_threshold_within_the_bound(relevant, keep, per):
    count = len(relevant) if per == "query" else sum(map(len, relevant))
    floor = threshold(relevant, keep, per)
    assert (floor is None) == (count < fewest(keep))

    def bound(value):
        lost = (1 - share_kept(relevant, value, per)) * count
        return (lost + 1) / (count + 1)

    if floor is not None:
        assert bound(floor) <= 1 - keep + 1e-9
        higher = [score for item in relevant for score in item if score > floor]
        assert all(bound(score) > 1 - keep - 1e-9 for score in higher)


@pytest.mark.parametrize("per", ["query", "document"])
def test_leaving_each_query_out_in_turn(per):
    """The mean over all ways to leave one out is the expectation that the bound is about."""
    generator = np.random.default_rng(0)
    relevant = [generator.normal(size=1) for _ in range(60)]
    kept = []
    for index, held in enumerate(relevant):
        rest = [item for other, item in enumerate(relevant) if other != index]
        kept.append(float(held[0] >= threshold(rest, 0.9, per)))
    assert 0.9 <= np.mean(kept) <= highest_share(0.9, 59, per)


@pytest.mark.parametrize(("keep", "count"), [(0.5, 1), (0.9, 9), (0.95, 19), (0.99, 99)])
def test_fewest(keep, count):
    assert fewest(keep) == count


@pytest.mark.parametrize(
    ("keep", "count", "rank"),
    [(0.9, 21, 0), (0.9, 22, 1), (0.95, 44, 0), (0.95, 45, 1), (0.5, 5, 1)],
)
def test_the_rank_of_a_tolerance_limit(keep, count, rank):
    assert tolerance_rank(keep, count, 0.9) == rank


def test_tolerance_limits_hold_with_their_confidence():
    generator = np.random.default_rng(0)
    for count in (30, 100, 1000):
        rank = tolerance_rank(0.9, count, 0.9)
        kept = 1 - np.sort(generator.random((2000, count)), axis=1)[:, rank - 1]
        assert 0.88 <= np.mean(kept >= 0.9) <= 0.97
    assert tolerance_rank(0.9, 100_000, 0.9) > 9_800


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_never_raises_a_threshold(value):
    rounded = rounded_down(value)
    assert rounded <= value
    assert math.isinf(rounded) or value - rounded <= abs(value) * 2e-5 or abs(value) < 1e-300


def test_rounding_tells_scores_of_single_precision_apart():
    near = np.nextafter(np.float32(1), np.float32(0))
    below = np.nextafter(near, np.float32(0))
    assert below < rounded_down(float(near)) <= near
