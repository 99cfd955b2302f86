"""How much of a list can be scored before a deadline."""

from __future__ import annotations

from collections.abc import Sequence

_SHARE = 0.9
"""Of the time left, for several batches; the rest is for what the estimate misses."""

_WEIGHT = 0.4
"""Of the last batch in the running rate."""

_OVERHEAD = 40
"""Of a text, in characters: special tokens, and what does not depend on the length."""

_TOKEN_WEIGHT = 0.3
"""Of the last batch in the running rate of tokens."""


class Pace:
    """A running rate of batches of texts, in seconds per character with padding.

    Args:
        batch_size: texts in a batch.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._rate: float | None = None

    def fitting(self, lengths: Sequence[int], seconds: float) -> int:
        """How many of the first texts can be scored in that time, in batches sorted by length.

        Args:
            lengths: characters of each text, 0 for one that takes no time.
            seconds: until the deadline.

        Returns:
            at most ``len(lengths)``; 1 while nothing is known, and 0 if there is no time.
        """
        if seconds <= 0:
            return 0
        if self._rate is None:
            return min(1, len(lengths))
        low, high = 0, len(lengths)
        while low < high:
            middle = (low + high + 1) // 2
            if self._seconds(lengths[:middle]) <= seconds * _SHARE:
                low = middle
            else:
                high = middle - 1
        return low

    def learn(self, lengths: Sequence[int], seconds: float) -> None:
        """Take a batch into the rate.

        Args:
            lengths: of its texts, as of :meth:`fitting`.
            seconds: that it took.
        """
        size = self._padded(lengths)
        if size:
            rate = seconds / size
            known = rate if self._rate is None else self._rate
            self._rate = known + _WEIGHT * (rate - known)

    def _seconds(self, lengths: Sequence[int]) -> float:
        ordered = sorted(length for length in lengths if length)
        batches = range(0, len(ordered), self._batch_size)
        size = sum(self._padded(ordered[start : start + self._batch_size]) for start in batches)
        return size * (self._rate or 0.0)

    def _padded(self, lengths: Sequence[int]) -> int:
        timed = [length for length in lengths if length]
        return (max(timed) + _OVERHEAD) * len(timed) if timed else 0


class TokenPace:
    """A running rate of batches of pairs, in tokens with padding.

    Attributes:
        seconds_per_token: None while nothing is known.
    """

    def __init__(self) -> None:
        self.seconds_per_token: float | None = None

    def learn(self, lengths: Sequence[int], seconds: float) -> None:
        """Take a batch into the rate.

        Args:
            lengths: tokens of each pair, 0 for one that takes no time.
            seconds: that it took.
        """
        size = _tokens(lengths)
        if size:
            rate = seconds / size
            known = rate if self.seconds_per_token is None else self.seconds_per_token
            self.seconds_per_token = known + _TOKEN_WEIGHT * (rate - known)

    def seconds(self, batches: Sequence[Sequence[int]]) -> float:
        """How long batches of these lengths take, one after the other."""
        return sum(map(_tokens, batches)) * (self.seconds_per_token or 0.0)


def _tokens(lengths: Sequence[int]) -> int:
    """Tokens of a batch with padding."""
    timed = [length for length in lengths if length]
    return max(timed) * len(timed) if timed else 0
