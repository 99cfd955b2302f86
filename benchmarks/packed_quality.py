"""Measures what packing encoded passages in 2 bits a number changes, paired by query.

    python benchmarks/packed_quality.py [--sets vaswani cranfield] [--data FOLDER]

For each collection and first stage of :mod:`quality_plot`: nDCG@10 of the preset ``embedded`` with
a depth of 100, from float32 encodings and from packed ones; the mean of the paired differences with
a 95 % interval (Student's t); and the share of the first ten that both orders have. Each passage is
encoded once, and kept for both. About 10 minutes of CPU.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing

from checked import check
from quality import MEASURE, SETS, FirstStage, add_data, present
from quality_plot import MEMORY_MB, CachedEmbedder, reranker, stages

from secondpass import Ranking
from secondpass.extend import MiniLM
from secondpass.scorers.embedding.encoder import Encoding, Tokens
from secondpass_evaluation import evaluate, ranking_to_run

DEPTH = 100
TOP = 10


def keep_encodings() -> dict[tuple[int, ...], Encoding]:
    """Let the model encode each text once in this process; returns what is kept."""
    kept: dict[tuple[int, ...], Encoding] = {}
    encode = MiniLM.encode_batch

    def encode_batch(self: MiniLM, texts: Sequence[Tokens]) -> list[Encoding]:
        keys = [tuple(text.ids) for text in texts]
        missing = [index for index, key in enumerate(keys) if key not in kept]
        if missing:
            encoded = encode(self, [texts[index] for index in missing])
            kept.update(zip((keys[index] for index in missing), encoded, strict=True))
        return [kept[key] for key in keys]

    MiniLM.encode_batch = encode_batch  # type: ignore[method-assign]
    return kept


def rankings(stage: FirstStage, memory_mb: int) -> dict[str, Ranking]:
    """The ranking of each query; packed if a memory is given."""
    with closing(reranker("embedded", memory_mb=memory_mb)) as one:
        found = {
            query: one.rerank(text, stage.candidates[query], depth=DEPTH)
            for query, text in stage.queries.items()
        }
    for ranking in found.values():
        check(ranking.report, {"not_english"})
    return found


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Mean and half the width of its 95 % interval."""
    from scipy.stats import t

    count = len(differences)
    width = t.ppf(0.975, count - 1) * statistics.stdev(differences) / math.sqrt(count)
    return statistics.fmean(differences), float(width)


def overlap(one: Ranking, other: Ranking) -> float:
    """The share of the first ten candidates of a ranking that the other one has there, too."""
    first = {ranked.id for ranked in one[:TOP]}
    second = {ranked.id for ranked in other[:TOP]}
    return len(first & second) / max(1, len(first))


def per_query(found: Mapping[str, Ranking], stage: FirstStage) -> dict[str, float]:
    return dict(evaluate(ranking_to_run(found), stage.qrels, [MEASURE]).per_query[MEASURE])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", nargs="+", default=SETS)
    add_data(parser)
    options = parser.parse_args()
    kept = keep_encodings()
    embedder = CachedEmbedder()
    pooled: list[float] = []
    shared: list[float] = []
    print(f"{MEASURE}, and the share of the first ten that both orders have\n")
    print("| collection | first stage | queries | float32 | packed | difference | share |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for folder in present(options.data, options.sets):
        for _, stage in stages(folder, embedder):
            exact, packed = rankings(stage, 0), rankings(stage, MEMORY_MB)
            before, after = per_query(exact, stage), per_query(packed, stage)
            differences = [after[query] - before[query] for query in before]
            overlaps = [overlap(exact[query], packed[query]) for query in exact]
            mean, width = interval(differences)
            cells = (
                folder.name,
                stage.name,
                f"{len(before):,}",
                f"{statistics.fmean(before.values()):.4f}",
                f"{statistics.fmean(after.values()):.4f}",
                f"{mean:+.4f} ± {width:.4f}",
                f"{statistics.fmean(overlaps):.3f}",
            )
            print(f"| {' | '.join(cells)} |", flush=True)
            pooled += differences
            shared += overlaps
        kept.clear()
    mean, width = interval(pooled)
    print(f"all {len(pooled):,} queries: {mean:+.4f} ± {width:.4f}; {statistics.fmean(shared):.3f}")


if __name__ == "__main__":
    main()
