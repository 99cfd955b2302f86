"""Estimates how much of a list can be scored before a deadline."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

_SHARE = 0.9
"""Share of the time left that several batches may take; the rest is for errors of the estimate."""

_OVERHEAD = 40
"""Characters added to each text, for special tokens and other costs that are constant."""


def most(count: int, seconds: Callable[[int], float], limit: float) -> int:
    """The largest number of items, up to ``count``, that take at most ``limit`` seconds.

    Args:
        count: number of items.
        seconds: returns how long the first n items take; nondecreasing in n.
        limit: seconds.
    """
    return bisect_right(range(1, count + 1), limit, key=seconds)


class _Rate:
    """An exponential moving average, in seconds per unit of padded size.

    Args:
        weight: of the last batch, 0 to 1.

    Attributes:
        value: the rate; None before the first batch.
    """

    def __init__(self, weight: float) -> None:
        self._weight = weight
        self.value: float | None = None

    def learn(self, size: int, seconds: float) -> None:
        """Update the rate with a batch, unless it has no size or took no time."""
        if size and seconds > 0:
            rate = seconds / size
            known = rate if self.value is None else self.value
            self.value = known + self._weight * (rate - known)


class Pace:
    """A running rate of batches of texts, in seconds per character with padding.

    Args:
        batch_size: texts in a batch.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._rate = _Rate(0.4)

    def fitting(self, lengths: Sequence[int], seconds: float) -> int:
        """How many of the first texts can be scored in that time, in batches sorted by length.

        Args:
            lengths: characters of each text, 0 for one that takes no time.
            seconds: until the deadline.

        Returns:
            0 to ``len(lengths)``; 1 before the first batch, and 0 if there is no time.
        """
        if seconds <= 0:
            return 0
        if self._rate.value is None:
            return min(1, len(lengths))
        return most(len(lengths), lambda count: self._seconds(lengths[:count]), seconds * _SHARE)

    def learn(self, lengths: Sequence[int], seconds: float) -> None:
        """Update the rate with a batch.

        Args:
            lengths: of its texts, as of :meth:`fitting`.
            seconds: that it took.
        """
        self._rate.learn(_padded(lengths, _OVERHEAD), seconds)

    def _seconds(self, lengths: Sequence[int]) -> float:
        ordered = sorted(length for length in lengths if length)
        batches = range(0, len(ordered), self._batch_size)
        size = sum(
            _padded(ordered[start : start + self._batch_size], _OVERHEAD) for start in batches
        )
        return size * (self._rate.value or 0.0)


class TokenPace:
    """A running rate of batches of pairs, in tokens with padding."""

    def __init__(self) -> None:
        self._rate = _Rate(0.3)

    @property
    def seconds_per_token(self) -> float | None:
        """The rate; None before the first batch."""
        return self._rate.value

    def learn(self, lengths: Sequence[int], seconds: float) -> None:
        """Update the rate with a batch.

        Args:
            lengths: tokens of each pair, 0 for one that takes no time.
            seconds: that it took.
        """
        self._rate.learn(_padded(lengths), seconds)

    def seconds(self, batches: Sequence[Sequence[int]]) -> float:
        """How long batches of these lengths take, one after the other."""
        return sum(map(_padded, batches)) * (self.seconds_per_token or 0.0)


def _padded(lengths: Sequence[int], overhead: int = 0) -> int:
    """The size of a batch with padding; texts of length 0 take no time."""
    timed = [length for length in lengths if length]
    return (max(timed) + overhead) * len(timed) if timed else 0
