"""Tests whether scores, moves, candidates or errors of rankings changed between two periods.

Each ranking counts as one observation, because the candidates of one query depend on each other.
Rankings of the same query depend on each other, too: with queries that are repeated, samples count
as smaller ones (see :func:`~secondpass.monitoring.sketches.design_effect`).
Distributions of statistics are compared by the two-sample test of Kolmogorov and Smirnov, shares
of rankings by Fisher's exact test. Both are computed on binned values or counts, where the former
is conservative (Conover, "A Kolmogorov goodness-of-fit test for discontinuous distributions",
JASA 67, 1972); its p is exact for periods of up to 500 rankings, and asymptotic beyond. p-values
are corrected by Holm's procedure (see :mod:`secondpass_evaluation.significance`), so the chance of
any false alarm in one comparison is at most ``alpha``, if the queries of both periods are drawn
independently from the same ones. scipy computes the tests.

Tests are made for each statistic and method (``candidates.*`` but ``.scored``: for all methods
together) with at least 20 values in both periods and more than one bin; and for each status, issue,
method and kind of score that some rankings have and others do not. Which tests are made depends on
both periods together alone, so it does not favour a result.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from secondpass import InputError
from secondpass.attributes import unchangeable
from secondpass.monitoring import (
    STATISTICS,
    DayCounts,
    DayKey,
    Days,
    Repeats,
    Sketch,
    design_effect,
)
from secondpass.settings import counted
from secondpass.settings.arguments import explained
from secondpass_evaluation.errors import check_mapping
from secondpass_evaluation.significance import holm

FEWEST = 20
"""Fewest rankings of a period, or of a method in it, to compare; repetitions do not count."""

EQUAL_SCORES = "score equal for all candidates"
"""The property of rankings whose method gives all candidates one score."""

_EXACT_UP_TO = 500
"""Most rankings of a period for which the exact distribution of the test is computed."""


class Period:
    """The rankings of a period.

    Attributes:
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


@unchangeable
@dataclass(frozen=True, slots=True)
class DriftChange:
    """One comparison of the two periods.

    Attributes:
        method: the method whose rankings are compared; None for all.
        name: a statistic (:data:`~secondpass.monitoring.STATISTICS`), or the property that a share
            of rankings has, such as ``status partial`` or ``issue deadline``.
        before, after: medians of the statistic, or shares of rankings, 0 to 1.
        effect: largest distance of the two distribution functions, or difference of the shares,
            0 to 1.
        p: p-value, corrected for the number of comparisons.
        is_share: whether shares are compared.
        alarm: whether p is at most ``alpha`` and the effect at least the smallest that counts.
    """

    method: str | None
    name: str
    before: float
    after: float
    effect: float
    p: float
    is_share: bool = False
    alarm: bool = False

    @property
    def description(self) -> str:
        """The statistic or share in words."""
        if self.is_share:
            return f"share of rankings with the {self.name}"
        stage, _, what = self.name.partition(".")
        return STATISTICS.get(self.name, f"{what} score of stage {stage.removeprefix('stage')}")

    @property
    def subject(self) -> str:
        """One of ``scores``, ``moves``, ``candidates``, ``methods`` and ``faults``."""
        if not self.is_share:
            group = self.name.partition(".")[0]
            return {"moves": "moves", "candidates": "candidates"}.get(group, "scores")
        if self.name == "status skipped":
            return "methods"
        what = self.name.partition(" ")[0]
        return {"score": "scores", "method": "methods"}.get(what, "faults")


def repetition(before: Period, after: Period, method: str | None = None) -> float:
    """How many rankings of a method, or of all, count as one, as queries are repeated; 1 or more.

    Both periods must have rankings of the method.
    """
    if method is None:
        rankings_before, rankings_after = before.rankings, after.rankings
    else:
        rankings_before, rankings_after = before.methods[method], after.methods[method]
    return design_effect(
        before.repeats[method], rankings_before, after.repeats[method], rankings_after
    )


def counted_once(rankings: int, each: float) -> int:
    """The number that rankings count as, if so many of them count as one."""
    return math.floor(rankings / each + 1e-9)


