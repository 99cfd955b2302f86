import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass import ConfigurationError
from secondpass.ranking.blending import Blend, minmax, sigmoid, with_weight, zscore

finite = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("blend", "originals", "reranked", "scale", "final"),
    [
        (Blend(0.4), [0.5, 1.0], [1.0, 0.0], None, [0.5 * 0.4 + 1.0 * 0.6, 1.0 * 0.4]),
        (Blend(0.0), [0.5, None], [0.25, 0.75], None, [0.25, 0.75]),
        (Blend(1.0), [0.5, None], [0.25, 0.75], None, [0.5, 0.75]),
        (Blend(0.5), [0.0, 1.0], [0, 10], (0, 10), [0.0, 1.0]),
        (Blend(0.5), [0.0, 1.0], [1, 2], (1, 3), [0.0, 0.75]),
        (Blend(0.5, "sigmoid"), [0.0, 1.0], [0.0, 0.0], None, [0.25, 0.75]),
        (Blend(0.5, "minmax"), [10, 30], [-5, 5], None, [0.0, 1.0]),
        (Blend(0.5, "minmax"), [7, 7], [-5, 5], None, [0.25, 0.75]),
        (Blend(0.5, "minmax"), [7, None, 9], [1, 1, 1], None, [0.25, 0.5, 0.75]),
        (Blend(0.5, "zscore"), [7, 7], [-5, 5], None, [-0.5, 0.5]),
        (Blend(0.5, "zscore"), [1, 3], [5, -5], None, [0.0, 0.0]),
        # Without any retrieval score, 1 / rank: 1, 1/2, 1/3 and 1/4.
        (Blend(0.5, "minmax"), [None] * 4, [1, 1, 1, 1], None, [0.75, 5 / 12, 11 / 36, 0.25]),
        (Blend(0.25, "minmax"), [None] * 2, [0, 8], (0, 10), [0.25, 0.75]),
        (Blend(0.5, "zscore"), [None] * 2, [5, -5], None, [1.0, -1.0]),
        (Blend(1.0, "minmax"), [None], [3], None, [0.5]),
        (Blend(0.5, "none"), [None] * 2, [0.25, 0.75], None, [0.25, 0.75]),
        (Blend(0.5, "sigmoid"), [None] * 2, [0.0, 0.0], None, [0.5, 0.5]),
        (Blend(0.5, "rrf", 1), [None] * 2, [1.0, 2.0], None, [1 / 4 + 1 / 6, 1 / 6 + 1 / 4]),
        (Blend(0.25, "rrf", 1), [None] * 2, [1.0, 2.0], None, [1 / 8 + 1 / 4, 1 / 12 + 3 / 8]),
    ],
)
def test_mix(blend, originals, reranked, scale, final):
    assert blend.mix(originals, reranked, scale).final == pytest.approx(final, abs=1e-15)


@pytest.mark.parametrize("normalize", ["none", "sigmoid", "minmax", "zscore", "rrf"])
@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        ("probability", "none minmax zscore rrf"),
        ("grade", "none minmax zscore rrf"),
        ("logit", "sigmoid minmax zscore rrf"),
        ("similarity", "minmax zscore rrf"),
        ("unbounded", "minmax zscore rrf"),
        ("rank", "minmax zscore rrf"),
    ],
)
def test_kinds_that_cannot_be_mixed_are_refused(kind, allowed, normalize):
    blend = Blend(0.5, normalize)
    if normalize in allowed.split():
        blend.check(kind)
    else:
        with pytest.raises(ConfigurationError, match=f"kind '{kind}' comparable"):
            blend.check(kind)


@given(finite)
def test_minmax_and_zscore_keep_the_order_and_stay_finite(scores):
    for rescaled in (minmax(scores), zscore(scores)):
        assert all(math.isfinite(score) for score in rescaled)
        paired = sorted(zip(scores, rescaled, strict=True))
        assert all(low[1] <= high[1] for low, high in pairwise(paired))
    assert all(0 <= score <= 1 for score in minmax(scores))


@given(st.floats(allow_nan=False))
def test_sigmoid_never_overflows(logit):
    assert 0 <= sigmoid(logit) <= 1
    assert sigmoid(logit) + sigmoid(-logit) == pytest.approx(1)
    assert sigmoid(0.5) == pytest.approx(1 / (1 + math.exp(-0.5)), abs=1e-16)


