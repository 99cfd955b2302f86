"""Whether a difference between two rankers is more than chance.

Both are measured on the same queries, so their differences are tested in pairs: Smucker, Allan and
Carterette, "A comparison of statistical significance tests for information retrieval evaluation",
CIKM 2007, find the randomisation test and Student's t test to agree and to be the right ones. With
several comparisons p-values are corrected by Holm's step-down procedure ("A simple sequentially
rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979), which bounds the
chance of any false finding among them. scipy does the computing.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from secondpass.errors import InputError, MissingExtraError
from secondpass.formats.errors import check_numbers
from secondpass.settings import describe

Test: TypeAlias = Literal["randomization", "t"]

TIE = 1e-9
"""Values nearer than this are a tie: sums in another order differ by less, other ranks by more."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A ranker against another, by one measure.

    Attributes:
        measure: its name.
        queries: how many were compared.
        mean: of the differences; positive where the ranker is better.
        low: lower end of the confidence interval of ``mean`` (Student's t). None for fewer than two
            queries, and where all gains are equal: then there is no spread to estimate it from.
        high: upper end; None likewise.
        confidence: of the interval, as a share.
        p: chance of a difference this large, in either direction, were the two rankers alike. None
            for fewer than two queries.
        corrected_p: p, corrected for the other comparisons that were made.
        wins: queries on which the ranker is better.
        ties: on which they are equal.
        losses: on which it is worse.
    """

    measure: str
    queries: int
    mean: float
    low: float | None
    high: float | None
    confidence: float
    p: float | None
    corrected_p: float | None
    wins: int
    ties: int
    losses: int

    @property
    def enough_queries(self) -> bool:
        """Whether there are enough queries to tell a difference from chance.

        See :func:`fewest_queries`.
        """
        return self.queries >= fewest_queries(self.confidence)


def fewest_queries(confidence: float = 0.95) -> int:
    """The smallest number of queries at which the randomisation test can find a difference.

    Of n queries it tries 2**n swaps of signs, so p is never below 2 / 2**n. That is below 0.05
    from 6 queries on. The t test has no such limit of its own, but with fewer queries its
    assumption of normal differences cannot be checked, so the same number is used for both.
    """
    count = 2
    while 2 / 2**count >= 1 - confidence:
        count += 1
    return count


def difference(
    measure: str,
    values: Mapping[str, float],
    baseline: Mapping[str, float],
    *,
    test: Test = "randomization",
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Difference:
    """Compare values of two rankers on the same queries.

    Args:
        measure: name of the measure.
        values: query id -> value, of the ranker.
        baseline: the same, of what it is compared with.
        test: ``randomization`` (the signs of the differences are swapped in all ways, or in
            ``resamples`` random ones where there are more) or ``t``.
        confidence: of the interval, above 0 and below 1.
        resamples: at most.
        seed: of the random ones.

    Gains of no more than ``TIE`` count as 0 everywhere: in the mean, the interval and p, too.

    Raises:
        InputError: the queries are not the same, there is none, a value is not a finite number, or
            an argument is out of range.
        MissingExtraError: scipy is not installed.
    """
    if test not in get_args(Test):
        raise InputError(f"test: must be {' or '.join(get_args(Test))}, not {describe(test)}")
    check_numbers(resamples=(resamples, 1), seed=(seed, 0))
    if values.keys() != baseline.keys():
        raise InputError("values, baseline: must be of the same queries")
    if not values:
        raise InputError("values: hold no query")
    if not 0 < confidence < 1:
        raise InputError(f"confidence: must lie between 0 and 1, not {confidence}")
    _check_finite("values", values)
    _check_finite("baseline", baseline)
    gains = [_gain(value, baseline[query]) for query, value in values.items()]
    wins = sum(gain > TIE for gain in gains)
    losses = sum(gain < -TIE for gain in gains)
    low, high, p = _tested(gains, test, confidence, resamples, seed)
    return Difference(
        measure,
        len(gains),
        math.fsum(gains) / len(gains),
        low,
        high,
        confidence,
        p,
        p,
        wins,
        len(gains) - wins - losses,
        losses,
    )


def _check_finite(name: str, values: Mapping[str, float]) -> None:
    for query, value in values.items():
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            told = f"must be a finite number, not {describe(value)}"
            raise InputError(f"{name}[{query!r}]: {told}")


def _gain(value: float, baseline: float) -> float:
    gain = value - baseline
    return gain if abs(gain) > TIE else 0.0


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values corrected for each other by Holm's procedure; None stays None and does not count.

    Raises:
        InputError: one is not between 0 and 1.
    """
    for at, p in enumerate(p_values):
        if p is not None and not 0 <= p <= 1:
            raise InputError(f"p_values[{at}]: must lie between 0 and 1, not {p}")
    known = sorted((p, at) for at, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for place, (p, at) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - place)))
        corrected[at] = highest
    return corrected


def _tested(
    gains: list[float], test: Test, confidence: float, resamples: int, seed: int
) -> tuple[float | None, float | None, float | None]:
    """Ends of the confidence interval, and p."""
    try:
        import numpy as np
        from scipy import stats
    except ImportError:
        raise MissingExtraError("evaluation", "a significance test") from None
    if len(gains) < 2:
        return None, None, None
    values = np.asarray(gains)
    low: float | None = None
    high: float | None = None
    if np.all(np.abs(values - values[0]) <= TIE):
        # Without any spread t has no value, but its p has a limit.
        p = 0.0 if values[0] else 1.0
    else:
        of_t: Any = stats.ttest_1samp(values, 0.0)
        low, high = map(float, of_t.confidence_interval(confidence))
        p = float(of_t.pvalue)
    if test == "randomization":
        found: Any = stats.permutation_test(
            (values,),
            # Rounded, for sums in another order must not count as less or more.
            lambda sample, axis: np.round(np.mean(sample, axis=axis), 12),
            vectorized=True,
            permutation_type="samples",
            n_resamples=resamples,
            batch=1_000,
            rng=np.random.default_rng(seed),
        )
        p = float(found.pvalue)
    return low, high, p
