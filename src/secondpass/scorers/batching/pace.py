"""Estimates how long batches of pairs take."""

from __future__ import annotations

from collections.abc import Sequence

_WEIGHT = 0.3
"""Of the last batch, in the moving average."""


class TokenPace:
    """A running rate of batches of pairs, in tokens with padding.

    Attributes:
        seconds_per_token: an exponential moving average; None before the first batch.
    """

    def __init__(self) -> None:
        self.seconds_per_token: float | None = None

    def learn(self, lengths: Sequence[int], seconds: float) -> None:
        """Update the rate with a batch that took ``seconds``, unless it took no time.

        Its ``lengths`` are the tokens of each pair, 0 for one that takes no time.
        """
        size = _padded(lengths)
        if size and seconds > 0:
            rate = seconds / size
            known = rate if self.seconds_per_token is None else self.seconds_per_token
            self.seconds_per_token = known + _WEIGHT * (rate - known)


def _padded(lengths: Sequence[int]) -> int:
    """The tokens of a batch with padding; pairs of length 0 take no time."""
    timed = [length for length in lengths if length]
    return max(timed) * len(timed) if timed else 0
