"""Significance tests for the difference between two rankers.

Both are measured on the same queries, so the tests are paired. Smucker, Allan and Carterette, "A
comparison of statistical significance tests for information retrieval evaluation", CIKM 2007,
recommend the randomisation test and Student's t test, which agree. The p-values of several
comparisons are corrected by Holm's step-down procedure ("A simple sequentially rejective multiple
test procedure", Scandinavian Journal of Statistics 6, 1979), which bounds the chance of any false
positive among them. scipy computes the tests.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from secondpass import InputError
from secondpass.attributes import unchangeable
from secondpass.formats.errors import check_numbers
from secondpass.settings import counted, describe

Test: TypeAlias = Literal["randomization", "t"]

TIE = 1e-9
"""Differences up to this are ties: rounding errors are smaller, changes of ranks larger."""


@unchangeable
@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of a ranker from a baseline, by one measure.

    Attributes:
        queries: number of queries compared; on so many the ranker is better (``wins``), equal
            (``ties``) or worse (``losses``).
        mean: mean of the differences; positive if the ranker is better.
        low, high: confidence interval of ``mean`` (Student's t). None for fewer than
            :func:`fewest_queries`, on which it says nothing, and if all differences are equal:
            there is no variance to estimate it from.
        confidence: of the interval, 0 to 1.
        p: probability of a difference at least this large, in either direction, if the rankers
            were equally good. None for fewer than two queries.
        corrected_p: p, corrected for the number of comparisons.
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
        """Whether there are at least :func:`fewest_queries` queries."""
        return self.queries >= fewest_queries(self.confidence)

    @property
    def is_significant(self) -> bool:
        """Whether ``corrected_p`` is below 1 - ``confidence``, on enough queries."""
        p = self.corrected_p
        return self.enough_queries and p is not None and p < 1 - self.confidence

    def __repr__(self) -> str:
        parts = [f"{self.measure} {self.mean:+.4f}"]
        if self.low is not None and self.high is not None:
            parts.append(f"{self.confidence:.0%} interval {self.low:+.4f} to {self.high:+.4f}")
        if (p := self.p if self.corrected_p is None else self.corrected_p) is not None:
            parts.append(f"p {p:.2g}")
        parts.append(counted(self.queries, "query", "queries"))
        return f"<Difference {', '.join(parts)}>"


def fewest_queries(confidence: float = 0.95) -> int:
    """The smallest number of queries at which the randomisation test can be significant.

    With n queries it tries 2**n combinations of signs, so p is at least 2 / 2**n, which is below
    0.05 from 6 queries on. The t test has no such limit, but on fewer queries its assumption of
    normal differences cannot be checked, so the same number applies to it.
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
        measure: its name.
        values: query id -> value, of the ranker.
        baseline: query id -> value, of the baseline.
        test: ``randomization`` (all combinations of the signs of the differences, or ``resamples``
            random ones if there are more) or ``t``.
        confidence: of the interval, above 0 and below 1.
        resamples: maximum number of combinations.
        seed: of the random combinations.

    Differences up to ``TIE`` count as 0: in the mean, the interval and p, too.

    Raises:
        InputError: the queries differ, there are none, a value is not a finite number, or
            an argument is out of range.
    """
    if test not in get_args(Test):
        raise InputError(f"test: must be {' or '.join(get_args(Test))}, not {describe(test)}")
    check_numbers(resamples=(resamples, 1), seed=(seed, 0))
    if values.keys() != baseline.keys():
        raise InputError("values, baseline: must be of the same queries")
    if not values:
        raise InputError("values: must hold at least one query")
    if not 0 < confidence < 1:
        raise InputError(f"confidence: must lie between 0 and 1, not {confidence}")
    _check_finite("values", values)
    _check_finite("baseline", baseline)
    gains = [_gain(value, baseline[query]) for query, value in values.items()]
    wins = sum(gain > TIE for gain in gains)
    losses = sum(gain < -TIE for gain in gains)
    low, high, p = _interval_and_p(gains, test, confidence, resamples, seed)
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
            raise InputError(f"{name}[{query!r}]: must be a finite number, not {describe(value)}")


def _gain(value: float, baseline: float) -> float:
    gain = value - baseline
    return gain if abs(gain) > TIE else 0.0


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values corrected by Holm's procedure; None stays None and does not count.

    Raises:
        InputError: one is not between 0 and 1.
    """
    for index, p in enumerate(p_values):
        if p is not None and not (isinstance(p, numbers.Real) and 0 <= p <= 1):
            raise InputError(f"p_values[{index}]: must lie between 0 and 1, not {describe(p)}")
    known = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, index) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        corrected[index] = highest
    return corrected


def _interval_and_p(
    gains: list[float], test: Test, confidence: float, resamples: int, seed: int
) -> tuple[float | None, float | None, float | None]:
    """Ends of the confidence interval, and p."""
    import numpy as np
    from scipy import stats

    if len(gains) < 2:
        return None, None, None
    values = np.asarray(gains)
    low: float | None = None
    high: float | None = None
    if np.all(np.abs(values - values[0]) <= TIE):
        # t is undefined without variance, but its p has a limit.
        p = 0.0 if values[0] else 1.0
    else:
        t_test: Any = stats.ttest_1samp(values, 0.0)
        if len(gains) >= fewest_queries(confidence):
            low, high = map(float, t_test.confidence_interval(confidence))
        p = float(t_test.pvalue)
    if test == "randomization":
        result: Any = stats.permutation_test(
            (values,),
            # Rounded, so that the order of summation has no effect.
            lambda sample, axis: np.round(np.mean(sample, axis=axis), 12),
            vectorized=True,
            permutation_type="samples",
            n_resamples=resamples,
            batch=1_000,
            rng=np.random.default_rng(seed),
        )
        p = float(result.pvalue)
    return low, high, p
