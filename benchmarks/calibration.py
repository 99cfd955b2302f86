"""Measures thresholds of `secondpass calibrate` on held-out queries.

    python benchmarks/calibration.py --data FOLDER --cache CACHE
    python benchmarks/calibration.py --data FOLDER --cache CACHE --splits 20 --sets vaswani

Each split fits a threshold on a random half of the queries with a relevant candidate, and measures
on the other half: coverage, the share of relevant candidates kept, per query or per document; and
the share of all candidates kept, relative to that of the best threshold for the other half, chosen
with its judgements. A further table has the shares of the lists without their relevant candidates
(found) and of the others (wrong) that are reported as having nothing relevant, on the other halves:
by the threshold on each list's best score, in the halves where `calibrate` would switch it on; and
by thresholds that keep a share of all relevant candidates, per query and per document. No constant
is tuned on these collections. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from observed import EMBEDDED, LEXICAL, add_options, observe, rankings_of
from quality import present

from secondpass import Reranker
from secondpass.ranking.scoring import rerank_scores_alone
from secondpass_evaluation.calibration.calibrating import scores_without_relevant
from secondpass_evaluation.calibration.conformal import share_kept, threshold
from secondpass_evaluation.calibration.samples import Sample, nothing_relevant, samples

DASH = "\N{EN DASH}"
SPLITS = 200
KEEPS = (0.8, 0.9, 0.95)
LARGE = 200
"""Smallest number of queries for which the targets of coverage apply."""

LOWEST, HIGHEST, MOST_KEPT = -0.01, 0.03, 1.15
FOUND, WRONG = 0.4, 0.1
"""Targets of reports that nothing is relevant, where they are on in half of the splits or more."""
METHODS: Mapping[str, Mapping[str, Any]] = {"embedded": EMBEDDED, "lexical": LEXICAL}


@dataclass(frozen=True)
class Coverage:
    """Means over the splits of one collection.

    Attributes:
        queries: with a relevant candidate.
        coverage: share of relevant candidates kept on the other half.
        kept: share of all candidates kept there.
        ratio: of the mean shares kept: the fitted threshold's to the best one's.
        failed: number of splits with too few queries for a threshold, which keep everything.
    """

    queries: int
    keep: float
    per: str
    coverage: float
    kept: float
    ratio: float
    failed: int

    @property
    def met(self) -> bool | None:
        """Whether the targets are met; None for collections that are too small."""
        if self.queries < LARGE:
            return None
        return LOWEST <= self.coverage - self.keep <= HIGHEST and self.ratio <= MOST_KEPT


def best_threshold(relevant: Sequence[Any], keep: float, per: Any) -> float:
    """The highest threshold that keeps this share of these scores, without a bound for others."""
    scores = np.unique(np.concatenate(relevant))
    dropping = bisect_left(
        scores, True, key=lambda score: share_kept(relevant, score, per) < keep - 1e-9
    )
    return float(scores[dropping - 1])  # the lowest score keeps all


def coverage(
    found: Sequence[Sample], keep: float, per: Any, splits: int, seed: int = 0
) -> Coverage:
    """Fit on a random half, measure on the other."""
    usable = [sample for sample in found if sample.relevant.any()]
    relevant = [sample.rerank[sample.relevant] for sample in usable]
    generator = np.random.default_rng(seed)
    rows, failed = [], 0
    for _ in range(splits):
        order = generator.permutation(len(usable))
        fitted, held = np.array_split(order, 2)
        floor = threshold([relevant[index] for index in fitted], keep, per)
        failed += floor is None
        floor = -np.inf if floor is None else floor
        others = [relevant[index] for index in held]
        scores = np.concatenate([usable[index].rerank for index in held])
        best = best_threshold(others, keep, per)
        kept = [(scores >= value).mean() for value in (floor, best)]
        rows.append((share_kept(others, floor, per), *kept))
    covered, fitted_kept, best_kept = np.array(rows).mean(axis=0)
    ratio = fitted_kept / best_kept
    return Coverage(len(usable), keep, per, covered, fitted_kept, ratio, failed)


def nothing_line(
    name: str,
    found: Mapping[str, Sample],
    without: Mapping[str, Sequence[float]] | None,
    keep: float,
    splits: int,
    seed: int = 0,
) -> tuple[str, bool]:
    """A row on reports that nothing is relevant, and whether their targets are met."""
    usable = {query: sample for query, sample in found.items() if sample.relevant.any()}
    best = {query: sample.rerank.max() for query, sample in usable.items()}
    rest = without or {query: [*item.rerank[~item.relevant]] for query, item in usable.items()}
    emptied = {query: max(rest[query]) for query in usable if rest.get(query)}
    generator = np.random.default_rng(seed)
    rows: dict[str, list[tuple[float, float]]] = {"best": [], "query": [], "document": []}
    on = 0
    for _ in range(splits):
        fitted, held = np.array_split(generator.permutation([*usable]), 2)
        half = {query: usable[query] for query in fitted}
        fit = nothing_relevant(half, keep, without)
        relevant = [sample.rerank[sample.relevant] for sample in half.values()]
        floors = {per: threshold(relevant, keep, per) for per in ("query", "document")}
        floors["best"] = fit.threshold if fit is not None and fit.usable else None
        on += floors["best"] is not None
        for rule, floor in floors.items():
            if floor is not None:
                empty = [emptied[query] < floor for query in held if query in emptied]
                wrong = [best[query] < floor for query in held]
                rows[rule].append((float(np.mean(empty)), float(np.mean(wrong))))
    shares = {rule: np.mean(pairs, axis=0) if pairs else None for rule, pairs in rows.items()}
    mean = shares["best"]
    decided = mean is not None and on >= splits / 2
    met = not decided or bool(mean[0] >= FOUND and mean[1] <= WRONG)
    cells = [DASH if pair is None else f"{pair[0]:.3f} / {pair[1]:.3f}" for pair in shares.values()]
    fit = nothing_relevant(usable, keep, without)
    every = DASH if fit is None else f"{fit.found:.3f} / {fit.flagged:.3f}"
    verdict = "on" if fit is not None and fit.usable else "off"
    return (
        f"| {name} | {len(usable)} | {keep:g} | {verdict} | {every} | {on / splits:.0%} "
        f"| {' | '.join(cells)} | {'no target' if not decided else 'met' if met else 'MISSED'} |"
    ), met


def measure(
    folder: Path, cache: Path | None, label: str, splits: int, seed: int = 0, lowest: int = 1
) -> Iterator[tuple[str, str, bool]]:
    """Rows of the tables of one collection and method: table, line, whether its target is met."""
    observed = observe(folder, cache)
    reranker = Reranker.from_config(METHODS[label])
    try:
        rankings = rankings_of(observed, label, reranker)
        found, _ = samples(rankings, observed.suite.qrels, observed.suite.queries, lowest)
        without = None
        if not rerank_scores_alone(reranker.method):
            without = scores_without_relevant(observed, label, reranker, lowest)
    finally:
        reranker.close()
        if observed.journal is not None:
            observed.journal.close()
    for per in ("query", "document"):
        for keep in KEEPS:
            result = coverage([*found.values()], keep, per, splits, seed)
            met = {None: "no target", True: "met", False: "MISSED"}[result.met]
            line = (
                f"| {folder.name} | {result.queries} | {per} | {keep:g} | {result.coverage:.3f} "
                f"| {result.kept:.3f} | {result.ratio:.2f} | {met} |"
            )
            yield "coverage", line, result.met is not False
    for keep in KEEPS:
        line, met_target = nothing_line(folder.name, found, without, keep, splits, seed)
        yield "nothing relevant", line, met_target


HEADERS = {
    "coverage": "| collection | queries | per | keep | coverage | candidates kept | to the best "
    "| targets |\n| --- | ---: | --- | ---: | ---: | ---: | ---: | --- |",
    "nothing relevant": "| collection | queries | keep | `nothing_relevant` | found / wrong "
    "| halves that are on | found / wrong, other half | all relevant, per query "
    "| all relevant, per document | targets |\n"
    "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | --- |",
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, "trec-dl19", "cranfield", "vaswani", "xquad-en")
    parser.add_argument("--splits", type=int, default=SPLITS, help="random halves per collection")
    parser.add_argument(
        "--methods", nargs="+", default=["embedded"], choices=[*METHODS], help="methods to measure"
    )
    parser.add_argument("--relevant", type=int, default=1, help="lowest relevance that counts")
    parser.add_argument("--seed", type=int, default=0, help="of the random halves")
    options = parser.parse_args()
    folders = present(options.data, options.sets)
    all_met = True
    for label in options.methods:
        rows: dict[str, list[str]] = {table: [] for table in HEADERS}
        for folder in folders:
            cache = options.cache
            measured = measure(folder, cache, label, options.splits, options.seed, options.relevant)
            for table, line, met in measured:
                rows[table].append(line)
                all_met &= met or options.relevant != 1  # bars are of the lowest relevance
        for table, lines in rows.items():
            print(f"\n{label}: {table}\n\n{HEADERS[table]}", *lines, sep="\n")
    sys.exit(not all_met)


if __name__ == "__main__":
    main()