def share_tests(before: Period, after: Period) -> Iterator[DriftChange]:
    """Tests of the shares of rankings with a property; not of one that all rankings have."""
    each = repetition(before, after)
    totals = before.rankings, after.rankings
    for name in sorted({*before.shares, *after.shares}):
        counts = before.shares.get(name, 0), after.shares.get(name, 0)
        yield from _share_test(None, name, counts, totals, each)
    # Rankings with one score for all candidates: a few hardly move the distributions of the scores.
    for method in sorted(before.methods.keys() & after.methods.keys()):
        first, second = _score_deviations(before, method), _score_deviations(after, method)
        each = repetition(before, after, method)
        if counted_once(min(first.count, second.count), each) >= FEWEST:
            counts, totals = (first.bins[0], second.bins[0]), (first.count, second.count)
            yield from _share_test(method, EQUAL_SCORES, counts, totals, each)


def _score_deviations(period: Period, method: str) -> Sketch:
    return period.sketches.get(method, {}).get("rerank.deviation", Sketch())


def _share_test(
    method: str | None,
    name: str,
    counts: tuple[int, int],
    totals: tuple[int, int],
    each: float,
) -> Iterator[DriftChange]:
    """The test of a share, where so many rankings count as one; none if all or none has it."""
    # Decided by both periods together, so that leaving tests out does not bias the others.
    if sum(counts) in {0, sum(totals)}:
        return
    from scipy import stats

    first, second = (count / total for count, total in zip(counts, totals, strict=True))
    sizes = [counted_once(total, each) for total in totals]
    scaled = _scaled(counts, totals, sizes)
    table = [scaled, [size - count for count, size in zip(scaled, sizes, strict=True)]]
    p = min(1.0, float(stats.fisher_exact(table).pvalue))
    yield DriftChange(method, name, first, second, abs(second - first), p, is_share=True)


