"""A mergeable sketch of a distribution of numbers, and counts of repeated queries.

Counts in bins whose width is a fixed share of the value, after Masson, Rim and Lee, "DDSketch: a
fast and fully-mergeable quantile sketch with relative-error guarantees", PVLDB 12, 2019. Sketches
of parts are added to that of the whole without a loss. A query that is ranked twice is ranked
alike, so the second ranking is no further evidence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from secondpass.settings import counted

ERROR = 0.005
"""Maximum relative error of a value that is read from a sketch."""

SMALLEST, LARGEST = 1e-9, 1e9
"""Smaller absolute values count as 0, larger ones as the largest."""

_BASE = (1 + ERROR) / (1 - ERROR)
_PER_UNIT = 1 / math.log(_BASE)
# With a half, 1 is in the middle of a bin: many scores are 1 except for a rounding error.
_OFFSET = 1.5 - math.floor(math.log(SMALLEST) * _PER_UNIT)
MOST_BINS = 2 * math.floor(math.log(LARGEST) * _PER_UNIT + _OFFSET) + 1
"""Maximum number of bins of a sketch."""


class BinCounts:
    """Counts by bin, which are added to those of another without a loss.

    Subclasses say which bins there are, and whether counts may be negative, for what is read from a
    file.

    Attributes:
        bins: count by bin.
    """

    __slots__ = ("bins",)
    _BINS: ClassVar[range]
    _SIGNED: ClassVar[bool]

    def __init__(self, bins: Mapping[int, int] | None = None) -> None:
        self.bins: Counter[int] = Counter(bins)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.to_pairs() == other.to_pairs()

    __hash__ = None  # type: ignore[assignment]

    def merge(self, other: Self) -> None:
        self.bins.update(other.bins)

    def to_pairs(self) -> list[list[int]]:
        """Pairs of bin and count, in the order of the bins."""
        return [[number, self.bins[number]] for number in sorted(self.bins) if self.bins[number]]

    @classmethod
    def from_pairs(cls, pairs: Iterable[Any]) -> Self:
        """The counts of :meth:`to_pairs`."""
        bins: dict[int, int] = {}
        for pair in pairs:
            number, count = pair
            are_integers = type(number) is int and type(count) is int
            if not are_integers or count == 0 or (count < 0 and not cls._SIGNED):
                least = "not 0" if cls._SIGNED else "at least 1"
                raise ValueError(f"a bin and its count must be integers, the count {least}")
            if number not in cls._BINS or number in bins:
                raise ValueError(f"{number} is no bin, or is there twice")
            bins[number] = count
        return cls(bins)


class Sketch(BinCounts):
    """Counts of numbers by bin.

    Bins are numbered in the order of the values: 0 has those about 0, and -i the negatives of i.

    Attributes:
        bins: number of values by bin.
    """

    __slots__ = ()
    _BINS = range(-(MOST_BINS // 2), MOST_BINS // 2 + 1)
    _SIGNED = False

    def __repr__(self) -> str:
        return f"<Sketch of {counted(self.count, 'value')} in {counted(len(self.bins), 'bin')}>"

    @property
    def count(self) -> int:
        return self.bins.total()

    def add(self, value: float) -> None:
        """Add a value; one that is not finite is not counted."""
        if math.isfinite(value):
            self.bins[bin_of(value)] += 1

    def quantile(self, share: float) -> float:
        """The value below which this share of the values lies, 0 to 1; NaN without values.

        Its relative error is at most :data:`ERROR`, for absolute values from :data:`SMALLEST` to
        :data:`LARGEST`.
        """
        rank = share * (self.count - 1)
        seen = 0
        for number in sorted(self.bins):
            seen += self.bins[number]
            if seen > rank:
                return value_of(number)
        return math.nan


def bin_of(value: float) -> int:
    size = abs(value)
    if size < SMALLEST:
        return 0
    number = math.floor(math.log(min(size, LARGEST)) * _PER_UNIT + _OFFSET)
    return number if value > 0 else -number


def value_of(number: int) -> float:
    """The value that a bin stands for: within :data:`ERROR` of all that are in it."""
    if not number:
        return 0.0
    lower: float = _BASE ** (abs(number) - _OFFSET)
    return math.copysign(lower * (1 + ERROR), number)


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
    _BINS = range(BINS)
    _SIGNED = True

    def add(self, query: int) -> None:
        """Count a ranking of the query with this ``query_hash``."""
        self.bins[query % BINS] += 1 if query // BINS % 2 else -1


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
