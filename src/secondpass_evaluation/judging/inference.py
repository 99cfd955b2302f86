"""Estimates means over queries from a model's judgements of all and a person's of some.

Prediction-powered inference: Angelopoulos, Bates, Fannjiang, Jordan and Zrnic, "Prediction-powered
inference", Science 382, 2023; with the tuned weight of Angelopoulos, Duchi and Zrnic, "PPI++:
efficient prediction-powered inference", arXiv 2311.01453, 2023. For a mean it is the regression
estimator of two-phase sampling (Cochran, "Sampling Techniques", 1977, section 12.7).

The unit is a query: judgements of the documents of one query depend on each other, and measures
such as nDCG are not linear in them. A person judges all pooled documents of a query, so the value
of such a query does not depend on the model.
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from secondpass import InputError
from secondpass.attributes import unchangeable
from secondpass.settings import counted, describe
from secondpass_evaluation.errors import check_mapping
from secondpass_evaluation.significance import fewest_queries

K = TypeVar("K")
_LARGEST = 1e100
"""Largest value: the sum of squares of larger ones overflows."""
_EQUAL = 1e-12
"""Sums of squares below this are rounding errors of equal values."""


@unchangeable
@dataclass(frozen=True, slots=True)
class Corrected:
    """A mean over queries, corrected by the queries that a person has judged as well.

    Attributes:
        queries: number of queries that the model has judged.
        people: number of these that a person has judged as well.
        uncorrected: mean over all queries by the model's judgements.
        mean: corrected mean; ``low`` to ``high`` is its confidence interval.
        people_mean: mean over the person's queries by the person's judgements alone, with its own
            interval (Student's t, with the same variance).
        weight: of the model's judgements, λ of PPI++. 0: they do not help, and the corrected mean
            is that of the person's judgements alone.
        confidence: of both intervals, 0 to 1.
    """

    measure: str
    queries: int
    people: int
    uncorrected: float
    mean: float
    low: float
    high: float
    people_mean: float
    people_low: float
    people_high: float
    weight: float
    confidence: float

    def __repr__(self) -> str:
        interval = f"{self.confidence:.0%} interval {self.low:.4f} to {self.high:.4f}"
        by_people = f"{self.people:,} of {counted(self.queries, 'query', 'queries')} by people"
        return f"<Corrected {self.measure} {self.mean:.4f}, {interval}, {by_people}>"


@unchangeable
@dataclass(frozen=True, slots=True)
class CorrectedResult:
    """Figures of a system on a model's judgements, corrected by a person's.

    Attributes:
        name: name of the system.
        mean: corrected mean of the measure.
        base: name of the system that it is compared with; None if there is none.
        difference: corrected mean difference from ``base``; None also if all differences on the
            person's queries are equal.
    """

    name: str
    mean: Corrected
    base: str | None = None
    difference: Corrected | None = None


def corrected_mean(
    measure: str,
    model: Mapping[str, float],
    people: Mapping[str, float],
    *,
    confidence: float = 0.95,
) -> Corrected:
    """Correct the mean of a measure, or of a difference between two rankers.

    It estimates the mean over the population of which the model's queries are a random sample. The
    person's queries must be a random sample of the model's, drawn without looking at the
    judgements. Then the mean is unbiased up to terms of the order 1 / n for n queries of the
    person, however wrong the model is.

    The interval is asymptotic, with four corrections for few queries: Student's t with n - 2
    degrees of freedom, leave-one-out errors of the regression, a term for the error of the weight,
    and variances that are raised by their own error where a few queries make most of them. If it
    would be wider than the interval of the person's judgements alone, that interval and its mean
    are returned, with the weight 0. What no query of the person shows is in neither: with a judge
    that misses most of a few large gains, both cover less than they state.

    Args:
        measure: its name.
        model: query id -> value by the model's judgements.
        people: query id -> value by the person's judgements, of some of these queries.
        confidence: of the intervals, above 0 and below 1.

    Raises:
        InputError: there are fewer queries than :func:`fewest_queries`, a query of the person is
            not among the model's, a value is not a finite number, or all of the person's are equal.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence: must lie between 0 and 1, not {confidence}")
    _check("model", model)
    _check("people", people)
    if unknown := [query for query in people if query not in model]:
        raise InputError(f"people: {unknown[0]!r} is not among the model's queries")
    n, size = len(people), len(model)
    if n < (fewest := fewest_queries(confidence)):
        raise InputError(
            f"people: {n} {'query is' if n == 1 else 'queries are'} too few to correct by; "
            f"{fewest} or more are needed"
        )
    values = list(people.values())
    mean = math.fsum(values) / n
    variance = _mean_square([value - mean for value in values])
    if variance < _EQUAL:
        raise InputError(
            f"people: {measure} is {mean:.4f} on all {n} queries, so its variance is not known"
        )
    alone = _quantile(confidence, n - 1) * math.sqrt(variance / n)
    every = math.fsum(model.values()) / size
    center, half, weight = mean, alone, 0.0
    regression = _regression([model[query] for query in people], values, mean, every)
    if regression is not None:
        slope, squares, leverage = regression
        # What the model explains of the variance varies with all queries; the rest, with the
        # person's. A judge that is blind to rare gains explains too little of it.
        spread = math.fsum((value - every) ** 2 for value in model.values()) / (size - 1)
        explained = max(slope * slope * spread, variance - squares)
        total = explained / size + squares * (1 / n + leverage)
        width = _quantile(confidence, n - 2) * math.sqrt(total)
        if width <= alone:
            predicted = math.fsum(model[query] for query in people) / n
            center, half, weight = mean + slope * (every - predicted), width, slope
    return Corrected(
        measure,
        size,
        n,
        every,
        center,
        center - half,
        center + half,
        mean,
        mean - alone,
        mean + alone,
        weight,
        confidence,
    )


def corrected_difference(
    measure: str,
    model: tuple[Mapping[str, float], Mapping[str, float]],
    people: tuple[Mapping[str, float], Mapping[str, float]],
    *,
    confidence: float = 0.95,
) -> Corrected:
    """Correct the mean difference between two rankers; see :func:`corrected_mean`.

    ``model`` and ``people`` have the values of the ranker and those of the other.

    Raises:
        InputError: as for :func:`corrected_mean`, or the queries of the two rankers differ.
    """
    by_model = _gains("model", *model)
    by_people = _gains("people", *people)
    return corrected_mean(measure, by_model, by_people, confidence=confidence)


def _gains(name: str, after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """By query, how much higher the value of a ranker is than that of the other."""
    _check(name, after)
    _check(name, before)
    if after.keys() != before.keys():
        raise InputError(f"{name}: the two rankers must have the same queries")
    return {query: value - before[query] for query, value in after.items()}


def excludes_zero(corrected: Corrected, comparisons: int) -> bool:
    """Whether the interval of one of several corrected differences excludes 0 (Bonferroni)."""
    confidence, degrees = corrected.confidence, corrected.people - 2
    adjusted = 1 - (1 - confidence) / max(1, comparisons)
    factor = _quantile(adjusted, degrees) / _quantile(confidence, degrees)
    return abs(corrected.mean) > factor * (corrected.high - corrected.mean)


def kappa(model: Mapping[K, int], people: Mapping[K, int]) -> float | None:
    """Cohen's kappa of two judges on the documents that both judged; None if chance explains all.

    Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological
    Measurement 20, 1960. Both map documents to grades. 1: the judges always agree; 0: as by chance;
    None also without a common document.

    Raises:
        InputError: an argument is no mapping.
    """
    check_mapping("model", model)
    check_mapping("people", people)
    common = [(model[document], grade) for document, grade in people.items() if document in model]
    if not common:
        return None
    agreed = sum(ours == theirs for ours, theirs in common) / len(common)
    ours, theirs = (Counter(grades) for grades in zip(*common, strict=True))
    chance = sum(ours[grade] * theirs[grade] for grade in ours) / len(common) ** 2
    return None if chance >= 1 else (agreed - chance) / (1 - chance)


def _regression(
    predictors: list[float], values: list[float], mean: float, every: float
) -> tuple[float, float, float] | None:
    """Slope, mean square error, and the share of it that the error of the slope adds.

    None if the predictors are equal. Errors are leave-one-out (PRESS; Allen, "The relationship
    between variable selection and data augmentation and a method for prediction", Technometrics 16,
    1974), as residuals of the fit are too small with few queries.
    """
    n = len(values)
    center = math.fsum(predictors) / n
    offsets = [value - center for value in predictors]
    spread = math.fsum(offset * offset for offset in offsets)
    if spread < _EQUAL:
        return None
    pairs = list(zip(offsets, values, strict=True))
    slope = math.fsum(offset * (value - mean) for offset, value in pairs) / spread
    errors = []
    for offset, value in pairs:
        free = 1 - 1 / n - offset * offset / spread
        if free < _EQUAL:  # one query alone determines the slope
            return None
        errors.append((value - mean - slope * offset) / free)
    return slope, _mean_square(errors), (every - center) ** 2 / spread


def _mean_square(errors: Sequence[float]) -> float:
    """Mean square of deviations, raised by its own error if a few of them make most of it.

    The relative variance of the estimate is 2 / (n - 1) for normal deviations, which Student's t
    allows for, and by (kurtosis - 3) / n more for others.
    """
    n = len(errors)
    total = math.fsum(error * error for error in errors)
    if total < _EQUAL:
        return 0.0
    kurtosis = n * math.fsum((error * error / total) ** 2 for error in errors)
    return total / (n - 1) * (1 + max(0.0, kurtosis - 3) / n)


def _quantile(confidence: float, degrees: int) -> float:
    from scipy import stats

    return float(stats.t.ppf((1 + confidence) / 2, degrees))


def _check(name: str, values: Mapping[str, float]) -> None:
    check_mapping(name, values)
    for query, value in values.items():
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not is_number or not abs(value) <= _LARGEST:  # also True for NaN
            problem = f"must be a finite number up to {_LARGEST:g}, not {describe(value)}"
            raise InputError(f"{name}[{query!r}]: {problem}")