def shift_tests(before: Period, after: Period) -> Iterator[DriftChange]:
    """Tests of the statistics of each method that has enough rankings in both periods."""
    for method in sorted(before.sketches.keys() & after.sketches.keys(), key=str):
        sketches = before.sketches[method], after.sketches[method]
        each = repetition(before, after, method)
        for name in sorted(sketches[0].keys() & sketches[1].keys()):
            first, second = sketches[0][name], sketches[1][name]
            enough = counted_once(min(first.count, second.count), each) >= FEWEST
            if enough and len(first.bins.keys() | second.bins.keys()) > 1:
                distance, p = _kolmogorov_smirnov(first, second, each)
                medians = first.quantile(0.5), second.quantile(0.5)
                yield DriftChange(method, name, *medians, distance, p)


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

    So many rankings count as one.
    """
    from scipy import stats

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
        return effect, min(1.0, float(stats.kstwo.sf(effect, round(size))))
    scaled = _scaled(widest, counts, sizes)
    if sizes[0] == sizes[1]:
        scaled = [abs(scaled[0] - scaled[1]), 0]
    return effect, _exact_p(sizes, (scaled[0], scaled[1]))


@lru_cache(maxsize=10_000)
def _exact_p(counts: tuple[int, int], below: tuple[int, int]) -> float:
    """The exact p-value for samples of two distinct values, ``below`` of which are the lower one.

    It depends only on the sizes and the distance, so these samples stand for all others with the
    same distance.
    """
    from scipy import stats

    samples = [
        [0] * lower + [1] * (count - lower) for count, lower in zip(counts, below, strict=True)
    ]
    with warnings.catch_warnings():
        # scipy warns and returns the asymptotic p if the exact computation fails by rounding.
        warnings.simplefilter("ignore", RuntimeWarning)
        result: Any = stats.ks_2samp(*samples, method="exact")
    return min(1.0, float(result.pvalue))


ALPHA = 0.01
SMALLEST_SHIFT = 0.1
"""Smallest distance of distribution functions for an alarm. With many rankings, unimportant
differences are significant, too."""
SMALLEST_SHARE = 0.01
"""Smallest difference of shares of rankings for an alarm."""


@unchangeable
@dataclass(frozen=True, slots=True)
class Drift:
    """The comparison of two periods.

    Attributes:
        before, after: number of rankings.
        alpha: highest chance of any false alarm.
        changes: all comparisons, alarms first, then by p and effect.
        notes: differences known without a test, such as another version of secondpass; how often
            queries are repeated; and methods with too few rankings to compare.
    """

    before: int
    after: int
    alpha: float
    changes: tuple[DriftChange, ...]
    notes: tuple[str, ...]

    @property
    def alarms(self) -> tuple[DriftChange, ...]:
        """The changes that are alarms."""
        return tuple(change for change in self.changes if change.alarm)

    def __repr__(self) -> str:
        rankings = f"{counted(self.before, 'ranking')} before, {self.after:,} after"
        compared = counted(len(self.changes), "comparison")
        return f"<Drift {rankings}: {counted(len(self.alarms), 'alarm')} in {compared}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        record = asdict(self)
        record["changes"] = [asdict(change) for change in self.changes]
        return {**record, "alarms": len(self.alarms), "notes": list(self.notes)}


@explained()
def drift(
    before: Days,
    after: Days,
    *,
    alpha: float = ALPHA,
) -> Drift:
    """Compare two periods.

    Args:
        before: the first period; see :func:`~secondpass.monitoring.read_days`.
        after: the second period.
        alpha: highest chance of any false alarm, above 0 and below 1.

    Raises:
        InputError: a period has fewer than 20 rankings, or its rankings count as fewer because
            they repeat queries; or an argument is out of range.
    """
    if not 0 < alpha < 1:
        raise InputError(f"alpha: must lie between 0 and 1, not {alpha}")
    check_mapping("before", before)
    check_mapping("after", after)
    totals = Period(before), Period(after)
    named = [*zip(("before", "after"), totals, strict=True)]
    needed = f"at least {FEWEST} are needed to compare"
    for name, total in named:
        if total.rankings < FEWEST:
            raise InputError(f"{name}: {counted(total.rankings, 'ranking')}; {needed}")
    each = repetition(*totals)
    for name, total in named:
        if (count := counted_once(total.rankings, each)) < FEWEST:
            what = f"{total.rankings:,} rankings repeat few queries, and count as {count}"
            raise InputError(f"{name}: {what}; {needed}")
    tests = [*share_tests(*totals), *shift_tests(*totals)]
    corrected = holm([test.p for test in tests])
    changes = []
    for test, p in zip(tests, corrected, strict=True):
        smallest = SMALLEST_SHARE if test.is_share else SMALLEST_SHIFT
        alarm = p is not None and p <= alpha and test.effect >= smallest
        changes.append(replace(test, p=p or 0.0, alarm=alarm))
    changes.sort(key=lambda change: (not change.alarm, change.p, -change.effect))
    return Drift(
        totals[0].rankings, totals[1].rankings, alpha, tuple(changes), tuple(_notes(*totals, each))
    )


def _listed(values: Iterable[str]) -> str:
    return ", ".join(sorted(values)) or "none"


def _notes(before: Period, after: Period, each: float) -> Iterator[str]:
    if each > 1:
        once_before = counted_once(before.rankings, each)
        once_after = counted_once(after.rankings, each)
        yield (
            f"the same queries are ranked repeatedly: the {before.rankings:,} rankings before and "
            f"{after.rankings:,} after count as about {once_before:,} and {once_after:,}"
        )
    for what, read in (
        ("version of secondpass", lambda key: key.version),
        ("reranker", lambda key: key.reranker),
        ("engine", lambda key: key.engine),
        ("score kind", lambda key: key.kind),
    ):
        values_before, values_after = before.values(read), after.values(read)
        if values_before != values_after:
            yield f"{what}: {_listed(values_before)} before, {_listed(values_after)} after"
    for method in sorted({*before.methods, *after.methods} - {"none"}):
        counts = before.methods.get(method, 0), after.methods.get(method, 0)
        if min(counts) < FEWEST:
            rankings = counted(counts[0], "ranking")
            yield (
                f"{method}: {rankings} before, {counts[1]:,} after; its scores are "
                f"compared only if both periods have at least {FEWEST} rankings"
            )
