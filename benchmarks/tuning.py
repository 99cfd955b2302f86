"""Measures decisions of ``tune`` on small samples of judged queries by the other queries.

    python benchmarks/tuning.py --data FOLDER --cache FOLDER

Samples of 40 or 80 queries of each collection are drawn repeatedly; the choice on them is measured
on all other queries, at least 100 (Vaswani has 93 queries, of which 40 are drawn). The candidates
are ``embedded``, ``embedded`` with a blend, ``lexical`` and a null: the gains of ``embedded`` with
and without blends, with a sign drawn at random for each query. The table has the shares of the
draws in which

- *harm*: the adopted candidate is worse than the first stage by more than .005;
- *miss*: the first stage is kept although a candidate gains .03 or more;
- *null*: the null is not adopted if it is the only candidate;
- *best*: of the three real candidates, the one with the highest held-out gain is the best on the
  other queries, exactly, or up to .005; *method*: the same for methods, each with its best blend;
- *covered*: the interval of the held-out gain contains the gain on the other queries.

Nothing is fitted to these collections: the test is exact under its null hypothesis, and the
smallest gain, folds and repeats are the defaults.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from observed import EMBEDDED, LEXICAL, add_options, observe

from secondpass import Reranker
from secondpass.ranking.blending import Blend
from secondpass_evaluation import evaluate, ranking_to_run
from secondpass_evaluation.journal import ranking_key
from secondpass_evaluation.observations import Observations
from secondpass_evaluation.reranking import replayed_run
from secondpass_evaluation.tuning.selection import select, winner
from secondpass_evaluation.tuning.trials import WEIGHTS
from secondpass_evaluation.tuning.tuning import SMALLEST_GAIN

MEASURE = "nDCG@10"
HARM, MISS, NEAR = 0.005, 0.03, 0.005
FEWEST_OTHERS = 100
SMALL = {"vaswani": 40}
"""Collections with fewer other queries -> number of queries to draw."""
REAL = ("embedded", "embedded+blend", "lexical")
HEADER = (
    "| collection | judged | adopted | harm | missed | null rejected | best of three | up to .005 "
    "| best method | covered |\n"
    "| --- " + "| ---: " * 9 + "|"
)


def gains(folder: Path, cache: Path | None) -> dict[str, Any]:
    """Gains over the first stage, variants x queries, by method; and its values, as ``before``."""
    observed = observe(folder, cache)
    try:
        return _gains(observed, folder.name, cache)
    finally:
        if observed.journal is not None:
            observed.journal.close()


def _gains(observed: Observations, name: str, cache: Path | None) -> dict[str, Any]:
    # The journal keeps no degraded rankings, such as those of German with an English model.
    cached = None if cache is None else cache / f"{name}.{_key(observed)}.npz"
    if cached is not None and cached.exists():
        with np.load(cached) as file:
            return dict(file)
    base = evaluate(ranking_to_run(observed.candidates), observed.suite.qrels, [MEASURE])
    before = np.array([*base.per_query[MEASURE].values()])
    rerankers = {
        "embedded": Reranker.from_config(EMBEDDED),
        "lexical": Reranker.from_config(LEXICAL),
    }
    gains_of = {"before": before}
    for method, reranker in rerankers.items():
        rankings = observed.rankings(method, reranker)
        rows = []
        for blend in (None, *(Blend(weight, "minmax") for weight in WEIGHTS)):
            run = replayed_run(rankings, observed.candidates, reranker.method.name, blend)
            values = evaluate(run, observed.suite.qrels, [MEASURE]).per_query[MEASURE]
            rows.append(np.array([*values.values()]) - before)
        gains_of[method] = np.array(rows)
        reranker.close()
    if cached is not None:
        np.savez(cached, **gains_of)
    return gains_of


def _key(observed: Observations) -> str:
    """A hash of the inputs of the gains and the version of secondpass, but not of its code."""
    config = {"rerankers": [EMBEDDED, LEXICAL], "blends": WEIGHTS, "measure": MEASURE}
    digest = hashlib.sha256()
    for query, candidates in observed.candidates.items():
        judged = {**config, "judged": observed.suite.qrels[query]}
        text = observed.suite.queries[query]
        digest.update(ranking_key("gains", judged, query, text, candidates).encode())
    return digest.hexdigest()[:12]


def draw(
    methods: Mapping[str, Any], size: int, *, resamples: int, seed: int
) -> dict[str, float | None]:
    """Tune on ``size`` random queries, and measure the choice on the others."""
    count = methods["embedded"].shape[1]
    order = np.random.default_rng(seed).permutation(count)
    used, others = order[:size], order[size:]
    variants = {
        "embedded": methods["embedded"][:1],
        "embedded+blend": methods["embedded"][1:],
        "lexical": methods["lexical"],
    }
    signs = np.random.default_rng([seed, 1]).choice([-1.0, 1.0], count)
    null = {"null": methods["embedded"] * signs}
    variants |= null
    before = methods["before"][used]

    def selected(chosen: Mapping[str, Any]) -> Any:
        return select(
            {name: rows[:, used] for name, rows in chosen.items()},
            loss=float(before[before > 0].mean()),
            folds=5,
            repeats=4,
            resamples=resamples,
            confidence=0.95,
            seed=seed,
        )

    selection = selected(variants)
    adopted = winner(selection, smallest_gain=SMALLEST_GAIN, confidence=0.95)
    true = {name: variants[name][selection.variants[name]][others].mean() for name in variants}
    possible = max(rows[:, others].mean(axis=1).max() for rows in variants.values())
    promising = max(REAL, key=lambda name: selection.methods[name].mean)
    alone = selected(null)
    every = {"embedded": methods["embedded"], "lexical": methods["lexical"], **null}
    by_method = selected(every)
    best_method = max(every, key=lambda name: by_method.methods[name].mean)
    true_method = max(every, key=lambda name: every[name][:, others].mean(axis=1).max())
    covered = None
    if adopted is not None and selection.together.low is not None:
        covered = selection.together.low <= true[adopted] <= selection.together.high
    return {
        "adopted": adopted is not None,
        "harm": adopted is not None and true[adopted] < -HARM,
        "miss": None if possible < MISS else adopted is None,
        "null": winner(alone, smallest_gain=SMALLEST_GAIN, confidence=0.95) is None,
        "best": true[promising] == max(true[name] for name in REAL),
        "near": true[promising] >= max(true[name] for name in REAL) - NEAR,
        "method": best_method == true_method,
        "covered": covered,
    }


def sizes(name: str, count: int, wanted: list[int]) -> Iterator[int]:
    """The numbers of queries to draw from a collection."""
    for size in wanted:
        if count - size >= FEWEST_OTHERS or SMALL.get(name) == size:
            yield size


def line(name: str, size: int, draws: list[dict[str, float | None]]) -> str:
    """A row of the table."""

    def share(key: str) -> str:
        values = [float(value) for draw in draws if (value := draw[key]) is not None]
        return f"{np.mean(values):.0%} of {len(values)}" if values else "-"

    keys = ("adopted", "harm", "miss", "null", "best", "near", "method", "covered")
    return f"| {name} | {size} | " + " | ".join(share(key) for key in keys) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_options(parser, "cranfield", "vaswani", "xquad-en", "xquad-de")
    parser.add_argument("--splits", type=int, default=50, help="draws per size")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[40, 80], help="numbers of judged queries"
    )
    parser.add_argument("--resamples", type=int, default=499, help="of the test of `tune`")
    parser.add_argument("--seed", type=int, default=0, help="of the draws and the null")
    options = parser.parse_args()
    print(HEADER, flush=True)
    for name in options.sets:
        methods = gains(options.data / name, options.cache)
        for size in sizes(name, methods["embedded"].shape[1], options.sizes):
            draws = [
                draw(methods, size, resamples=options.resamples, seed=options.seed + split)
                for split in range(options.splits)
            ]
            print(line(name, size, draws), flush=True)


if __name__ == "__main__":
    main()
