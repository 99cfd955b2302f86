"""What a call of a scorer takes, learned from its last calls: a constant, and a rate per pair."""

from __future__ import annotations

import math

_OUTLIER = 4
"""A call counts as at most so many times as slow as those before: its thread may have waited."""
_MOST_RAISED = 2.0
"""By how much one call that was cut off raises the times of all."""
_MEMORY = 0.9
"""Weight of the calls before in the averages, per call."""
_LONG_MEMORY = 0.98
"""Weight of the averages before in the line through them, per call."""
_EQUAL = 1e-4
"""Lengths are equal if their variance is less than this share of their mean square."""


class Cost:
    """The seconds of a call: a constant, and a rate for each of its pairs.

    The line through the averages of the last calls, by least squares, says how many pairs the
    constant is worth. Single calls would not do: a scorer may let calls wait for each other, and a
    short one that waits for long ones looks like one with a large constant. As long as all lengths
    are equal, that number is not known, and remains as it was; at first it is 0.

    Args:
        firsts: number of first calls that may have waited for a model to load. They are forgotten
            once another one is much faster.
        has_constant: whether there is a constant at all.

    Attributes:
        constant: seconds of a call, whatever its length.
        rate: seconds that each pair adds.
        mean: seconds of a call, on average.
        together: number of calls that ran when one began, with it, on average. A scorer may let
            calls wait for each other, so more of them may take as many times as long.
        has_line: whether calls had different lengths, so that their constant is known.
    """

    def __init__(self, firsts: int, *, has_constant: bool = True) -> None:
        self.constant = self.rate = self.mean = 0.0
        self.together = 1.0
        self.has_line = False
        self._firsts = firsts
        self._has_constant = has_constant
        self._worth = 0.0  # of the constant, in pairs
        self._raised = 1.0  # by calls that were cut off, since one ended
        self._forget()

    def _forget(self) -> None:
        self._calls = self._pairs = self._seconds = self._together = 0.0
        self._sums: tuple[float, ...] = (0.0,) * 6

    @property
    def length(self) -> float:
        """Pairs of a call, on average."""
        return self._pairs / self._calls if self._calls else 0.0

    @property
    def is_known(self) -> bool:
        """Whether a call has ended."""
        return bool(self._calls)

    def seconds(self, pairs: float) -> float:
        """How long a call takes."""
        return self.constant + pairs * self.rate

    def pairs(self, seconds: float) -> float:
        """How many pairs a call has that takes so long; below 0 if the constant is longer."""
        left = seconds - self.constant
        return left / self.rate if self.rate else math.copysign(math.inf, left)

    def pairs_of_constant(self, share: float) -> float:
        """How many pairs take this share of the constant."""
        return share * self._worth

    def learn(self, pairs: int, seconds: float, together: int = 1) -> None:
        """Count a call that has ended; no effect without pairs, or if it took no time.

        ``together`` is the number of calls that ran when it began, with it.
        """
        if not pairs or seconds <= 0:
            return
        if self._raised > 1:
            if seconds * _OUTLIER < self.seconds(pairs):  # what delayed those calls is over
                self._multiply(1 / self._raised)
            self._raised = 1.0
        shortest = longest = self.seconds(pairs)  # that such a call took before
        if self._has_constant:  # it is not known if all calls had other lengths
            shortest, longest = min(shortest, self.mean), max(longest, self.mean)
        self._firsts -= 1
        if self._firsts >= 0 and shortest > seconds * _OUTLIER:
            self._forget()  # the calls before have waited for a model to load
        elif self.is_known:
            seconds = min(seconds, longest * _OUTLIER)
        self._calls = self._calls * _MEMORY + 1
        self._pairs = self._pairs * _MEMORY + pairs
        self._seconds = self._seconds * _MEMORY + seconds
        self._together = self._together * _MEMORY + together
        self.together = self._together / self._calls
        self.mean = self._seconds / self._calls
        if self._has_constant:
            self._learn_worth(self._pairs / self._calls, self.mean)
        self.rate = self._seconds / (self._pairs + self._worth * self._calls)
        self.constant = self._worth * self.rate if self.rate else self.mean

    def learn_cut_off(self, pairs: int, seconds: float) -> None:
        """Count a call that had not ended after these seconds; no effect without pairs.

        As nothing else is known of it, it is expected to take twice as long. The line has no such
        points: calls that are all cut off at the same time, whatever their length, look like calls
        of constant time. All times are raised instead, by half of what is missing (on a logarithmic
        scale), because this call may have been an exception. So calls shrink until one is in time.
        If that one is much faster than expected, the times are those of before again.
        """
        if not pairs or seconds <= 0:
            return
        if not self.is_known:
            self.learn(pairs, 2 * seconds)
            return
        factor = min(_MOST_RAISED, math.sqrt(max(1.0, 2 * seconds / self.seconds(pairs))))
        self._raised *= factor
        self._multiply(factor)

    def _multiply(self, factor: float) -> None:
        """Multiply all times."""
        self._seconds *= factor
        self.mean *= factor
        self.rate *= factor
        self.constant *= factor
        weight, x, y, xx, xy, yy = self._sums
        self._sums = weight, x, y * factor, xx, xy * factor, yy * factor**2

    def _learn_worth(self, pairs: float, seconds: float) -> None:
        """Learn what the constant is worth from averages of pairs and seconds.

        The more the line misses them, the more of the constant may be chance, and is left out.
        """
        added = (1.0, pairs, seconds, pairs * pairs, pairs * seconds, seconds * seconds)
        self._sums = tuple(
            before * _LONG_MEMORY + value for before, value in zip(self._sums, added, strict=True)
        )
        weight = self._sums[0]
        # The means of pairs (x), seconds (y), and their products.
        x, y, xx, xy, yy = (value / weight for value in self._sums[1:])
        variance, covariance = xx - x * x, xy - x * y
        self.has_line = variance >= _EQUAL * xx
        if not self.has_line:
            return
        rate = covariance / variance
        share = min(1.0, max(0.0, 1 - rate * x / y))  # of the constant in the mean
        if share:
            # Averages of successive calls have most calls in common.
            independent = weight * (1 - _MEMORY) / (1 + _MEMORY)
            missed = max(0.0, yy - y * y - rate * covariance)
            # The variance of the constant, relative to y: subtracted, so that a share that may be
            # chance shrinks.
            error = missed * xx / (variance * independent * y * y)
            share = max(0.0, share - error / share)
        # The constant takes `share` of the seconds of a call with x pairs, and these the rest.
        self._worth = math.inf if share == 1 else share / (1 - share) * x
