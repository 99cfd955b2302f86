"""Measures the caches: tokenising passages and scoring pairs that were seen before.

    python -m benchmarks.speed.caches

Prints CPU time per pair, the median over queries with 100 passages of workload A.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.speed import make_model, results, workloads

from secondpass import Reranker

COUNT = 100


def microseconds(
    score: Callable[[str, list[str]], Any], request: workloads.Request, repeat: int
) -> float:
    """CPU time of a call per pair."""
    found = []
    for _ in range(repeat):
        # New strings without a cached hash, as a retriever returns them.
        passages = [f"{text[:1]}{text[1:]}" for text in request.passages]
        started = time.process_time_ns()
        score(request.query, passages)
        found.append((time.process_time_ns() - started) / 1000 / COUNT)
    return statistics.median(found)


def tokenising(folder: Path, requests: list[workloads.Request]) -> dict[str, float]:
    """µs per pair: new passages, seen passages, and the package ``tokenizers`` alone."""
    from secondpass.scorers.tokens.pair_tokenizer import PairTokenizer

    path = folder / "tokenizer.json"
    tokenizer = PairTokenizer(path, max_length=512, remember=10_000)
    raw = workloads.load_tokenizer(folder)
    raw.enable_truncation(512)

    def encode(query: str, passages: list[str]) -> Any:
        return raw.encode_batch_fast([(query, passage) for passage in passages])

    alone = [microseconds(encode, request, 1) for request in requests]
    new = [microseconds(tokenizer.pairs, request, 1) for request in requests]
    seen = [microseconds(tokenizer.pairs, request, 20) for request in requests]
    return {
        "the package tokenizers, alone": statistics.median(alone),
        "new passages": statistics.median(new),
        "seen passages": statistics.median(seen),
    }


def scoring(
    folder: Path, backend: str, cache: int | str, requests: list[workloads.Request]
) -> tuple[float, float]:
    """µs per pair of the scorer: new pairs, and seen pairs."""
    settings = results.cross_encoder(folder, backend, score_cache=cache)
    reranker = Reranker(settings, depth=None)
    method: Any = reranker.method
    scorer = getattr(method, "scorer", method)
    scorer.score_pairs("warm", ["up"])
    new = [microseconds(scorer.score_pairs, request, 1) for request in requests]
    seen = [microseconds(scorer.score_pairs, request, 20) for request in requests]
    reranker.close()
    return statistics.median(new), statistics.median(seen)


def main() -> int:
    parser = results.arguments(__doc__)
    parser.add_argument("--queries", type=int, default=10, help="half of them are scored")
    arguments = parser.parse_args()
    folder = arguments.model or make_model.ensure()
    raw = workloads.load_tokenizer(folder)
    requests = workloads.generated(raw, "A", arguments.queries, COUNT, seed=9)
    scored = requests[: -(-len(requests) // 2)]
    gc.disable()
    tokens = tokenising(folder, requests)
    memory = scoring(folder, arguments.backend, 100_000, scored)
    with tempfile.TemporaryDirectory() as scratch:
        path = str(Path(scratch) / "scores.sqlite")
        sqlite = scoring(folder, arguments.backend, path, scored)
    lines = [[f"tokenising, {name}", f"{value:.2f}"] for name, value in tokens.items()]
    for name, (new, seen) in {"in memory": memory, "in a SQLite file": sqlite}.items():
        lines.append([f"scoring with a cache {name}, new pairs", f"{new:.0f}"])
        lines.append([f"scoring with a cache {name}, seen pairs", f"{seen:.2f}"])
    results.write(
        "caches",
        "Caches",
        "`benchmarks/speed/caches.py`: 100 passages of workload A; the scorer is called directly.",
        ["CPU time", "µs per pair"],
        lines,
        [
            results.target(
                "tokenising passages seen before",
                5,
                tokens["seen passages"],
                at_least=False,
                unit="µs",
            ),
            results.target("pairs seen before, in memory", 5, memory[1], at_least=False, unit="µs"),
        ],
        arguments.out,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
