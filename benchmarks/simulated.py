"""Prints how often the statistics of `tune`, `eval` and `drift` err, by simulation.

Per-query values with a known truth are given to the functions that the commands use; only the
measure is replaced by these values. Each function that is listed in ``PARTS`` prints a table. With
another source tree first on ``PYTHONPATH``, the same script prints what an earlier version does.

    python benchmarks/simulated.py
    python benchmarks/simulated.py --parts duplicates looks --simulations 1000
"""

from __future__ import annotations

import argparse
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any

import numpy as np

from secondpass import Candidate, InputError, Reranker
from secondpass.monitoring.ranking_days import DayCounts, DayKey, Days
from secondpass_evaluation import Evaluation, compare, drift, make_suite
from secondpass_evaluation.significance import difference
from secondpass_evaluation.tuning import choosing
from secondpass_evaluation.tuning.checks import check_arguments
from secondpass_evaluation.tuning.records import TuningData, Variant
from secondpass_evaluation.tuning.trials import Attempt

BASE = 0.5
"""Value of the first stage on each query, unless a part draws it."""
SETTINGS = {"confidence": 0.95, "smallest_gain": 0.01, "seed": 0}


def share(count: float, total: int) -> str:
    """A share with its standard error."""
    if not total:
        return "-"
    p = count / total
    return f"{p:.1%} ± {math.sqrt(p * (1 - p) / total):.1%}"


def table(title: str, *heads: str) -> None:
    """Print the head of a table."""
    print(f"\n## {title}\n\n| {' | '.join(heads)} |\n| --- {'| ---: ' * (len(heads) - 1)}|")


def row(*cells: object) -> None:
    """Print a row."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def _values(run: Mapping[str, Any], _qrels: object, measures: Sequence[str]) -> Evaluation:
    """The values of a run, instead of a measure of it."""
    values = {query: scores["value"] for query, scores in run.items()}
    return Evaluation({measures[0]: values}, {measures[0]: float(np.mean([*values.values()]))})


choosing.evaluate = _values  # type: ignore[assignment]


def tuned(gains: Any, base: Any, texts: Sequence[int], resamples: int) -> TuningData | None:
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
    limits: dict[str, Any] = {"depths": None, "latency": None, "latency_of": "p95", "cost": None}
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
    """Cells: share of adoptions, and share of intervals that contain the true mean gain.

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
            yield from ("refused", "-")
            return
        adopted += tuning.adopted is not None
        held = tuning.trials[0].held
        known += 1
        covered += held.low is not None and held.low <= truth <= held.high
    yield share(adopted, known)
    yield share(covered, known)


def duplicates(options: argparse.Namespace) -> None:
    """Tuning with a null scorer whose queries are repeated."""
    table("tune: a null scorer, queries repeated", "distinct x times", "adopted", "covered")
    for count, times in ((40, 1), (20, 2), (10, 4), (40, 2), (40, 5), (60, 3)):

        def draw(rng: Any, count: int = count, times: int = times) -> Any:
            gains = np.tile(rng.normal(0, 0.15, (1, count)), times)
            return gains, np.full(count * times, BASE), [*range(count)] * times

        title = f"{count} x {times}"
        row(title, *adoptions(options, title, draw, 0.0))


class _Stored:
    """Scores a passage by the number that it begins with."""

    model_name = "stored"

    def score_pairs(self, _query: str, documents: list[str]) -> list[float]:
        return [float(text.split()[0]) for text in documents]


