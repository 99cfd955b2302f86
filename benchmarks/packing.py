"""Measures the CPU time of packing a ranking, by its number of passages.

    python benchmarks/packing.py
    python benchmarks/packing.py --passages 100 1000 --tokens 2000

Passages of a hundred words, and of six characters, that all fit, unless a budget is given; each
with the estimate that `Ranking.pack` uses without a counter. For both: the CPU seconds, and how
often the counter is called for each passage. Less than a minute of CPU.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from checked import check

from secondpass import Ranking, Reranker
from secondpass.ranking.packing import estimate_most_tokens

WORDS = ["apples", "are", "old", "and", "ripen", "in", "autumn", "most", "of", "them", "red"]


def ranking_of(texts: list[str]) -> Ranking:
    ranking = Reranker("lexical", depth=None).rerank("red apples", texts)
    check(ranking.report)
    return ranking


def measured(ranking: Ranking, tokens: int) -> tuple[float, float]:
    """CPU seconds of packing, and calls of the counter for each passage."""
    calls = 0

    def count(text: str) -> float:
        nonlocal calls
        calls += 1
        return estimate_most_tokens(text)

    ranking.pack(tokens, count=count)
    began = time.process_time()
    ranking.pack(tokens)
    return time.process_time() - began, calls / len(ranking)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--passages", type=int, nargs="+", default=[100, 200, 400, 800, 1600])
    parser.add_argument("--tokens", type=int, default=sys.maxsize, help="the budget")
    arguments = parser.parse_args()
    rng = random.Random(0)
    print("| passages | of 100 words, s | calls each | of 6 characters, s | calls each |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for number in arguments.passages:
        long = [" ".join(rng.choices(WORDS, k=100)) for _ in range(number)]
        short = [f"{index:06d}" for index in range(number)]
        cells = [measured(ranking_of(texts), arguments.tokens) for texts in (long, short)]
        row = (f"{seconds:.2f} | {calls:.1f}" for seconds, calls in cells)
        print(f"| {number:,} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
