"""Tests that compare the rankings of two periods; their p-values are not corrected."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from secondpass.errors import MissingExtraError
from secondpass.monitoring.ranking_days import DayCounts, DayKey
from secondpass.monitoring.sketches import Sketch

FEWEST = 20
"""Fewest rankings of a period, or of a method in it, to compare."""

_EXACT_UP_TO = 500
"""Most rankings of a period for which the exact distribution of the test is computed."""


class Period:
    """The rankings of a period.

    Attributes:
        days: as read from a monitor.
        rankings: number of rankings.
        methods: method -> number of rankings.
        sketches: method -> statistic -> sketch; the method None has the statistics of candidates.
        shares: property, such as ``status partial`` -> number of rankings that have it.
    """

    def __init__(self, days: Mapping[DayKey, DayCounts]) -> None:
        self.days = days
        self.rankings = sum(counts.rankings for counts in days.values())
        self.methods: Counter[str] = Counter()
        self.sketches: dict[str | None, dict[str, Sketch]] = {}
        self.shares: Counter[str] = Counter()
        for key, counts in days.items():
            method = key.method or "none"
            self.methods[method] += counts.rankings
            self._count("method", {method: counts.rankings})
            self._count("score kind", {key.kind or "none": counts.rankings})
            self._count("status", counts.statuses)
            self._count("issue", counts.issues)
            for name, sketch in counts.sketches.items():
                # The candidates that were retrieved do not depend on the method.
                is_retrieved = name.startswith("candidates.") and name != "candidates.scored"
                sketches = self.sketches.setdefault(None if is_retrieved else method, {})
                sketches.setdefault(name, Sketch()).merge(sketch)

    def _count(self, kind: str, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self.shares[f"{kind} {name}"] += count

    def values(self, read: Callable[[DayKey], str | None]) -> set[str]:
        """The values that ``read`` returns for the keys, without None."""
        return {value for key in self.days if (value := read(key)) is not None}


@dataclass(frozen=True, slots=True)
class PeriodTest:
    """The result of one test; fields as of :class:`~secondpass_evaluation.DriftChange`.

    ``p`` is not corrected for the number of tests.
    """

    method: str | None
    name: str
    before: float
    after: float
    effect: float
    p: float
    is_share: bool


def share_tests(before: Period, after: Period) -> Iterator[PeriodTest]:
    """Tests of the shares of rankings with a property; not of one that all rankings have."""
    stats = _scipy_stats()
    for name in sorted({*before.shares, *after.shares}):
        counts = [before.shares.get(name, 0), after.shares.get(name, 0)]
        totals = [before.rankings, after.rankings]
        # Decided by both periods together, so that leaving tests out does not bias the others.
        if sum(counts) == sum(totals):
            continue
        table = [counts, [total - count for count, total in zip(counts, totals, strict=True)]]
        p = min(1.0, float(stats.fisher_exact(table).pvalue))
        first, second = (count / total for count, total in zip(counts, totals, strict=True))
        yield PeriodTest(None, name, first, second, abs(second - first), p, is_share=True)


def shift_tests(before: Period, after: Period) -> Iterator[PeriodTest]:
    """Tests of the statistics of each method that has enough rankings in both periods."""
    for method in sorted(before.sketches.keys() & after.sketches.keys(), key=str):
        sketches = before.sketches[method], after.sketches[method]
        for name in sorted(sketches[0].keys() & sketches[1].keys()):
            first, second = sketches[0][name], sketches[1][name]
            if min(first.count, second.count) < FEWEST:
                continue
            if len(first.bins.keys() | second.bins.keys()) < 2:
                continue
            distance, p = _kolmogorov_smirnov(first, second)
            yield PeriodTest(
                method,
                name,
                first.quantile(0.5),
                second.quantile(0.5),
                distance,
                p,
                is_share=False,
            )


def _kolmogorov_smirnov(first: Sketch, second: Sketch) -> tuple[float, float]:
    """The largest distance of the distribution functions, and its p-value."""
    counts = first.count, second.count
    below = [0, 0]
    widest = 0, 0
    largest = 0
    for number in sorted(first.bins.keys() | second.bins.keys()):
        below[0] += first.bins[number]
        below[1] += second.bins[number]
        # In integers, so that equal distances are equal.
        distance = abs(below[0] * counts[1] - below[1] * counts[0])
        if distance > largest:
            largest, widest = distance, (below[0], below[1])
    effect = largest / (counts[0] * counts[1])
    if max(counts) > _EXACT_UP_TO:
        size = counts[0] * counts[1] / sum(counts)
        return effect, min(1.0, float(_scipy_stats().kstwo.sf(effect, round(size))))
    if counts[0] == counts[1]:
        widest = abs(widest[0] - widest[1]), 0
    return effect, _exact_p(counts, widest)


@lru_cache(maxsize=10_000)
def _exact_p(counts: tuple[int, int], below: tuple[int, int]) -> float:
    """The exact p-value for samples of two distinct values.

    It depends only on the sizes and the distance, so these samples stand for all others with the
    same distance.

    Args:
        counts: sizes of the samples.
        below: number of lower values in each sample.
    """
    samples = [
        [0] * lower + [1] * (count - lower) for count, lower in zip(counts, below, strict=True)
    ]
    with warnings.catch_warnings():
        # scipy warns and returns the asymptotic p if the exact computation fails by rounding.
        warnings.simplefilter("ignore", RuntimeWarning)
        result: Any = _scipy_stats().ks_2samp(*samples, method="exact")
    return min(1.0, float(result.pvalue))


def _scipy_stats() -> Any:
    try:
        from scipy import stats
    except ImportError:
        raise MissingExtraError("evaluation", "the comparison of two periods") from None
    return stats