def test_reciprocal_ranks_follow_the_scores():
    blended = Blend(0.0, "rrf", 60).mix([None] * 4, [0.3, 0.9, 0.1, 0.9])
    assert blended.final == [1 / 63, 1 / 61, 1 / 64, 1 / 62]  # ties as they came in
    assert (blended.absent, blended.outside) == ([], [])
    assert Blend(0.5, "rrf").rrf_k == 60


HUGE = [36.0, 40.0, 1e300, 38.0]
TIES = {
    "saturated": (Blend(0.0, "sigmoid"), [0.9, 0.8, 0.7, 0.6], HUGE, [2, 1, 3, 0]),
    "below": (Blend(0.5, "sigmoid"), [0.5] * 4, [-score for score in HUGE], [0, 3, 1, 2]),
    "beside equal retrieval scores": (
        Blend(0.5, "sigmoid"),
        [0.3, 0.9, 0.3, 0.9],
        HUGE,
        [1, 3, 2, 0],
    ),
    "without retrieval scores": (Blend(0.5, "sigmoid"), [None] * 4, HUGE, [2, 1, 3, 0]),
    "one without": (Blend(0.5, "sigmoid"), [1.0, None, 1.0, None], HUGE, [1, 2, 3, 0]),
    "rounded": (Blend(0.9), [1.0] * 3, [0.5, 0.5 + 1e-16, 0.5 + 2e-16], [2, 1, 0]),
    "squeezed": (Blend(0.0, "minmax"), [3, 2, 1], [1.0, 2.0, 1e300], [2, 1, 0]),
    "of other scores": (Blend(0.5), [1.0, 0.5, 0.0], [0.0, 0.5, 1.0], [0, 1, 2]),
    "of ranks": (Blend(0.5, "rrf"), [5, 5], [1.0, 2.0], [0, 1]),
    "of equal scores": (Blend(0.5, "sigmoid"), [0.5] * 3, [50.0] * 3, [0, 1, 2]),
}


@pytest.mark.parametrize(("blend", "originals", "reranked", "order"), TIES.values(), ids=TIES)
def test_ties(blend, originals, reranked, order):
    blended = blend.mix(originals, reranked)
    assert blended.order == order
    final = [blended.final[index] for index in order]
    assert final == sorted(final, reverse=True)


logits = st.sampled_from([-1e300, -800.0, -40.0, -1.0, 0.0, 30.0, 36.5, 37.0, 40.0, 800.0, 1e300])


@given(
    st.lists(st.tuples(st.sampled_from([None, 0.0, 0.5, 1.0]), logits), max_size=12),
    st.sampled_from([0.0, 0.1, 0.5, 0.9]),
)
def test_what_differs_in_the_logit_only_is_in_the_order_of_the_logits(items, weight):
    originals, reranked = [original for original, _ in items], [logit for _, logit in items]
    order = Blend(weight, "sigmoid").mix(originals, reranked).order
    assert sorted(order) == [*range(len(items))]
    for original in {*originals}:
        alike = [index for index in order if originals[index] == original]
        assert alike == sorted(alike, key=lambda index: (-reranked[index], index))


@pytest.mark.parametrize(
    ("normalize", "originals", "absent", "outside"),
    [
        ("none", [0.0, 1.0, 0.5], [], []),
        ("none", [-0.01, 1.01, None], [2], [0, 1]),
        ("sigmoid", [0.0, 1.5, 1.0], [], [1]),
        ("minmax", [-7.0, None, 9.0], [1], []),
        ("zscore", [7.0, 8.0, None], [2], []),
        ("none", [None] * 3, [0, 1, 2], []),
        ("sigmoid", [None] * 3, [0, 1, 2], []),
        ("minmax", [None] * 3, [], []),
        ("zscore", [None] * 3, [], []),
        ("rrf", [None] * 3, [], []),
    ],
)
def test_originals_that_cannot_take_part_are_listed(normalize, originals, absent, outside):
    blended = Blend(0.5, normalize).mix(originals, [0.1, 0.2, 0.3])
    assert (blended.absent, blended.outside) == (absent, outside)


@pytest.mark.parametrize(
    ("blend", "weight", "expected"),
    [
        (None, None, None),
        (None, 0.0, None),
        (None, 0.5, Blend(0.5, "minmax")),
        (Blend(0.2, "zscore"), None, Blend(0.2, "zscore")),
        (Blend(0.2, "rrf", 10, optional=True), 0.5, Blend(0.5, "rrf", 10, optional=True)),
        (Blend(0.7, "none"), 0.5, Blend(0.7, "none")),
    ],
)
def test_the_higher_weight_counts(blend, weight, expected):
    assert with_weight(blend, weight, [None, 0.5]) == expected
