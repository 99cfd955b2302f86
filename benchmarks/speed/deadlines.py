"""Measures reranking with a deadline: when it returns, and how many candidates are scored.

    python -m benchmarks.speed.deadlines

100 queries with a deadline of 200 ms, a warm model, and more candidates than can be scored in that
time. The rate without a deadline is measured in between, so that other load on the machine does not
change the share of it that is reached.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time

from benchmarks.checked import check
from benchmarks.speed import make_model, results, workloads

from secondpass import Reranker

DEADLINE = 0.2  # seconds
EVERY = 5


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> int:
    parser = results.arguments(__doc__)
    parser.add_argument("--queries", type=int, default=100, help="number of queries")
    parser.add_argument("--threads", type=int, default=1, help="threads of the engine")
    arguments = parser.parse_args()
    folder = arguments.model or make_model.ensure()
    tokenizer = workloads.load_tokenizer(folder)
    settings = results.cross_encoder(folder, arguments.backend, threads=arguments.threads)
    reranker = Reranker(settings, depth=None)
    limited = Reranker(settings, depth=None, limits={"deadline": DEADLINE}, log_level="debug")
    warm = workloads.generated(tokenizer, "A", 3, 100, seed=7)
    for request in warm:
        reranker.rerank(request.query, request.passages)
        limited.rerank(request.query, request.passages)

    seeds = itertools.count(100)

    def rate() -> float:
        # New passages, as in the rankings that are compared with it.
        (request,) = workloads.generated(tokenizer, "A", 1, 100, seed=next(seeds))
        started = time.perf_counter()
        check(reranker.rerank(request.query, request.passages).report)
        return len(request.passages) / (time.perf_counter() - started)

    count = max(50, round(4 * DEADLINE * rate()))
    requests = workloads.generated(tokenizer, "A", arguments.queries, count, seed=8)
    seconds, shares, counts, rates = [], [], [], [rate()]
    for number, request in enumerate(requests):
        if number % EVERY == 0:
            rates.append(rate())
        started = time.perf_counter()
        ranking = limited.rerank(request.query, request.passages)
        seconds.append(time.perf_counter() - started)
        check(ranking.report, {"deadline"})
        scored = sum(item.status == "scored" for item in ranking)
        counts.append(scored)
        shares.append(scored / (statistics.fmean(rates[-2:]) * seconds[-1]))
    slowest = percentile(seconds, 0.95)
    lines = [
        ["time, median", f"{1000 * statistics.median(seconds):.0f} ms"],
        ["time, 95th percentile", f"{1000 * slowest:.0f} ms"],
        ["time, longest", f"{1000 * max(seconds):.0f} ms"],
        [f"scored of {count} candidates, median", f"{statistics.median(counts):.0f}"],
        ["rate without a deadline, median", f"{statistics.median(rates):.0f} pairs per s"],
        ["scored / (rate · time), median", f"{statistics.median(shares):.2f}"],
        ["scored / (rate · time), 5th percentile", f"{percentile(shares, 0.05):.2f}"],
    ]
    results.write(
        "deadlines",
        "A deadline of 200 ms",
        f"`benchmarks/speed/deadlines.py`: {arguments.queries} queries of workload A, new passages "
        "each, the model warm.",
        ["deadline of 200 ms", "measured"],
        lines,
        [
            results.target(
                "95th percentile of the time", 220, 1000 * slowest, at_least=False, unit="ms"
            ),
            results.target(
                "scored / (rate · time), median", 0.85, statistics.median(shares), at_least=True
            ),
        ],
        arguments.out,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
