"""Compares the scores of `embedded` between runtimes and precisions, on every collection.

    python benchmarks/embedded_agreement.py

Prints a Markdown table. The reference is onnxruntime in float32. For each collection, the first
stage's 100 candidates of every query are scored. docs/evidence.md quotes it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from embedded_rules import Precomputed, mean_ndcg
from numpy.typing import NDArray
from quality import SETS, FirstStage, first_stages

from secondpass import Reranker
from secondpass.scorers.embedded import EmbeddedScorer

BLEND = {"original": 0.2, "normalize": "minmax"}
"""Of the preset `embedded`."""
OTHERS = ["openvino-exact", "openvino-auto"]
HEADER = (
    "| collection | first stage | backend | precision | largest difference | mean, in standard "
    "deviations | top-10 overlap | nDCG@10 | nDCG@10, blended |\n"
    "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"
)


def scores_of(
    stage: FirstStage, backend: str, precision: str
) -> tuple[list[NDArray[np.float64]], str]:
    """The scores of each query's candidates, and the precision in use."""
    scorer = EmbeddedScorer(backend=backend, precision=precision, remember=20_000)
    scores = []
    for query, text in stage.queries.items():
        texts = [candidate.text for candidate in stage.candidates[query]]
        scores.append(np.array(scorer.score_pairs(text, texts)))
    engine = scorer.engine
    scorer.close()
    return scores, engine.precision if engine else ""


def figures(stage: FirstStage, scores: list[NDArray[np.float64]]) -> tuple[float, float]:
    """nDCG@10 by these scores, alone and blended."""
    scorer = Precomputed(
        {
            (text, candidate.text): float(score)
            for (query, text), row in zip(stage.queries.items(), scores, strict=True)
            for candidate, score in zip(stage.candidates[query], row, strict=True)
        }
    )
    return mean_ndcg(stage, Reranker(scorer)), mean_ndcg(stage, Reranker(scorer, blend=BLEND))


def overlap(row: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    first, second = (set(np.argsort(-each, kind="stable")[:10]) for each in (row, other))
    return len(first & second) / max(1, len(first))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(__file__).parents[2] / "shared" / "data",
        help="folder of collections",
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="names of folders in DATA")
    parser.add_argument(
        "--against", nargs="+", default=OTHERS, help="backend and precision, such as openvino-auto"
    )
    arguments = parser.parse_args()
    print(HEADER)
    for name in arguments.sets:
        if not (arguments.data / name).is_dir():
            print(f"{name}: skipped, no such folder in {arguments.data}")
            continue
        for stage in first_stages(arguments.data / name, stemmed=True):
            reference, precision = scores_of(stage, "onnx", "exact")
            spread = float(np.concatenate(reference).std())
            start = f"| {stage.collection} | {stage.name} |"
            alone, blended = figures(stage, reference)
            print(f"{start} onnx | {precision} | | | | {alone:.4f} | {blended:.4f} |", flush=True)
            for other in arguments.against:
                backend, _, setting = other.partition("-")
                scores, precision = scores_of(stage, backend, setting)
                gaps = np.abs(np.concatenate(scores) - np.concatenate(reference))
                shared = np.mean([overlap(*rows) for rows in zip(reference, scores, strict=True)])
                alone, blended = figures(stage, scores)
                print(
                    f"{start} {backend} | {precision} | {gaps.max():.1e} "
                    f"| {gaps.mean() / spread:.4f} | {shared:.4f} | {alone:.4f} | {blended:.4f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
