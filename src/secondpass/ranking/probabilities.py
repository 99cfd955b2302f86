"""Rerank scores as probabilities of relevance."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

from secondpass.errors import ConfigurationError, Problem
from secondpass.ranking.blending import sigmoid
from secondpass.ranking.floors import FIT, Fit
from secondpass.settings import configurable

if TYPE_CHECKING:
    from annotated_types import Ge, Le, MinLen


@configurable
@dataclass(frozen=True)
class Probabilities:
    """A mapping of rerank scores to probabilities of relevance that keeps their order.

    Either ``slope`` and ``intercept``, for ``1 / (1 + exp(-(slope * score + intercept)))`` (Platt,
    "Probabilistic outputs for support vector machines and comparisons to regularized likelihood
    methods", Advances in Large Margin Classifiers, 1999); or ``scores`` and ``values``, which are
    interpolated linearly (isotonic regression: Zadrozny and Elkan, "Transforming classifier scores
    into accurate multiclass probability estimates", KDD 2002).

    Attributes:
        slope: of the logistic function, per unit of score.
        intercept: the logit of the probability at score 0.
        scores: strictly increasing.
        values: the probabilities at these scores, nondecreasing; the first and the last also apply
            beyond the scores.
        fitted: what it was fitted on.
    """

    slope: Annotated[float, Ge(0)] | None = None
    intercept: float | None = None
    scores: Annotated[Sequence[float], MinLen(1)] | None = None
    values: Annotated[Sequence[Annotated[float, Ge(0), Le(1)]], MinLen(1)] | None = None
    fitted: Annotated[Fit | None, FIT] = None

    def __post_init__(self) -> None:
        platt = self.slope is not None, self.intercept is not None
        steps = self.scores is not None, self.values is not None
        if any(platt) == any(steps) or any(platt) != all(platt) or any(steps) != all(steps):
            message = "slope and intercept, or scores and values: give one of them"
            raise ConfigurationError(message)
        if self.scores is None or self.values is None:
            return
        if len(self.scores) != len(self.values):
            message = "must have one number for each score, as fitted"
            raise ConfigurationError([Problem(("values",), message)])
        if any(a >= b for a, b in pairwise(self.scores)):
            raise ConfigurationError([Problem(("scores",), "must rise: fitted for rising scores")])
        if any(a > b for a, b in pairwise(self.values)):
            message = "must not fall: fitted for rising scores"
            raise ConfigurationError([Problem(("values",), message)])

    def of(self, score: float) -> float:
        """The probability, 0 to 1, of a finite rerank score."""
        if self.slope is not None and self.intercept is not None:
            return sigmoid(min(max(self.slope * score + self.intercept, -1e300), 1e300))
        scores, values = self.scores or (), self.values or ()
        place = bisect_right(scores, score)
        if place == 0 or place == len(scores):
            return values[max(place - 1, 0)]
        low, high = scores[place - 1], scores[place]
        share = (score / 2 - low / 2) / (high / 2 - low / 2)
        between = values[place - 1] + share * (values[place] - values[place - 1])
        return min(max(between, values[place - 1]), values[place])