def evaluated(options: argparse.Namespace) -> None:
    """`eval` with a null scorer whose queries are repeated."""
    table("eval: a null scorer, queries repeated", "distinct x times", "p < .05")
    for count, times in ((40, 1), (20, 2), (10, 4), (1, 40)):
        significant = 0
        simulations = max(1, options.simulations // 2)
        for number in range(simulations):
            rng = np.random.default_rng([options.seed, 1, number])
            places, scores = rng.integers(0, 2, count), rng.random((count, 2))
            names = [f"{text}.{copy}" for copy in range(times) for text in range(count)]
            texts = dict(zip(names, [*range(count)] * times, strict=True))
            suite = make_suite(
                "s",
                {name: f"text {text}" for name, text in texts.items()},
                {name: {f"d{places[text]}": 1} for name, text in texts.items()},
                candidates={
                    name: [Candidate(f"{scores[text][i]} x", f"d{i}", 1.0 - i) for i in (0, 1)]
                    for name, text in texts.items()
                },
            )
            found = compare(
                {"null": Reranker(_Stored())}, suite, measures=["nDCG@10"], progress=False
            )["given+null"].differences["nDCG@10"]
            significant += found.enough_queries and (found.p or 0.0) < 0.05
        row(f"{count} x {times}", share(significant, simulations))


SKEWS = ((0.07, 0.5, -0.015), (0.05, 0.4, 0.0), (0.03, 0.5, 0.0), (0.1, 0.3, 0.0), (0.02, 0.5, 0.0))
"""Share of queries with a loss, the loss, and the mean gain; the other queries win equally."""


def skew(options: argparse.Namespace) -> None:
    """Tuning with scorers that win a little often and lose much rarely."""
    heads = ("losses, loss, mean", "queries", "adopted", "covered")
    table("tune: skewed scorers without a gain", *heads)
    for rare, loss, mean in SKEWS:
        for count in (20, 30, 40, 80, 150):

            def draw(rng: Any, count: int = count, case: Any = (rare, loss, mean)) -> Any:
                rare, loss, mean = case
                win = (mean + rare * loss) / (1 - rare)
                gains = np.where(rng.random((1, count)) < rare, -loss, win)
                return gains, np.full(count, BASE), range(count)

            title = f"{rare:.0%}, {loss}, {mean}"
            row(title, count, *adoptions(options, f"{title} {count}", draw, mean))


def looks(options: argparse.Namespace) -> None:
    """Tuning again and again, with more queries each time."""
    table("tune: six looks at a growing suite, null", "first stage", "adopted after 1", "2", "6")
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
        row(base, *(share(adopted[look], options.simulations) for look in (0, 1, 5)))


def power(options: argparse.Namespace) -> None:
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
            cells = (
                share(len(printed), options.simulations),
                ratio,
                f"{contradicted} of {len(printed)}",
            )
            row(gain, count, *cells)


def _hash(query: int) -> int:
    return int.from_bytes(blake2b(str(query).encode(), digest_size=8).digest(), "big")


def _days(rng: Any, queries: int, times: Any, first: int) -> Days:
    """Rankings of the queries from ``first`` on, each so many times; three statistics."""
    counts = DayCounts()
    takes_query = "query" in inspect.signature(counts.add).parameters
    numbers = np.broadcast_to(times, queries)
    for query in range(queries):
        names = ("rerank.highest", "rerank.median", "candidates.highest", "moves.correlation")
        statistics = dict(zip(names, map(float, rng.normal(4, 2, len(names))), strict=True))
        status = "partial" if rng.random() < 0.1 else "ok"
        for _ in range(numbers[query]):
            given = [_hash(first + query)] if takes_query else []
            counts.add(*given, status, [], statistics)
    return {DayKey("2026-01-01", "m", "m", "logit", "1", None): counts}


def repeated_rankings(options: argparse.Namespace) -> None:
    """Drift between periods without a change, whose questions are ranked repeatedly."""
    table("drift: no change, 200 and 200 questions", "rankings of each", "alarms")
    cases: tuple[Any, ...] = (1, 2, 5, "1 to 9", "a tenth 10 times")
    for case in cases:
        alarms = 0
        for number in range(options.simulations):
            rng = np.random.default_rng([options.seed, 4, number])
            periods = []
            for first in (0, 200):
                times: Any = case
                if case == "1 to 9":
                    times = rng.integers(1, 10, 200)
                elif case == "a tenth 10 times":
                    times = np.where(rng.random(200) < 0.1, 10, 1)
                periods.append(_days(rng, 200, times, first + 1000 * number))
            alarms += bool(drift(*periods).alarms)
        row(case, share(alarms, options.simulations))


PARTS = (duplicates, evaluated, skew, looks, power, repeated_rankings)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = [part.__name__ for part in PARTS]
    parser.add_argument("--parts", nargs="+", choices=names, default=names, help="tables to print")
    parser.add_argument("--simulations", type=int, default=300, help="of each cell")
    parser.add_argument("--resamples", type=int, default=499, help="of the test of signs")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn")
    options = parser.parse_args()
    for part in PARTS:
        if part.__name__ in options.parts:
            part(options)


if __name__ == "__main__":
    main()
