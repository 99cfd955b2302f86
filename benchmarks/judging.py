"""Measures the coverage of intervals from a biased judge, corrected by a person's judgements.

    python benchmarks/judging.py --data FOLDER --cache rankings

The population is the queries of TREC DL 2019. Each simulation draws ``--queries`` of them with
replacement. A simulated judge of known bias grades the pool of every query (the first 20 of BM25
and of ``embedded`` after BM25); for ``--people`` of them there are also a person's grades, which
are those of TREC's assessors. The 95 % intervals of the mean of ``embedded``, and of its difference
from BM25, are computed from the judge alone, from the person alone, and corrected. Prints a table.

The estimator was chosen on nDCG@10 of TREC DL 2019; P@10 and other collections (``--sets``) were
not used for that.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from observed import EMBEDDED, add_options, observe, rankings_of
from quality import present

from secondpass import Reranker
from secondpass_evaluation import corrected_mean, evaluate, ranking_to_run

POOL_DEPTH = 20
CUTOFF = 10
Grades = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Collection:
    """Grades of the pools, and positions of each system's first 10 documents in them.

    Attributes:
        name: name of the collection.
        grades: the person's grades, shape (queries, documents); -1: no document.
        tops: indices into the pool by system, shape (queries, 10).
        highest: the highest grade.
    """

    name: str
    grades: Grades
    tops: Mapping[str, Grades]
    highest: int


@dataclass(frozen=True)
class Row:
    """One line of the table: shares of simulations, and mean widths of the intervals."""

    collection: str
    measure: str
    judge: str
    bias: float
    covered_judge: float
    covered_person: float
    covered: float
    width_person: float
    width: float
    never_wider: bool


def collection(folder: Path, cache: Path | None) -> Collection:
    """The pools of a collection, with the judgements of its assessors."""
    observed = observe(folder, cache)
    reranker = Reranker.from_config(EMBEDDED)
    rankings = rankings_of(observed, "embedded", reranker)
    reranker.close()
    if observed.journal is not None:
        observed.journal.close()
    runs = {
        "bm25": ranking_to_run(observed.candidates),
        "embedded": ranking_to_run(rankings),
    }
    firsts = {
        name: {query: list(run[query])[:POOL_DEPTH] for query in run} for name, run in runs.items()
    }
    qrels = observed.suite.qrels
    pools = {
        query: list(dict.fromkeys(firsts["bm25"][query] + firsts["embedded"][query]))
        for query in observed.suite.queries
    }
    pools = {query: pool for query, pool in pools.items() if len(pool) >= POOL_DEPTH}
    judged = {
        query: {document: max(0, qrels[query].get(document, 0)) for document in pool}
        for query, pool in pools.items()
    }
    highest = max(max(each.values()) for each in judged.values())
    grades = np.full((len(pools), max(map(len, pools.values()))), -1)
    for row, query in enumerate(pools):
        grades[row, : len(pools[query])] = list(judged[query].values())
    tops = {
        name: np.array([[pools[q].index(d) for d in firsts[name][q][:CUTOFF]] for q in pools])
        for name in runs
    }
    pooled = Collection(folder.name, grades, tops, highest)
    _check(pooled, judged, {name: {q: runs[name][q] for q in pools} for name in runs})
    return pooled


def _check(
    pooled: Collection,
    judged: Mapping[str, Mapping[str, int]],
    runs: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> None:
    """Check that the measures of this file are equal to those of ir_measures."""
    for name, run in runs.items():
        values = evaluate(run, judged, [f"nDCG@{CUTOFF}", f"P@{CUTOFF}"])
        for measure, function in MEASURES.items():
            computed = function(pooled.grades, pooled.tops[name])
            np.testing.assert_allclose(
                computed, list(values.per_query[measure].values()), atol=1e-9
            )


def ndcg(grades: Grades, top: Grades) -> Values:
    """nDCG@10 of each row."""
    gains = np.maximum(grades, 0)
    discounts = 1 / np.log2(np.arange(2, CUTOFF + 2))
    best = (-np.sort(-gains, axis=1)[:, :CUTOFF] * discounts).sum(axis=1)
    achieved = (np.take_along_axis(gains, top, axis=1) * discounts).sum(axis=1)
    return np.divide(achieved, best, out=np.zeros_like(achieved), where=best > 0)


def precision(grades: Grades, top: Grades) -> Values:
    """P@10 of each row."""
    values: Values = (np.take_along_axis(grades, top, axis=1) > 0).mean(axis=1)
    return values


MEASURES: dict[str, Callable[[Grades, Grades], Values]] = {
    f"nDCG@{CUTOFF}": ndcg,
    f"P@{CUTOFF}": precision,
}

Judge = Callable[[Grades, Grades, int, np.random.Generator], Grades]


def _generous(grades: Grades, _top: Grades, _highest: int, rng: np.random.Generator) -> Grades:
    return grades + (rng.random(grades.shape) < 0.5)


def _harsh(grades: Grades, _top: Grades, _highest: int, rng: np.random.Generator) -> Grades:
    return grades - (rng.random(grades.shape) < 0.5)


def _random_part(grades: Grades, _top: Grades, highest: int, rng: np.random.Generator) -> Grades:
    wild = rng.integers(0, highest + 1, grades.shape)
    return np.where(rng.random(grades.shape) < 0.4, wild, grades)


def _by_query(grades: Grades, _top: Grades, _highest: int, rng: np.random.Generator) -> Grades:
    return grades + rng.integers(-1, 2, (len(grades), 1))


def _partial(grades: Grades, top: Grades, _highest: int, rng: np.random.Generator) -> Grades:
    liked = np.zeros(grades.shape, bool)
    np.put_along_axis(liked, top, True, axis=1)
    return grades + (liked & (rng.random(grades.shape) < 0.7))


def _confused(grades: Grades, _top: Grades, highest: int, rng: np.random.Generator) -> Grades:
    chance = rng.random(grades.shape)
    wild = rng.integers(0, highest + 1, grades.shape)
    return np.select(
        [chance < 0.6, chance < 0.8, chance < 0.95], [grades, grades + 1, grades - 1], wild
    )


def _useless(grades: Grades, _top: Grades, highest: int, rng: np.random.Generator) -> Grades:
    return rng.integers(0, highest + 1, grades.shape)


def _person(grades: Grades, _top: Grades, _highest: int, _rng: np.random.Generator) -> Grades:
    return grades


JUDGES: dict[str, Judge] = {
    "generous: half of the grades 1 higher": _generous,
    "harsh: half of the grades 1 lower": _harsh,
    "40 % random grades": _random_part,
    "by query: 1 higher, equal or 1 lower": _by_query,
    "partial: 70 % of embedded's first 10 get 1 more": _partial,
    "confused: 60 % equal, 35 % off by 1, 5 % random": _confused,
    "useless: random grades": _useless,
    "perfect: the person's grades": _person,
}


def rows_of(
    pooled: Collection, *, queries: int, people: int, simulations: int, seed: int
) -> list[Row]:
    """The table of a collection."""
    rows = []
    for measure, function in MEASURES.items():
        true = {name: function(pooled.grades, top) for name, top in pooled.tops.items()}
        for label, judge in JUDGES.items():
            rng = np.random.default_rng(seed)
            samples: dict[str, list[Any]] = {measure: [], f"{measure}, difference": []}
            for _ in range(simulations):
                drawn = rng.integers(0, len(pooled.grades), queries)
                grades = pooled.grades[drawn]
                noisy = np.clip(
                    judge(grades, pooled.tops["embedded"][drawn], pooled.highest, rng),
                    0,
                    pooled.highest,
                )
                noisy = np.where(grades >= 0, noisy, -1)
                model = {name: function(noisy, top[drawn]) for name, top in pooled.tops.items()}
                pairs = {
                    measure: (model["embedded"], true["embedded"]),
                    f"{measure}, difference": (
                        model["embedded"] - model["bm25"],
                        true["embedded"] - true["bm25"],
                    ),
                }
                for name, (by_judge, by_person) in pairs.items():
                    samples[name].append(_simulated(by_judge, by_person, drawn, people))
            for name, outcomes in samples.items():
                if outcomes := [outcome for outcome in outcomes if outcome is not None]:
                    rows.append(_row(pooled.name, name, label, outcomes))
    return rows


def _simulated(
    by_judge: Values, by_person: Values, drawn: NDArray[np.int64], people: int
) -> tuple[float, bool, bool, bool, float, float] | None:
    """Error of the judge; whether the three intervals cover the true mean; widths of two of them.

    None if the person's values are all equal.
    """
    truth = float(by_person.mean())
    model = {str(number): float(value) for number, value in enumerate(by_judge)}
    person = {str(number): float(by_person[drawn[number]]) for number in range(people)}
    if len(set(person.values())) == 1:
        return None
    corrected = corrected_mean("m", model, person)
    half = 1.96 * float(by_judge.std(ddof=1)) / math.sqrt(len(by_judge))
    return (
        corrected.uncorrected - truth,
        abs(corrected.uncorrected - truth) <= half,
        corrected.people_low <= truth <= corrected.people_high,
        corrected.low <= truth <= corrected.high,
        corrected.people_high - corrected.people_low,
        corrected.high - corrected.low,
    )


def _row(name: str, measure: str, judge: str, outcomes: list[Any]) -> Row:
    columns = np.array(outcomes, float).T
    narrower = columns[5] <= columns[4] + 1e-12
    return Row(name, measure, judge, *map(float, columns.mean(axis=1)), bool(narrower.all()))


def table(rows: list[Row]) -> str:
    lines = [
        "| collection | measure | judge | its bias | judge alone covers | person alone covers "
        "| corrected covers | width, person alone | width, corrected | never wider |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += [
        f"| {row.collection} | {row.measure} | {row.judge} | {row.bias:+.3f} "
        f"| {row.covered_judge:.1%} | {row.covered_person:.1%} | {row.covered:.1%} "
        f"| {row.width_person:.3f} | {row.width:.3f} | {'yes' if row.never_wider else 'no'} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_options(parser, "trec-dl19")
    parser.add_argument("--queries", type=int, default=200, help="queries that the judge grades")
    parser.add_argument(
        "--people", type=int, default=20, help="of these, number that the person grades"
    )
    parser.add_argument("--simulations", type=int, default=1000, help="per judge and measure")
    parser.add_argument("--seed", type=int, default=0, help="of the simulations")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead")
    options = parser.parse_args()
    rows = []
    for folder in present(options.data, options.sets):
        rows += rows_of(
            collection(folder, options.cache),
            queries=options.queries,
            people=options.people,
            simulations=options.simulations,
            seed=options.seed,
        )
    if options.json:
        print("\n".join(json.dumps(asdict(row)) for row in rows))
        return
    print(table(rows))
    print(f"\nLowest coverage of corrected intervals: {min(row.covered for row in rows):.1%}")


if __name__ == "__main__":
    main()
