"""Counts of how often queries are repeated.

A query that is ranked twice is ranked alike, so the second ranking is no further evidence.
"""

from __future__ import annotations

from secondpass.monitoring.sketches import BinCounts

BINS = 2048
"""Bins of :class:`Repeats`: a query shares its bin with one of 2,048, so that identifies none."""

_SMALLEST = 1.1
"""Smallest design effect: below, it may be an error, whose standard deviation is 3 %."""


class Repeats(BinCounts):
    """How often the queries of rankings are repeated, as counts by bin of their hash.

    Half of the queries count as -1, so that the squares of the bins add up to the squares of the
    queries' numbers of rankings, on average (Alon, Matias and Szegedy, "The space complexity of
    approximating the frequency moments", STOC 1996). Counts of parts are added to those of the
    whole without a loss.

    Attributes:
        bins: sum of +1 and -1 by bin, without zeros.
    """

    __slots__ = ()
    _COUNTS = "not 0"

    def add(self, query: int) -> None:
        """Count a ranking of the query with this ``query_hash``."""
        self.bins[query % BINS] += 1 if query // BINS % 2 else -1

    @staticmethod
    def _is_bin(number: int) -> bool:
        return 0 <= number < BINS

    @staticmethod
    def _is_count(count: int) -> bool:
        return count != 0


def design_effect(first: Repeats, count: int, second: Repeats, other: int) -> float:
    """How many rankings count as one if two samples of rankings are compared, 1 or more.

    The difference of two shares has the variance ``p (1 - p) sum((m / count - n / other)**2)`` over
    the queries, which have m rankings in the first sample and n in the second and either all have
    the property or none. The result is that sum relative to its value for queries that are not
    repeated. So queries that are repeated equally often in both samples cost nothing.

    Args:
        first: of the first sample.
        count: its number of rankings, 1 or more.
        second: of the second sample.
        other: its number of rankings, 1 or more.
    """
    total = sum(
        (first.bins[number] / count - second.bins[number] / other) ** 2
        for number in first.bins.keys() | second.bins.keys()
    )
    effect = total / (1 / count + 1 / other)
    return effect if effect > _SMALLEST else 1.0
