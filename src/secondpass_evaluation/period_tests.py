"""Tests that compare the rankings of two periods; their p-values are not corrected."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from secondpass.monitoring.ranking_days import DayCounts, DayKey
from secondpass.monitoring.repeats import Repeats, design_effect
from secondpass.monitoring.sketches import Sketch

FEWEST = 20
"""Fewest rankings of a period, or of a method in it, to compare; repetitions do not count."""

EQUAL_SCORES = "score equal for all candidates"
"""The property of rankings whose method gives all candidates one score."""

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
        repeats: method, and None for all -> how often queries are repeated.
    """

    def __init__(self, days: Mapping[DayKey, DayCounts]) -> None:
        self.days = days
        self.rankings = sum(counts.rankings for counts in days.values())
        self.methods: Counter[str] = Counter()
        self.sketches: dict[str | None, dict[str, Sketch]] = {}
        self.shares: Counter[str] = Counter()
        self.repeats: dict[str | None, Repeats] = {}
        for key, counts in days.items():
            method = key.method or "none"
            self.methods[method] += counts.rankings
            self._count("method", {method: counts.rankings})
            self._count("score kind", {key.kind or "none": counts.rankings})
            self._count("status", counts.statuses)
            self._count("issue", counts.issues)
            for group in (None, method):
                self.repeats.setdefault(group, Repeats()).merge(counts.repeats)
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


def repetition(before: Period, after: Period, method: str | None = None) -> float:
    """How many rankings of a method, or of all, count as one, as queries are repeated; 1 or more.

    Both periods must have rankings of the method.
    """
    counts = [
        period.rankings if method is None else period.methods[method] for period in (before, after)
    ]
    return design_effect(before.repeats[method], counts[0], after.repeats[method], counts[1])


def counted_once(rankings: int, each: float) -> int:
    """The number that rankings count as, if so many of them count as one."""
    return math.floor(rankings / each + 1e-9)


def share_tests(before: Period, after: Period) -> Iterator[PeriodTest]:
    """Tests of the shares of rankings with a property; not of one that all rankings have."""
    each = repetition(before, after)
    totals = before.rankings, after.rankings
    for name in sorted({*before.shares, *after.shares}):
        counts = before.shares.get(name, 0), after.shares.get(name, 0)
        yield from _share_test(None, name, counts, totals, each)
    yield from _equal_score_tests(before, after)


def _equal_score_tests(before: Period, after: Period) -> Iterator[PeriodTest]:
    """Tests of the share of each method's rankings in which all candidates have one score.

    A few such rankings hardly move the distributions of the scores.
    """
    for method in sorted(before.methods.keys() & after.methods.keys()):
        sketches = [
            period.sketches.get(method, {}).get("rerank.deviation") for period in (before, after)
        ]
        first, second = (sketch or Sketch() for sketch in sketches)
        each = repetition(before, after, method)
        if counted_once(min(first.count, second.count), each) < FEWEST:
            continue
        counts, totals = (first.bins[0], second.bins[0]), (first.count, second.count)
        yield from _share_test(method, EQUAL_SCORES, counts, totals, each)


def _share_test(
    method: str | None,
    name: str,
    counts: tuple[int, int],
    totals: tuple[int, int],
    each: float,
) -> Iterator[PeriodTest]:
    """The test of a share; none if all rankings have the property, or none has it.

    Args:
        method: whose rankings are counted; None: all.
        name: of the property.
        counts: rankings before and after that have it.
        totals: rankings before and after.
        each: how many rankings count as one.
    """
    # Decided by both periods together, so that leaving tests out does not bias the others.
    if sum(counts) in {0, sum(totals)}:
        return
    first, second = (count / total for count, total in zip(counts, totals, strict=True))
    sizes = [counted_once(total, each) for total in totals]
    scaled = _scaled(counts, totals, sizes)
    table = [scaled, [size - count for count, size in zip(scaled, sizes, strict=True)]]
    p = min(1.0, float(_scipy_stats().fisher_exact(table).pvalue))
    yield PeriodTest(method, name, first, second, abs(second - first), p, is_share=True)


def shift_tests(before: Period, after: Period) -> Iterator[PeriodTest]:
    """Tests of the statistics of each method that has enough rankings in both periods."""
    for method in sorted(before.sketches.keys() & after.sketches.keys(), key=str):
        sketches = before.sketches[method], after.sketches[method]
        each = repetition(before, after, method)
        for name in sorted(sketches[0].keys() & sketches[1].keys()):
            first, second = sketches[0][name], sketches[1][name]
            if counted_once(min(first.count, second.count), each) < FEWEST:
                continue
            if len(first.bins.keys() | second.bins.keys()) < 2:
                continue
            distance, p = _kolmogorov_smirnov(first, second, each)
            yield PeriodTest(
                method,
                name,
                first.quantile(0.5),
                second.quantile(0.5),
                distance,
                p,
                is_share=False,
            )


def _scaled(counts: Sequence[int], totals: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Counts of samples of other sizes with the same shares, rounded towards each other."""
    exact = [
        round(count * size / total, 9)
        for count, total, size in zip(counts, totals, sizes, strict=True)
    ]
    falls = counts[0] * totals[1] > counts[1] * totals[0]
    first, second = (math.floor, math.ceil) if falls else (math.ceil, math.floor)
    scaled = [first(exact[0]), second(exact[1])]
    if (scaled[0] * sizes[1] > scaled[1] * sizes[0]) != falls:  # rounded past each other
        scaled[1] = round(scaled[0] * sizes[1] / sizes[0])
    return scaled


def _kolmogorov_smirnov(first: Sketch, second: Sketch, each: float) -> tuple[float, float]:
    """The largest distance of the distribution functions, and its p-value.

    Args:
        first: the first sample.
        second: the second sample.
        each: how many rankings count as one.
    """
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
    sizes = counted_once(counts[0], each), counted_once(counts[1], each)
    if max(sizes) > _EXACT_UP_TO:
        size = sizes[0] * sizes[1] / sum(sizes)
        return effect, min(1.0, float(_scipy_stats().kstwo.sf(effect, round(size))))
    scaled = _scaled(widest, counts, sizes)
    if sizes[0] == sizes[1]:
        scaled = [abs(scaled[0] - scaled[1]), 0]
    return effect, _exact_p(sizes, (scaled[0], scaled[1]))


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
    from scipy import stats

    return stats
