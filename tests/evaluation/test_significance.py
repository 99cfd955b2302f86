"""Differences between rankers: the figures are scipy's, the correction is Holm's."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import stats

from sampling import examples
from secondpass import InputError
from secondpass_evaluation import difference, holm
from secondpass_evaluation.significance import fewest_queries

shares = st.integers(0, 20).map(lambda twentieths: twentieths / 20)


def paired(least: int, most: int):
    values = st.tuples(shares, shares)
    return st.lists(values, min_size=least, max_size=most).map(
        lambda pairs: tuple(
            {f"q{at}": pair[side] for at, pair in enumerate(pairs)} for side in (0, 1)
        )
    )


def spread(own, base) -> bool:
    gains = [own[query] - base[query] for query in own]
    return max(gains) - min(gains) > 1e-6


def by_all_signs(gains: list[float]) -> float:
    """The randomisation test written out: both tails, of every way to swap the signs."""
    means = [
        math.fsum(sign * gain for sign, gain in zip(signs, gains, strict=True))
        for signs in itertools.product((1, -1), repeat=len(gains))
    ]
    own = math.fsum(gains)
    above = sum(mean >= own - 1e-9 for mean in means) / len(means)
    below = sum(mean <= own + 1e-9 for mean in means) / len(means)
    return min(1.0, 2 * min(above, below))


@examples(25)
@given(paired(fewest_queries(0.9), 40))
def test_t_test_as_in_scipy(pair) -> None:
    own, base = pair
    assume(spread(own, base))
    found = difference("nDCG", own, base, test="t", confidence=0.9)
    expected = stats.ttest_rel([*own.values()], [*base.values()])
    interval = expected.confidence_interval(0.9)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-12)


@given(paired(2, 8))
@example(
    (
        {"a": 0.0, "b": 0.0, "c": 0.05, "d": 1.0},
        {"a": 0.85, "b": 0.2, "c": 0.0, "d": 0.0},
    )
)  # whose mean is 0, but for rounding
@examples(20)
def test_few_queries_try_all_signs(pair) -> None:
    own, base = pair
    gains = [own[query] - base[query] for query in own]
    assert difference("nDCG", own, base).p == pytest.approx(by_all_signs(gains), abs=1e-12)


def test_many_queries_as_in_scipy() -> None:
    rng = np.random.default_rng(1)
    values, others = rng.random(50), rng.random(50) * 0.9
    own, base = (
        {str(at): float(value) for at, value in enumerate(each)} for each in (values, others)
    )
    expected = stats.permutation_test(
        (values, others),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        vectorized=True,
        permutation_type="samples",
        n_resamples=2_000,
        batch=1_000,
        rng=np.random.default_rng(7),
    )
    found = difference("nDCG", own, base, resamples=2_000, seed=7)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-12)
    assert found == difference("nDCG", own, base, resamples=2_000, seed=7)
    assert found.p != difference("nDCG", own, base, resamples=2_000, seed=8).p


@given(paired(2, 8), st.sampled_from(["t", "randomization"]))
@examples(20)
def test_antisymmetric(pair, test) -> None:
    own, base = pair
    one, other = difference("m", own, base, test=test), difference("m", base, own, test=test)
    assert (one.wins, one.ties, one.losses) == (other.losses, other.ties, other.wins)
    assert one.wins + one.ties + one.losses == one.queries == len(own)
    assert one.p == pytest.approx(other.p)
    assert one.mean == pytest.approx(-other.mean)
    if not spread(*pair) or not one.enough_queries:
        assert (one.low, one.high, other.low, other.high) == (None,) * 4
        return
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert one.low <= one.mean + 1e-12
    assert one.mean <= one.high + 1e-12


@pytest.mark.parametrize(
    ("own", "base", "counts"),
    [
        ([1.0, 0.5, 0.0], [0.0, 0.5, 1.0], (1, 1, 1)),
        ([0.1 + 0.2], [0.3], (0, 1, 0)),  # sums in another order
        ([0.3 + 1e-8], [0.3], (1, 0, 0)),
        ([0.0, 0.0], [0.0, 0.0], (0, 2, 0)),
    ],
)
def test_wins_ties_and_losses(own, base, counts) -> None:
    found = difference("m", dict(enumerate(own)), dict(enumerate(base)))
    assert (found.wins, found.ties, found.losses) == counts


@pytest.mark.parametrize("test", ["t", "randomization"])
@given(pair=paired(2, 12), noise=st.lists(st.floats(-9e-10, 9e-10), min_size=12, max_size=12))
@examples(20)
def test_gains_below_tie_count_as_zero(test, pair, noise) -> None:
    own, base = pair
    noisy = {
        query: base[query] + noise[at] if own[query] == base[query] else value
        for at, (query, value) in enumerate(own.items())
    }
    assert difference("m", noisy, base, test=test) == difference("m", own, base, test=test)


@pytest.mark.parametrize("bad", [math.nan, -math.inf, None, True])
@pytest.mark.parametrize("side", ["values", "baseline"])
def test_values_are_finite(side, bad) -> None:
    good = {f"q{at}": at / 8 for at in range(8)}
    wrong = {**good, "q3": bad}
    pair = (wrong, good) if side == "values" else (good, wrong)
    with pytest.raises(InputError, match=rf"{side}\['q3'\]: must be a finite number"):
        difference("m", *pair)


def test_fewest_queries() -> None:
    for confidence, fewest in ((0.95, 6), (0.9, 5), (0.99, 8)):
        gained = {str(at): at / 100 + 0.1 for at in range(fewest)}
        found = difference("m", gained, dict.fromkeys(gained, 0.0), confidence=confidence)
        assert found.enough_queries
        assert found.low < found.mean < found.high
        assert found.p < 1 - confidence
        del gained["0"]
        found = difference("m", gained, dict.fromkeys(gained, 0.0), confidence=confidence)
        assert not found.enough_queries
        assert found.p >= 1 - confidence
        assert (found.low, found.high) == (None, None)


def test_no_variance() -> None:
    own, base = dict.fromkeys("abcd", 0.75), dict.fromkeys("abcd", 0.5)
    assert difference("m", own, base, test="t").p == 0.0
    randomized = difference("m", own, base)
    assert randomized.p == 2 / 2**4
    assert (randomized.low, randomized.high) == (None, None)


def test_one_query() -> None:
    found = difference("m", {"q": 1.0}, {"q": 0.5})
    assert (found.mean, found.p, found.corrected_p, found.low, found.high) == (0.5, *[None] * 4)


@pytest.mark.parametrize(
    ("own", "base", "settings", "problem"),
    [
        ({"a": 1.0}, {"b": 1.0}, {}, "must be of the same queries"),
        ({}, {}, {}, "must hold at least one query"),
        ({"a": 1.0}, {"a": 1.0}, {"confidence": 1.0}, "confidence: must lie between 0 and 1"),
        ({"a": 1.0}, {"a": 1.0}, {"test": "wilcoxon"}, "test: must be randomization or t"),
        ({"a": 1.0}, {"a": 1.0}, {"resamples": 0}, "resamples: must be a whole number of 1 or"),
        ({"a": 1.0}, {"a": 1.0}, {"seed": 1.5}, "seed: must be a whole number of 0 or more"),
    ],
)
def test_wrong_arguments(own, base, settings, problem) -> None:
    with pytest.raises(InputError, match=problem):
        difference("m", own, base, **settings)


# ------------------------------------------------------------------ Holm


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        ([], []),
        ([0.2], [0.2]),
        # 0.005 · 4, 0.01 · 3, 0.03 · 2, and 0.04 · 1, which may not fall below the one before
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.6, 0.7], [1.0, 1.0]),
        ([0.01, None, 0.02], [0.02, None, 0.02]),
        ([0.0, 0.0, 0.5], [0.0, 0.0, 0.5]),
        ([None], [None]),
    ],
)
def test_holm_by_hand(p_values, corrected) -> None:
    assert holm(p_values) == pytest.approx(corrected)


p_lists = st.lists(st.none() | st.floats(0, 1), max_size=12)


@examples(25)
@given(p_lists, st.randoms(use_true_random=False))
def test_holm_properties(p_values, random) -> None:
    corrected = holm(p_values)
    pairs = [(p, own) for p, own in zip(p_values, corrected, strict=True) if p is not None]
    assert [p is None for p in p_values] == [own is None for own in corrected]
    assert all(p <= own <= 1 for p, own in pairs)
    in_order = [own for _, own in sorted(pairs)]
    assert in_order == sorted(in_order)
    assert all(own <= min(1, p * len(pairs)) for p, own in pairs)  # never harsher than Bonferroni's
    order = list(range(len(p_values)))
    random.shuffle(order)
    assert holm([p_values[at] for at in order]) == [corrected[at] for at in order]


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_holm_wrong_p_values(p) -> None:
    with pytest.raises(InputError, match=r"p_values\[1\]: must lie between 0 and 1"):
        holm([0.5, p])


# ------------------------------------------------------------------ another package


@pytest.mark.long
def test_as_in_ranx() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that ranx brings
        pytest.importorskip("ranx")
        from ranx.statistical_tests import fisher_randomization_test, paired_student_t_test

        rng = np.random.default_rng(3)
        for shift in (0.0, 0.03, 0.1):
            values, others = rng.random(60), rng.random(60) - shift
            own, base = (dict(enumerate(each.tolist())) for each in (values, others))
            p, _ = paired_student_t_test(values, others, 0.05)
            assert difference("m", own, base, test="t").p == pytest.approx(p, abs=1e-9)
            p, _ = fisher_randomization_test(values, others, 10_000, 0.05, random_seed=1)
            assert difference("m", own, base).p == pytest.approx(p, abs=0.02)  # both are samples
