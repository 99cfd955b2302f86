"""Thresholds that keep a stated share of relevant candidates, with finite-sample bounds.

Per query: conformal risk control (Angelopoulos, Bates, Fisch, Lei and Schuster, "Conformal risk
control", ICLR 2024). The loss of a query is the share of its relevant candidates below the
threshold. If the n queries and a new one are exchangeable, the threshold chosen here has an
expected loss of at most ``1 - keep`` on the new one, and if scores have no ties of at least
``1 - keep - 2 / (n + 1)``.

Per document: split conformal prediction (Vovk, Gammerman and Shafer, "Algorithmic learning in a
random world", Springer, 2005). If the n relevant candidates and a new one are exchangeable, the new
one is at or above the threshold with a probability of at least ``keep``, and if scores have no ties
of at most ``keep + 1 / (n + 1)``. Candidates of one query are not exchangeable with those of
others, so this holds only if each candidate has a different query.

Both expectations are also over the draw of the calibration data, not conditional on it.

One score a query: a tolerance limit (Wilks, "Determination of sample sizes for setting tolerance
limits", Annals of Mathematical Statistics 12, 1941) keeps the share with a stated confidence, over
the draw of the calibration data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context
from typing import TYPE_CHECKING

from secondpass.ranking.floors import Per

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float64]

_DIGITS = 9
"""Significant digits: those of single precision."""
_ROUNDING = 1e-9
"""Bound of the rounding error of a sum of shares."""


def threshold(relevant: Sequence[Scores], keep: float, per: Per) -> float | None:
    """The highest threshold that keeps the stated share of relevant candidates; None: too few."""
    scores, lost = _losses(relevant, per)
    count = len(relevant) if per == "query" else len(scores)
    # (n R + 1) / (n + 1) <= 1 - keep; per document, that is the k-th smallest score.
    allowed = (1 - keep) * (count + 1) - 1 + _ROUNDING
    return None if allowed < 0 else float(scores[lost <= allowed][-1])


def share_kept(relevant: Sequence[Scores], floor: float, per: Per) -> float:
    """The share of relevant candidates at or above a threshold: mean over queries, or over all."""
    shares = [float((scores >= floor).mean()) for scores in relevant]
    weights = [1 if per == "query" else len(scores) for scores in relevant]
    total = math.fsum(share * weight for share, weight in zip(shares, weights, strict=True))
    return total / sum(weights)


def fewest(keep: float) -> int:
    """The smallest number of queries, or documents, for which there is a threshold."""
    return max(1, math.ceil(1 / (1 - keep) - 1 - _ROUNDING))


def tolerance_rank(keep: float, count: int, confidence: float) -> int:
    """The highest rank, from the lowest of ``count`` scores, that a share of new scores reaches.

    With this confidence the share of new scores at or above it is ``keep`` or more; 0: no rank.
    """
    import numpy as np
    from scipy import stats

    # The probability that up to so many scores are among the lowest.
    below = stats.binom.cdf(np.arange(count), count, 1 - keep)
    return int((below <= 1 - confidence + _ROUNDING).sum())


def highest_share(keep: float, count: int, per: Per) -> float:
    """The upper bound of the share that is kept, if scores have no ties."""
    return min(1.0, keep + (2 if per == "query" else 1) / (count + 1))


def fewest_within(slack: float, per: Per) -> int:
    """The fewest queries or documents with which the upper bound is at most ``keep + slack``."""
    return math.ceil(round((2 if per == "query" else 1) / slack, 6)) - 1


def rounded_down(value: float) -> float:
    """A float of nine significant digits that is not above the value."""
    context = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
    return float(context.create_decimal_from_float(value))


def _losses(relevant: Sequence[Scores], per: Per) -> tuple[Scores, Scores]:
    """Scores in ascending order, and the loss of a threshold at each, in queries or documents."""
    import numpy as np

    scores = np.concatenate([*relevant])
    shares = [1 / len(item) if per == "query" else 1.0 for item in relevant for _ in item]
    order = np.argsort(scores, kind="stable")
    scores = scores[order]
    sums = np.concatenate([[0.0], np.cumsum(np.array(shares)[order])])
    return scores, sums[np.searchsorted(scores, scores, side="left")]
