"""Prints how often the statistics of `tune` err, by simulation.

Per-query values with a known truth are given to the functions that the command uses; only the
measure is replaced by these values. Each function that is listed in ``PARTS`` prints a table. With
another source tree first on ``PYTHONPATH``, the same script prints what an earlier version does.

Targets, each with two standard errors of the simulation: a scorer without a gain is adopted in 5 %
at most; intervals cover the truth in 93 % or more. Exits with 1 if one is missed.

    python benchmarks/simulated.py
    python benchmarks/simulated.py --parts duplicates looks --simulations 1000
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from secondpass import Candidate, InputError
from secondpass_evaluation import Evaluation, make_suite
from secondpass_evaluation.significance import difference
from secondpass_evaluation.tuning import tuning as choosing
from secondpass_evaluation.tuning.result import Tuning, Variant
from secondpass_evaluation.tuning.trials import Attempt
from secondpass_evaluation.tuning.tuning import check_arguments

BASE = 0.5
"""Value of the first stage on each query, unless a part draws it."""
MOST_ADOPTED, LEAST_COVERED = 0.05, 0.93
SETTINGS = {"smallest_gain": 0.01, "seed": 0}


def share(count: float, total: int) -> str:
    """A share with its standard error."""
    if not total:
        return "-"
    p = count / total
    return f"{p:.1%} ± {math.sqrt(p * (1 - p) / total):.1%}"


def target(count: float, total: int, bound: float, *, at_least: bool = False) -> str:
    """Whether a share is within its bound and two standard errors."""
    slack = 2 * math.sqrt(bound * (1 - bound) / max(1, total))
    met = count / total >= bound - slack if at_least else count / total <= bound + slack
    return "met" if met else "MISSED"


def table(title: str, *heads: str) -> None:
    """Print the head of a table."""
    print(f"\n## {title}\n\n| {' | '.join(heads)} |\n| --- {'| ---: ' * (len(heads) - 1)}|")


def row(*values: object) -> bool:
    """Print a row; whether it misses no target."""
    print(f"| {' | '.join(map(str, values))} |", flush=True)
    return "MISSED" not in values


def _values(run: Mapping[str, Any], _qrels: object, measures: Sequence[str]) -> Evaluation:
    """The values of a run, instead of a measure of it."""
    values = {query: scores["value"] for query, scores in run.items()}
    return Evaluation({measures[0]: values}, {measures[0]: float(np.mean([*values.values()]))})


choosing.evaluate = _values  # type: ignore[assignment]


def tuned(gains: Any, base: Any, texts: Sequence[int], resamples: int) -> Tuning | None:
    """The choice among variants with these gains (variants x queries); None: refused.

    Args:
        gains: over the first stage.
        base: values of the first stage.
        texts: of each query, a number that stands for its text.
        resamples: of the test of signs.
    """
    choosing.RESAMPLES = resamples
    queries = {f"q{number}": f"text {text}" for number, text in enumerate(texts)}
    lists = {"q0": [Candidate("x", "d")]}
    suite = make_suite("s", queries, {query: {"d": 1} for query in queries}, candidates=lists)
    limits: dict[str, Any] = {"depths": None, "latency": None, "cost": None}
    try:
        check_arguments(suite, **limits, **SETTINGS)  # type: ignore[arg-type]
    except InputError:
        return None
    before = dict(zip(queries, map(float, base), strict=True))
    variants = [
        Variant(
            number,
            None,
            {},
            {
                query: {"value": before[query] + gain}
                for query, gain in zip(queries, each, strict=True)
            },
            (0.1,),
            0.0,
        )
        for number, each in enumerate(gains)
    ]
    observed = SimpleNamespace(suite=suite, stage="given")
    attempts = [Attempt("null", variants=variants)]
    return choosing.choose(observed, before, attempts, "nDCG@10", SETTINGS)  # type: ignore[arg-type]


def adoptions(
    options: argparse.Namespace,
    title: str,
    draw: Callable[[Any], tuple[Any, Any, Sequence[int]]],
    truth: float,
) -> Iterator[str]:
    """Cells: share of adoptions, share of intervals that contain the true mean gain, targets.

    Args:
        options: of the command.
        title: of the row, on which the draws depend.
        draw: draws the arguments of :func:`tuned`.
        truth: the true mean gain.
    """
    adopted = covered = known = 0
    for number in range(options.simulations):
        rng = np.random.default_rng([options.seed, *title.encode(), number])
        tuning = tuned(*draw(rng), options.resamples)
        if tuning is None:
            yield from ("refused", "-", "-")
            return
        adopted += tuning.adopted is not None
        held = tuning.trials[0].held
        known += 1
        covered += held.low is not None and held.low <= truth <= held.high
    yield share(adopted, known)
    yield share(covered, known)
    targets = (
        target(adopted, known, MOST_ADOPTED),
        target(covered, known, LEAST_COVERED, at_least=True),
    )
    yield "MISSED" if "MISSED" in targets else "met"


def duplicates(options: argparse.Namespace) -> Iterator[bool]:
    """Tuning with a null scorer whose queries are repeated."""
    heads = ("distinct x times", "adopted", "covered", "targets")
    table("tune: a null scorer, queries repeated", *heads)
    for count, times in ((40, 1), (20, 2), (10, 4), (40, 2), (40, 5), (60, 3)):

        def draw(rng: Any, count: int = count, times: int = times) -> Any:
            gains = np.tile(rng.normal(0, 0.15, (1, count)), times)
            return gains, np.full(count * times, BASE), [*range(count)] * times

        title = f"{count} x {times}"
        yield row(title, *adoptions(options, title, draw, 0.0))


SKEWS = ((0.07, 0.5, -0.015), (0.05, 0.4, 0.0), (0.03, 0.5, 0.0), (0.1, 0.3, 0.0), (0.02, 0.5, 0.0))
"""Share of queries with a loss, the loss, and the mean gain; the other queries win equally."""


def skew(options: argparse.Namespace) -> Iterator[bool]:
    """Tuning with scorers that win a little often and lose much rarely."""
    heads = ("losses, loss, mean", "queries", "adopted", "covered", "targets")
    table("tune: skewed scorers without a gain", *heads)
    for rare, loss, mean in SKEWS:
        for count in (20, 30, 40, 80, 150):

            def draw(rng: Any, count: int = count, case: Any = (rare, loss, mean)) -> Any:
                rare, loss, mean = case
                win = (mean + rare * loss) / (1 - rare)
                gains = np.where(rng.random((1, count)) < rare, -loss, win)
                return gains, np.full(count, BASE), range(count)

            title = f"{rare:.0%}, {loss}, {mean}"
            yield row(title, count, *adoptions(options, f"{title} {count}", draw, mean))


def looks(options: argparse.Namespace) -> Iterator[bool]:
    """Tuning again and again, with more queries each time."""
    heads = ("first stage", "adopted after 1", "2", "6", "target")
    table("tune: six looks at a growing suite, null", *heads)
    for base in (0.2, 0.5, 0.8):
        adopted = np.zeros(6)
        for number in range(options.simulations):
            rng = np.random.default_rng([options.seed, 2, number])
            gains = rng.normal(0, 0.15, (1, 240))
            values = rng.uniform(0, 2 * base, 240) if base <= 0.5 else rng.uniform(0.6, 1, 240)
            found = False
            for look, count in enumerate((40, 80, 120, 160, 200, 240)):
                tuning = tuned(gains[:, :count], values[:count], range(count), options.resamples)
                found = found or (tuning is not None and tuning.adopted is not None)
                adopted[look] += found
        shares = [share(adopted[look], options.simulations) for look in (0, 1, 5)]
        yield row(base, *shares, target(adopted[5], options.simulations, MOST_ADOPTED))


def power(options: argparse.Namespace) -> Iterator[bool]:
    """How often a gain is adopted, how much too high it is then, and whether `eval` disagrees."""
    heads = ("gain", "queries", "adopted", "printed / true", "of these not significant in eval")
    table("tune: a true gain, five variants, deviation .15", *heads)
    for gain in (0.03, 0.05, 0.08):
        for count in (40, 80, 160):
            printed, contradicted = [], 0
            for number in range(options.simulations):
                rng = np.random.default_rng([options.seed, 3, number])
                common = rng.normal(gain, 0.13, count)
                gains = common + rng.normal(0, 0.075, (5, count))
                tuning = tuned(gains, np.full(count, BASE), range(count), options.resamples)
                if tuning is None or tuning.adopted is None or tuning.gain is None:
                    continue
                printed.append(tuning.gain.mean)
                best = gains[int(gains.mean(axis=1).argmax())]
                names = [str(each) for each in range(count)]
                found = difference(
                    "nDCG@10",
                    dict(zip(names, map(float, best), strict=True)),
                    dict.fromkeys(names, 0.0),
                    resamples=options.resamples,
                )
                contradicted += (found.p or 0.0) >= 0.05
            ratio = f"{np.mean(printed) / gain:.2f}" if printed else "-"
            adopted = share(len(printed), options.simulations)
            yield row(gain, count, adopted, ratio, f"{contradicted} of {len(printed)}")


PARTS = (duplicates, skew, looks, power)


def main() -> None:
    """Print the tables; exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = [part.__name__ for part in PARTS]
    parser.add_argument("--parts", nargs="+", choices=names, default=names, help="tables to print")
    parser.add_argument("--simulations", type=int, default=300, help="of each cell")
    parser.add_argument("--resamples", type=int, default=499, help="of the test of signs")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn")
    options = parser.parse_args()
    met = [all([*part(options)]) for part in PARTS if part.__name__ in options.parts]
    sys.exit(not all(met))


if __name__ == "__main__":
    main()
