"""Measures the coverage of corrected intervals where few queries differ, on simulated queries.

    python benchmarks/statistics_judging.py
    python benchmarks/statistics_judging.py --simulations 500 --seed 1

Every simulation draws new queries from a known distribution. A judge of known errors gives values
of all of them, a person those of some; ``corrected_mean`` estimates the mean of the distribution,
by a 95 % interval. With one relevant passage a query, most differences are 0 and the others are
large. Targets: every cell covers 93 % or more, less two standard errors of the simulation. A judge
that misses half of the large gains and more has none: what a person's few queries do not show is in
no interval. Exits with 1 if a target is missed. To compare two versions, run it with another
``PYTHONPATH``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secondpass.errors import InputError
from secondpass_evaluation import corrected_mean

Values = NDArray[np.float64]
Pair = tuple[Values, Values]
"""Values by the person and by the judge, shape (queries,)."""

CUTOFF, DEPTH, TARGET = 10, 100, 0.93
LARGE = 0.3
"""Gains above this are those that a blind judge misses."""


@dataclass(frozen=True)
class Cell:
    """One distribution of queries.

    Attributes:
        name: what the queries and the judge are like.
        draw: a number of queries -> their values.
        has_target: whether it has to be covered.
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


def row(cell: Cell, queries: int, people: int, simulations: int, seed: int) -> tuple[str, bool]:
    """A line of the table, and whether its target is met."""
    rng = np.random.default_rng(seed)
    drawn = cell.draw(rng, 200_000)[0]
    truth = float(drawn.mean())
    outcomes = []
    for _ in range(simulations):
        person, judge = cell.draw(rng, queries)
        model = {str(number): float(value) for number, value in enumerate(judge)}
        asked = {str(number): float(value) for number, value in enumerate(person[:people])}
        try:
            found = corrected_mean("m", model, asked)
        except InputError:  # all values are equal
            continue
        outcomes.append(
            (
                found.low <= truth <= found.high,
                found.people_low <= truth <= found.people_high,
                found.high - found.low,
                found.people_high - found.people_low,
            )
        )
    covered, alone, width, width_alone = np.mean(np.array(outcomes, float), axis=0)
    error = math.sqrt(TARGET * (1 - TARGET) / len(outcomes))
    met = bool(covered >= TARGET - 2 * error) or not cell.has_target
    verdict = "no target" if not cell.has_target else "met" if met else "MISSED"
    refused = 1 - len(outcomes) / simulations
    return (
        f"| {cell.name} | {queries} | {people} | {covered:.3f} | {alone:.3f} | {width:.3f} "
        f"| {width_alone:.3f} | {refused:.1%} | {verdict} |"
    ), met


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--simulations", type=int, default=2000, help="of each cell")
    parser.add_argument("--seed", type=int, default=0, help="of the simulations")
    options = parser.parse_args()
    print(
        "| queries and judge | queries | of a person | corrected covers | person alone covers "
        "| width, corrected | width, person alone | refused | target |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    )
    all_met = True
    for cell in cells():
        for queries, people in ((200, 20), (400, 40)):
            line, met = row(cell, queries, people, options.simulations, options.seed)
            print(line, flush=True)
            all_met &= met
    sys.exit(not all_met)


if __name__ == "__main__":
    main()
