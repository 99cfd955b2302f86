"""Queries that have the same text, and counts of how often they are repeated.

A query that is ranked twice is ranked alike, so the second ranking is no further evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

BINS = 2048
"""Bins of :class:`Repeats`: a query shares its bin with one of 2,048, so that identifies none."""

_SMALLEST = 1.1
"""Smallest design effect: below, it may be an error, whose standard deviation is 3 %."""


def query_key(text: str) -> str:
    """The text without differences of case and white space: equal for repetitions of a query."""
    return " ".join(text.split()).casefold()


def query_hash(text: str) -> int:
    """A hash of a query, below 2**64: equal for its repetitions, in every process."""
    digest = blake2b(query_key(text).encode(errors="surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


class Repeats:
    """How often the queries of rankings are repeated, as counts by bin of their hash.

    Half of the queries count as -1, so that the squares of the bins add up to the squares of the
    queries' numbers of rankings, on average (Alon, Matias and Szegedy, "The space complexity of
    approximating the frequency moments", STOC 1996). Counts of parts are added to those of the
    whole without a loss.

    Attributes:
        bins: sum of +1 and -1 by bin, without zeros.
    """

    __slots__ = ("bins",)

    def __init__(self, bins: Mapping[int, int] | None = None) -> None:
        self.bins: Counter[int] = Counter(bins)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Repeats) and self.to_pairs() == other.to_pairs()

    __hash__ = None  # type: ignore[assignment]

    def add(self, query: int) -> None:
        """Count a ranking of the query with this :func:`query_hash`."""
        self.bins[query % BINS] += 1 if query // BINS % 2 else -1

    def merge(self, other: Repeats) -> None:
        """Add the rankings of another."""
        for number, count in other.bins.items():
            self.bins[number] += count

    def to_pairs(self) -> list[list[int]]:
        """Pairs of bin and count, in the order of the bins."""
        return [[number, self.bins[number]] for number in sorted(self.bins) if self.bins[number]]

    @classmethod
    def from_pairs(cls, pairs: Iterable[Any]) -> Repeats:
        """The counts of :meth:`to_pairs`.

        Raises:
            ValueError: these are no such pairs.
        """
        bins: dict[int, int] = {}
        for pair in pairs:
            number, count = pair
            if type(number) is not int or type(count) is not int or not count:
                raise ValueError("a bin and its count must be integers, the count not 0")
            if not 0 <= number < BINS or number in bins:
                raise ValueError(f"{number} is no bin, or is there twice")
            bins[number] = count
        return cls(bins)


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
