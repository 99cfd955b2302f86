"""How the embedded model could score, on every collection at hand.

    python benchmarks/embedded_rules.py

Prints two Markdown tables of nDCG@10 at depth 100: rules by collection, then the chosen rule
blended with the first stage by several weights. docs/quality.md quotes both. Each distinct passage
is encoded once, which takes some minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from quality import MEASURE, SETS, FirstStage, first_stages

from secondpass import Candidate, Reranker
from secondpass.evaluation import evaluate, ranking_to_run
from secondpass.scorers.embedded import Text, encoded_text
from secondpass.scorers.minilm import MiniLM

Parts: TypeAlias = tuple[float, NDArray[np.float32], NDArray[np.float32]]
"""Cosine of the means; the best match of each query token; the query tokens' weights."""

RULES: dict[str, Callable[[Parts], float]] = {
    "cosine of means": lambda parts: parts[0],
    "MaxSim": lambda parts: float(parts[1].mean()),
    "MaxSim, weighted": lambda parts: float(parts[2] @ parts[1]),
    "half cosine, half MaxSim": lambda parts: (parts[0] + float(parts[1].mean())) / 2,
    "half cosine, half MaxSim, weighted (chosen)": lambda parts: (
        (parts[0] + float(parts[2] @ parts[1])) / 2
    ),
}
CHOSEN = "half cosine, half MaxSim, weighted (chosen)"
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


class Ready:
    """Gives the scores that were worked out beforehand."""

    model_name = "ready"
    score_kind = "similarity"

    def __init__(self, scores: dict[tuple[str, str], float]) -> None:
        self.scores = scores

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        return [self.scores[query, document] for document in documents]


def parts_of(
    encoded: dict[str, Text], query: str, candidates: list[Candidate]
) -> dict[tuple[str, str], Parts]:
    asked = encoded[query]

    def one(document: str) -> Parts:
        passage = encoded[document]
        best = (asked.tokens @ passage.tokens.T).max(axis=1)
        return float(asked.mean @ passage.mean), best, asked.weights

    return {(query, each.text): one(each.text) for each in candidates}


def figure(stage: FirstStage, reranker: Reranker) -> float:
    rankings = {
        query: reranker.rerank(text, stage.candidates[query])
        for query, text in stage.queries.items()
    }
    return evaluate(ranking_to_run(rankings), stage.qrels, [MEASURE]).mean[MEASURE]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    data = parser.parse_args().data
    rows: dict[str, list[str]] = {"first stage": [], **{rule: [] for rule in RULES}}
    blended: dict[float, list[str]] = {weight: [] for weight in WEIGHTS}
    names = []
    for name in SETS:
        if not (data / name).is_dir():
            print(f"{name}: not there, left out")
            continue
        for stage in first_stages(data / name, stemmed=True):
            names.append(f"{stage.collection}, {stage.name}")
            candidates = (each for found in stage.candidates.values() for each in found)
            texts = list(
                dict.fromkeys([*stage.queries.values(), *(one.text for one in candidates)])
            )
            encoded = dict(zip(texts, MiniLM().map(encoded_text, texts), strict=True))
            parts: dict[tuple[str, str], Parts] = {}
            for query, text in stage.queries.items():
                parts.update(parts_of(encoded, text, stage.candidates[query]))
            rows["first stage"].append(f"{stage.evaluation().mean[MEASURE]:.4f}")
            for rule, score in RULES.items():
                ready = Ready({pair: score(each) for pair, each in parts.items()})
                rows[rule].append(f"{figure(stage, Reranker(ready)):.4f}")
                if rule != CHOSEN:
                    continue
                for weight in WEIGHTS:
                    blend = {"original": weight, "normalize": "minmax"}
                    blended[weight].append(f"{figure(stage, Reranker(ready, blend=blend)):.4f}")
    for title, table in (("rule", rows), ("weight of the retriever", blended)):
        print(f"\n| {title} | {' | '.join(names)} |")
        print("| --- |" + " ---: |" * len(names))
        for row, figures in table.items():
            print(f"| {row} | {' | '.join(figures)} |")


if __name__ == "__main__":
    main()
