"""Simulated queries, and judges of known errors, for ``benchmarks/simulated.py``.

A judge of known errors gives values of all queries, a person those of some. With one relevant
passage a query, most differences are 0 and the others are large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Pair = tuple[Values, Values]
"""Values by the person and by the judge, shape (queries,)."""

CUTOFF, DEPTH = 10, 100
LARGE = 0.3
"""Gains above this are those that a blind judge misses."""


@dataclass(frozen=True)
class Cell:
    """One distribution of queries.

    Attributes:
        name: what the queries and the judge are like.
        draw: a number of queries -> their values.
        has_target: whether it has to be covered. What a person's few queries do not show, such as
            large gains that a judge misses in half of the cases or more, is in no interval.
    """

    name: str
    draw: Callable[[np.random.Generator, int], Pair]
    has_target: bool = True


def one_relevant(
    change: float, right: float, first: float = 0.4, blind: float = 0.0, gain: bool = True
) -> Callable[[np.random.Generator, int], Pair]:
    """nDCG@10 of queries with one relevant passage each, or its gain by a reranker.

    Args:
        change: share of the queries in which the reranker moves the relevant passage.
        right: share of the queries in which the judge finds it; else it takes another one.
        first: share of the queries in which the first stage has it first.
        blind: share of the large gains that the judge sees as no difference.
        gain: the gain; else the value of the reranker.
    """

    def ranks(rng: np.random.Generator, count: int, share: float) -> Values:
        places = np.floor(np.exp(rng.random(count) * np.log(DEPTH + 1)))
        return np.where(rng.random(count) < share, 1, places)

    def ndcg(places: Values) -> Values:
        return np.where(places <= CUTOFF, 1 / np.log2(1 + places), 0.0)

    def moved(rng: np.random.Generator, count: int, share: float, top: float) -> Pair:
        before = ranks(rng, count, first)
        after = np.where(rng.random(count) < share, ranks(rng, count, top), before)
        return ndcg(after), ndcg(after) - ndcg(before)

    def draw(rng: np.random.Generator, count: int) -> Pair:
        true = moved(rng, count, change, min(1.0, first + 0.1))[gain]
        other = moved(rng, count, max(change, 0.3), first)[gain]
        judged = np.where(rng.random(count) < right, true, other)
        missed = (true > LARGE) & (rng.random(count) < blind)
        return true, np.where(missed, 0.0, judged)

    return draw


def graded(noise: float, gain: bool = True) -> Callable[[np.random.Generator, int], Pair]:
    """nDCG@10 of pools of 20 passages of grades 0 to 3, or its gain by a better reranker.

    Args:
        noise: standard deviation of the judge's grades, before they are rounded.
        gain: the gain; else the value of the reranker.
    """
    discounts = 1 / np.log2(np.arange(2, CUTOFF + 2))

    def ndcg(grades: Values, order: NDArray[np.int64]) -> Values:
        best = (-np.sort(-grades, axis=1)[:, :CUTOFF] * discounts).sum(axis=1)
        achieved = (np.take_along_axis(grades, order[:, :CUTOFF], 1) * discounts).sum(axis=1)
        return np.divide(achieved, best, out=np.zeros_like(best), where=best > 0)

    def draw(rng: np.random.Generator, count: int) -> Pair:
        true = rng.choice(4, p=[0.5, 0.25, 0.15, 0.1], size=(count, 20)).astype(float)
        judged = np.clip(np.round(true + rng.normal(0, noise, true.shape)), 0, 3)
        after, before = (np.argsort(-(true + rng.normal(0, s, true.shape)), 1) for s in (1.5, 2))
        values = [ndcg(grades, after) - gain * ndcg(grades, before) for grades in (true, judged)]
        return values[0], values[1]

    return draw


def cells() -> list[Cell]:
    """The distributions, each as a gain and as a value."""
    found = []
    for gain, what in ((True, "gain"), (False, "value")):
        for change in (0.5, 0.2, 0.1):
            for right in (1.0, 0.9, 0.7):
                name = f"one relevant, {what}: {change:.0%} moved, judge right in {right:.0%}"
                found.append(Cell(name, one_relevant(change, right, gain=gain)))
        for right in (1.0, 0.9):
            name = f"one relevant, {what}: 80% first already, judge right in {right:.0%}"
            found.append(Cell(name, one_relevant(0.2, right, first=0.8, gain=gain)))
        for noise in (0.5, 1.0):
            found.append(Cell(f"graded, {what}: judge's noise {noise:g}", graded(noise, gain)))
    for blind in (0.25, 0.5, 0.8):
        name = f"one relevant, gain: judge misses {blind:.0%} of the large gains"
        found.append(Cell(name, one_relevant(0.3, 0.95, blind=blind), blind < 0.5))
    return found
