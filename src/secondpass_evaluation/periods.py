"""Tests whether scores, moves, candidates or errors of rankings changed between two periods.

Each ranking counts as one observation, because the candidates of one query depend on each other.
Rankings of the same query depend on each other, too: with queries that are repeated, samples count
as smaller ones (see :func:`~secondpass.monitoring.repeats.design_effect`).
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

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from secondpass.errors import InputError
from secondpass.monitoring.ranking_days import Days
from secondpass.monitoring.ranking_statistics import STATISTICS
from secondpass_evaluation.period_tests import (
    FEWEST,
    Period,
    counted_once,
    repetition,
    share_tests,
    shift_tests,
)
from secondpass_evaluation.significance import holm

ALPHA = 0.01
SMALLEST_SHIFT = 0.1
SMALLEST_SHARE = 0.01


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
    is_share: bool
    alarm: bool

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        record = asdict(self)
        record["changes"] = [asdict(change) for change in self.changes]
        return {**record, "alarms": len(self.alarms), "notes": list(self.notes)}


def drift(
    before: Days,
    after: Days,
    *,
    alpha: float = ALPHA,
    smallest_shift: float = SMALLEST_SHIFT,
    smallest_share: float = SMALLEST_SHARE,
) -> Drift:
    """Compare two periods.

    Args:
        before: the first period; see :func:`~secondpass.monitoring.read_days`.
        after: the second period.
        alpha: highest chance of any false alarm, above 0 and below 1.
        smallest_shift: smallest distance of distribution functions for an alarm, 0 to 1. With many
            rankings, unimportant differences are significant, too.
        smallest_share: smallest difference of shares of rankings for an alarm, 0 to 1.

    Raises:
        InputError: a period has fewer than 20 rankings, or its rankings count as fewer because
            they repeat queries; or an argument is out of range.
    """
    if not 0 < alpha < 1:
        raise InputError(f"alpha: must lie between 0 and 1, not {alpha}")
    for name, value in (("smallest_shift", smallest_shift), ("smallest_share", smallest_share)):
        if not 0 <= value <= 1:
            raise InputError(f"{name}: must be 0 to 1, not {value}")
    totals = Period(before), Period(after)
    for name, total in zip(("before", "after"), totals, strict=True):
        if total.rankings < FEWEST:
            noun = "ranking" if total.rankings == 1 else "rankings"
            raise InputError(
                f"{name}: {total.rankings} {noun}; at least {FEWEST} are needed to compare"
            )
    each = repetition(*totals)
    for name, total in zip(("before", "after"), totals, strict=True):
        if (count := counted_once(total.rankings, each)) < FEWEST:
            raise InputError(
                f"{name}: {total.rankings:,} rankings repeat few queries, and count as {count}; at "
                f"least {FEWEST} are needed to compare"
            )
    tests = [*share_tests(*totals), *shift_tests(*totals)]
    corrected = holm([test.p for test in tests])
    changes = []
    for test, p in zip(tests, corrected, strict=True):
        smallest = smallest_share if test.is_share else smallest_shift
        alarm = p is not None and p <= alpha and test.effect >= smallest
        changes.append(
            DriftChange(
                test.method,
                test.name,
                test.before,
                test.after,
                test.effect,
                p or 0.0,
                test.is_share,
                alarm,
            )
        )
    changes.sort(key=lambda change: (not change.alarm, change.p, -change.effect))
    return Drift(
        totals[0].rankings, totals[1].rankings, alpha, tuple(changes), tuple(_notes(*totals, each))
    )


def _notes(before: Period, after: Period, each: float) -> Iterator[str]:
    if each > 1:
        sizes = [counted_once(period.rankings, each) for period in (before, after)]
        yield (
            f"the same queries are ranked repeatedly: the {before.rankings:,} rankings before and "
            f"{after.rankings:,} after count as about {sizes[0]:,} and {sizes[1]:,}"
        )
    for what, read in (
        ("version of secondpass", lambda key: key.version),
        ("reranker", lambda key: key.reranker),
        ("engine", lambda key: key.engine),
        ("score kind", lambda key: key.kind),
    ):
        values = before.values(read), after.values(read)
        if values[0] != values[1]:
            texts = [", ".join(sorted(each)) or "none" for each in values]
            yield f"{what}: {texts[0]} before, {texts[1]} after"
    for method in sorted({*before.methods, *after.methods} - {"none"}):
        counts = before.methods.get(method, 0), after.methods.get(method, 0)
        if min(counts) < FEWEST:
            yield (
                f"{method}: {counts[0]:,} rankings before, {counts[1]:,} after; the scores of a "
                f"method are compared from {FEWEST} rankings of each period on"
            )
