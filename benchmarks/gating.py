"""Measures what a learned gate (`when`) saves and costs on held-out queries.

    python benchmarks/gating.py --data ../data --cache rankings

The gate is learned on a random half of the queries of each collection, and measured on the other
half. The regret is the nDCG@10 of always running the pass minus that with the gate. For the second
table, 1,000 queries are drawn from the half with replacement, to see whether a gate is accepted
with enough queries like these. For the third, the scores of the first stage are removed or made
equal. Nothing is fitted to these collections: the maximum mean regret (0.01) and the confidence
(95 %) are the defaults.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from observed import EMBEDDED, LEXICAL, add_options, observe

from secondpass import Candidate, Reranker
from secondpass.evaluation.gates.learning import GRIDS, GateFit, gate_of, learn_gate
from secondpass.evaluation.gates.regrets import Regrets, regrets_of
from secondpass.evaluation.observations import Observations

SETS = ("trec-dl19", "cranfield", "vaswani", "xquad-en", "xquad-de")
ENOUGH = 1_000
MAX_REGRET, CONFIDENCE = 0.01, 0.95
TOLERATED = 0.005
"""Maximum mean regret on held-out queries; above it, the benchmark fails."""

HEADER = (
    "| collection | reranker | learned from | gates | skipped | pairs saved | mean regret "
    "| 95 % of splits | splits above .005 |\n"
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


@dataclass(frozen=True)
class HeldOut:
    """Results of gates on held-out queries; one value for each split."""

    learned_from: int
    on: np.ndarray[Any, Any]
    skipped: np.ndarray[Any, Any]
    saved: np.ndarray[Any, Any]
    regret: np.ndarray[Any, Any]

    def row(self, collection: str, reranker: str) -> str:
        return (
            f"| {collection} | {reranker} | {self.learned_from:,} | {self.on.mean():.0%} "
            f"| {self.skipped.mean():.0%} | {self.saved.mean():.0%} | {self.regret.mean():+.4f} "
            f"| {np.quantile(self.regret, 0.95):+.4f} | {(self.regret > TOLERATED).mean():.1%} |"
        )


def held_out(regrets: Regrets, splits: int, seed: int, enough: int = 0) -> HeldOut:
    """Learn gates on random halves, and measure each on the other half."""
    random = np.random.default_rng(seed)
    count = len(regrets.pairs)
    values = []
    for _ in range(splits):
        order = random.permutation(count)
        half, rest = order[: count // 2], regrets.part(order[count // 2 :])
        if enough:
            half = random.choice(half, enough)
        fit = gate_of(regrets.part(half), max_regret=MAX_REGRET, confidence=CONFIDENCE)
        values.append(on_others(fit, rest))
    on, skipped, saved, regret = np.array(values).T
    return HeldOut(enough or count // 2, on, skipped, saved, regret)


def on_others(fit: GateFit, others: Regrets) -> tuple[float, float, float, float]:
    """Whether there is a gate, the shares of queries and pairs it saves, and its mean regret."""
    if fit.when is None:
        return 0.0, 0.0, 0.0, 0.0
    ((name, condition),) = fit.when.items()
    skips = others.signals[name] >= condition["below"]
    regret = np.where(skips, others.of_skip[0], 0.0).mean()
    saved = others.pairs[skips].sum() / others.pairs.sum()
    return 1.0, float(skips.mean()), float(saved), float(regret)


def rankings_of(observations: Observations, config: Mapping[str, Any], name: str) -> Regrets:
    reranker = Reranker.from_config(config)
    rankings = observations.rankings(name, reranker)
    reranker.close()
    return regrets_of(
        observations.suite,
        observations.candidates,
        rankings,
        measure="nDCG@10",
        signals=[*GRIDS],
        depths=(0,),
    )


ODD: Mapping[str, Callable[[int], float | None]] = {
    "no scores": lambda _: None,
    "equal scores": lambda _: 1.0,
    "distances (lower is nearer)": float,
}


def without_scores(observations: Observations) -> dict[str, GateFit]:
    """The gates learned from a first stage with uninformative scores."""
    reranker = Reranker.from_config(EMBEDDED)
    rankings = observations.rankings("embedded", reranker)
    reranker.close()

    def changed(score: Callable[[int], float | None]) -> dict[str, list[Candidate]]:
        return {
            query: [replace(item, score=score(rank)) for rank, item in enumerate(items)]
            for query, items in observations.candidates.items()
        }

    return {
        name: learn_gate(observations.suite, changed(score), rankings)
        for name, score in ODD.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_options(parser, *SETS)
    parser.add_argument("--splits", type=int, default=80, help="random halves per collection")
    parser.add_argument("--seed", type=int, default=0, help="of the random halves")
    options = parser.parse_args()
    first, second, third = [HEADER], [HEADER], []
    worst = 0.0
    for name in options.sets:
        observations = observe(options.data / name, options.cache)
        for label, config in (("embedded", EMBEDDED), ("lexical", LEXICAL)):
            regrets = rankings_of(observations, config, label)
            halves = held_out(regrets, options.splits, options.seed)
            worst = max(worst, float(halves.regret.mean()))
            first.append(halves.row(name, label))
            more = held_out(regrets, max(1, options.splits // 4), options.seed, ENOUGH)
            second.append(more.row(name, label))
        if name == options.sets[-1]:
            for odd, fit in without_scores(observations).items():
                third.append(f"- {name}, {odd}: {fit.reason}")
        if observations.journal is not None:
            observations.journal.close()
    print(f"Learned on half of the queries, {options.splits} splits\n")
    print("\n".join(first))
    print(f"\nLearned on {ENOUGH:,} queries drawn from the half with replacement\n")
    print("\n".join(second))
    print("\nFirst stages with uninformative scores\n")
    print("\n".join(third))
    print(f"\nLargest mean regret of a collection: {worst:+.4f} (at most {TOLERATED:+.4f}).")
    return 0 if worst <= TOLERATED else 1


if __name__ == "__main__":
    sys.exit(main())
