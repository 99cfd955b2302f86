import math
from collections import Counter

import pytest

from secondpass.exporting.agreement import (
    ScoreAgreement,
    agreement,
    kendall_tau,
    sample_pairs,
    top_overlap,
)

TWELVE = [float(number) for number in range(12)]


@pytest.mark.parametrize(
    ("first", "second", "tau"),
    [
        ([1, 2, 3], [10, 20, 30], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 2, 3, 4], [1, 2, 4, 3], 4 / 6),
        ([1, 1, 2, 3], [1, 2, 3, 4], 5 / math.sqrt(5 * 6)),
        ([1, 1, 1], [1, 2, 3], None),
        ([1], [1], None),
    ],
)
def test_kendall_tau(first, second, tau):
    import numpy as np

    measured = kendall_tau(np.array(first, dtype=float), np.array(second, dtype=float))
    assert measured == (None if tau is None else pytest.approx(tau))


@pytest.mark.parametrize(
    ("original", "other", "overlap"),
    [
        (TWELVE, TWELVE, 1.0),
        (TWELVE, [*TWELVE[:-1], -1.0], 0.9),
        (TWELVE, [99.0, 98.0, *TWELVE[2:]], 0.8),
        ([0.0] * 12, TWELVE, 1.0),  # all tie with the tenth
        ([0.0, 0.0, 0.0, *TWELVE[3:]], [9.0, *TWELVE[1:]], 1.0),
        ([2.0, 2.0 + 1e-7, *range(3, 13)], [20.0, 1.0, *range(3, 13)], 0.9),
        (TWELVE[:10], TWELVE[:10], None),
    ],
)
def test_top_overlap(original, other, overlap):
    import numpy as np

    measured = top_overlap(np.array(original, dtype=float), np.array(other, dtype=float))
    assert measured == (None if overlap is None else pytest.approx(overlap))


def test_differences_and_means_over_queries():
    original = [TWELVE, [0.0, 1.0], [5.0]]
    other = [[*TWELVE[:-1], -1.0], [0.5, 0.0], [5.0]]
    measured = agreement(original, other)
    assert (measured.pairs, measured.queries) == (15, 3)
    assert measured.largest == 12.0
    assert measured.mean == pytest.approx((12 + 0.5 + 1) / 15)
    mean = (66 + 1 + 5) / 15
    squares = sum((score - mean) ** 2 for scores in original for score in scores)
    assert measured.deviation == pytest.approx(math.sqrt(squares / 15))
    assert measured.largest_in_deviations == pytest.approx(12 / measured.deviation)
    assert measured.mean_in_deviations == pytest.approx(measured.mean / measured.deviation)
    assert measured.tau == pytest.approx(((66 - 22) / 66 + -1) / 2)
    assert measured.overlap == pytest.approx(0.9)


def test_equal_scores_have_no_deviation():
    measured = agreement([[1.0, 1.0]], [[1.0, 1.0]])
    assert measured == ScoreAgreement(2, 1, 0.0, 0.0, 0.0, None, None)
    assert measured.largest_in_deviations is None
    assert measured.mean_in_deviations is None


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("runs", [lambda a, b: (a, b), lambda a, b: (b, a), lambda _, b: (b, b)])
def test_scores_that_are_not_finite_are_errors(runs, score):
    with pytest.raises(ValueError, match="a score is not finite"):
        agreement(*runs([TWELVE], [[score, *TWELVE[1:]]]))


@pytest.mark.parametrize(("first", "second"), [([[1.0]], [[1.0, 2.0]]), ([], []), ([[]], [[]])])
def test_runs_of_different_pairs_are_errors(first, second):
    with pytest.raises(ValueError, match=r"same pairs|need at least one"):
        agreement(first, second)


def test_the_shipped_pairs():
    pairs = sample_pairs()
    assert len(set(pairs)) == len(pairs) == 200
    assert sorted(Counter(query for query, _ in pairs).values()) == [20] * 10
    lengths = sorted(len(text.split()) for _, text in pairs)
    assert lengths[0] <= 6
    assert lengths[-1] >= 120
