"""Tests by betting whether the mean regret of a gate is at most a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from secondpass.errors import InputError
from secondpass.formats.errors import check_numbers
from secondpass.settings import describe

if TYPE_CHECKING:
    import numpy as np

_STAKES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the largest possible bet."""


def fewest_queries(max_regret: float = 0.01, confidence: float = 0.95, sequences: int = 2) -> int:
    """The smallest number of queries with which a gate without any regret is accepted.

    Args:
        max_regret: as for :func:`~secondpass.evaluation.learn_gate`.
        confidence: as for :func:`~secondpass.evaluation.learn_gate`.
        sequences: number of sequences of thresholds that are tested, 1 or more.

    Raises:
        InputError: an argument is out of range.
    """
    check_shares(max_regret=max_regret, confidence=confidence)
    check_numbers(sequences=(sequences, 1))
    needed = math.log(sequences / (1 - confidence))
    gains = [math.log1p(_bet(share, max_regret) * max_regret) for share in _STAKES]
    low, high = 0, math.ceil(2 * (needed + math.log(len(_STAKES))) / max_regret) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _log_mean_exp([middle * gain for gain in gains]) >= needed:
            high = middle
        else:
            low = middle
    return high


def evidence(regrets: np.ndarray[Any, Any], max_regret: float) -> float:
    """The capital of a gambler who bets against the hypothesis that the mean regret is larger.

    Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", Journal of
    the Royal Statistical Society B, 2024: under the hypothesis the expected capital is at most the
    stake of 1, so by Markov's inequality it reaches k with a probability of at most 1 / k. The
    stake is split equally over four fixed bets. The order of the queries has no effect.

    Args:
        regrets: one per query, at most 1.
        max_regret: above 0 and below 1.
    """
    import numpy as np

    with np.errstate(divide="ignore"):  # the capital of a bet of everything may be 0
        logs = [
            float(np.log1p(np.maximum(_bet(share, max_regret) * (max_regret - regrets), -1)).sum())
            for share in _STAKES
        ]
    return math.exp(min(700.0, _log_mean_exp(logs)))


def _bet(share: float, max_regret: float) -> float:
    """The bet on each query, for a share of the largest, with which a regret of 1 loses all."""
    return share / (1 - max_regret)


def _log_mean_exp(logs: Sequence[float]) -> float:
    highest = max(logs)
    if highest == -math.inf:
        return -math.inf
    return highest + math.log(math.fsum(math.exp(x - highest) for x in logs) / len(logs))


def check_shares(**shares: float) -> None:
    """Check that arguments lie between 0 and 1.

    Raises:
        InputError: one does not.
    """
    for name, value in shares.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise InputError(f"{name}: must lie between 0 and 1, not {describe(value)}")
