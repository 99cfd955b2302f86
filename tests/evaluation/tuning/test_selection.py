"""Nested cross-validation, and a test that counts everything that was tried."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sampling import examples
from secondpass_evaluation.tuning.selection import (
    Held,
    Selection,
    _held_out,
    queries_needed,
    select,
    winner,
)

SELECT = {"loss": 0.0, "folds": 5, "repeats": 2, "resamples": 199, "confidence": 0.95, "seed": 0}


@examples(20)
@given(st.integers(0, 2**32 - 1), st.integers(10, 30), st.integers(1, 6))
def test_a_query_is_measured_by_what_the_others_chose(seed, queries, variants):
    rng = np.random.default_rng(seed)
    gains = rng.normal(size=(variants, queries))
    split = rng.permutation(queries) % 5
    held = next(_held_out([gains], np.ones((1, queries)), [split], [[0]]))[0][0]
    for fold in range(5):
        inside = split == fold
        chosen = gains[:, ~inside].mean(axis=1).argmax()
        assert held[inside] == pytest.approx(gains[chosen, inside])


@examples(20)
@given(st.integers(0, 2**32 - 1))
def test_flipped_signs_are_as_good_as_flipped_gains(seed):
    rng = np.random.default_rng(seed)
    gains = rng.normal(size=(4, 15))
    signs = rng.integers(0, 2, (3, 15)) * 2.0 - 1
    split = rng.permutation(15) % 5
    averages, _ = next(_held_out([gains], signs, [split], [[0]]))
    for row, held in zip(signs, averages, strict=True):
        flipped = next(_held_out([gains * row], np.ones((1, 15)), [split], [[0]]))[0][0]
        assert held == pytest.approx(flipped)


@examples(20)
@given(st.integers(0, 2**32 - 1))
def test_a_set_of_methods_is_one_method_with_all_variants(seed):
    rng = np.random.default_rng(seed)
    methods = [rng.normal(size=(count, 15)) for count in (1, 3, 2)]
    signs = rng.integers(0, 2, (4, 15)) * 2.0 - 1
    splits = [rng.permutation(15) % 5 for _ in range(2)]
    sets = [[0, 1], [2, 0], [0, 1, 2]]
    for members, (held, squares) in zip(sets, _held_out(methods, signs, splits, sets), strict=True):
        joined = np.concatenate([methods[index] for index in members])
        alone, sums = next(_held_out([joined], signs, splits, [[0]]))
        assert held == pytest.approx(alone)
        assert squares == pytest.approx(sums)


@examples(10)
@given(st.integers(0, 2**32 - 1), st.floats(0.5, 100))
def test_the_scale_of_gains_does_not_matter(seed, scale):
    gains = {name: np.random.default_rng([seed, i]).normal(size=(3, 20)) for i, name in
             enumerate("ab")}  # fmt: skip
    first = select(gains, **SELECT)
    second = select({name: rows * scale for name, rows in gains.items()}, **SELECT)
    for name, held in first.methods.items():
        assert second.methods[name].p == pytest.approx(held.p)
        assert second.methods[name].mean == pytest.approx(held.mean * scale)


def test_chance_is_adopted_no_more_often_than_it_may():
    """60 tunings of 3 methods with 8 variants without any gain; 5 % may be adopted."""
    adopted = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        gains = {name: rng.normal(0, 0.1, (8, 20)) for name in "abc"}
        found = select(gains, **{**SELECT, "seed": seed, "repeats": 1, "resamples": 99})
        adopted += winner(found, smallest_gain=0.0, confidence=0.95) is not None
    assert stats.binomtest(adopted, 60, 0.05, alternative="greater").pvalue > 0.001


def test_a_real_gain_is_found_and_honest():
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.1, (8, 80))
    good = rng.normal(0, 0.1, (8, 80)) + 0.06
    found = select({"noise": noise, "good": good}, **SELECT)
    assert winner(found, smallest_gain=0.01, confidence=0.95) == "good"
    held = found.methods["good"]
    assert held.low < 0.06 < held.high
    assert held.mean < good.mean(axis=1).max()  # the best on all queries is too good to be true


@pytest.mark.parametrize("value", [0.0, 0.25])
def test_gains_that_do_not_vary_have_no_interval(value):
    found = select({"same": np.full((2, 12), value)}, **SELECT)
    held = found.methods["same"]
    assert (held.low, held.high, held.deviation) == (None, None, 0.0)
    assert queries_needed(held, found.critical["same"], 0.01, 0.0) is None
    assert found.variants == {"same": 0}
    assert (winner(found, smallest_gain=0.01, confidence=0.95) == "same") is (value > 0)


@pytest.mark.parametrize(("losses", "adopted"), [(0, False), (1, False), (2, False)])
def test_gains_that_a_rare_loss_would_undo_are_not_adopted(losses, adopted):
    """7 % of the queries lose .5, and the others win so little that the mean is -.015."""
    gains = np.array([[-0.5] * losses + [0.0215] * (40 - losses)])
    found = select({"skewed": gains}, **{**SELECT, "loss": 0.5})
    assert (winner(found, smallest_gain=0.01, confidence=0.95) is not None) is adopted
    assert found.methods["skewed"].low < -0.015 < found.methods["skewed"].high


@pytest.mark.parametrize("gain", [0.05, 0.02, 0.01])
def test_a_gain_without_losses_has_to_outweigh_three(gain):
    """The rule of three."""
    for count in (60, 90, 150):
        found = select({"a": np.full((1, count), gain)}, **{**SELECT, "loss": 0.5})
        adopted = winner(found, smallest_gain=0.0, confidence=0.95) is not None
        assert adopted == (count * gain > 3 * 0.5)


@examples(20)
@given(st.integers(0, 2**32 - 1), st.floats(-0.1, 0.1), st.floats(0, 0.8))
def test_p_and_interval_belong_together(seed, gain, loss):
    gains = np.random.default_rng(seed).normal(gain, 0.1, (3, 30))
    held = select({"a": gains}, **{**SELECT, "loss": loss}).methods["a"]
    assert held.low <= held.mean <= held.high
    if held.p <= 0.05:
        assert held.low > 0 or held.high < 0


def held(mean, p, deviation=0.1):
    return Held(mean, mean - 0.1, mean + 0.1, deviation, p, 5)


@pytest.mark.parametrize(
    ("methods", "together", "expected"),
    [
        ({"a": (0.05, 0.01), "b": (0.06, 0.2)}, 0.05, "a"),
        ({"a": (0.05, 0.01), "b": (0.06, 0.049)}, 0.05, "b"),
        ({"a": (0.05, 0.05)}, 0.05, None),
        ({"a": (0.009, 0.01)}, 0.05, None),
        ({"a": (0.05, 0.01)}, 0.009, None),
        ({"a": (-0.05, 0.01)}, 0.05, None),
    ],
    ids=["significant", "highest", "chance", "small", "small_together", "loss"],
)
def test_the_winner(methods, together, expected):
    selection = Selection(
        {name: held(*values) for name, values in methods.items()}, held(together, 0.01), {}, {}, 0.0
    )
    assert winner(selection, smallest_gain=0.01, confidence=0.95) == expected


@given(st.floats(0.005, 0.5), st.floats(0.01, 1), st.floats(0, 4), st.floats(0, 1))
def test_smaller_gains_take_more_queries(gain, deviation, critical, loss):
    needed = queries_needed(held(0.0, 1.0, deviation), critical, gain, loss)
    assert needed >= 2
    assert queries_needed(held(0.0, 1.0, deviation), critical, gain / 2, loss) >= needed


def test_queries_needed_are_those_of_a_two_sided_test():
    # (1.96 + 0.842)^2 for an effect of one standard deviation
    assert queries_needed(held(0.0, 1.0, 1.0), 1.96, 1.0, 0.0) == 8


@given(st.floats(0.005, 0.5), st.floats(0.01, 1), st.floats(0, 4), st.floats(0, 1))
def test_queries_needed_reach_the_statistic(gain, deviation, critical, loss):
    needed = queries_needed(held(0.0, 1.0, deviation), critical, gain, loss)
    statistic = (needed * gain - loss) / np.sqrt(needed * deviation**2 + loss**2)
    assert statistic >= critical + 0.84
