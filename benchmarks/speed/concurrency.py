"""Measures throughput and stalls of an event loop with many concurrent queries.

    python -m benchmarks.speed.concurrency

One call of ``rerank_many`` (one big batch) alternates with concurrent calls of ``arerank`` with the
same queries. A ticker that sleeps for a millisecond measures the stalls of the loop while it
reranks, and while it is idle and a plain thread runs the scorer on the same pairs.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.checked import check
from benchmarks.speed import make_model, results, workloads

from secondpass import Reranker

QUERIES = 32
TICK = 0.001  # seconds
LEVELS = (1, 2, 4, 8, 16, 32)
Requests = list[tuple[str, list[str]]]


async def longest_stall(work: Callable[[], Awaitable[Any]]) -> float:
    """The longest delay of the ticker during ``work``, in seconds."""
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK)
            worst = max(worst, time.perf_counter() - before - TICK)

    ticker = asyncio.ensure_future(tick())
    await asyncio.sleep(5 * TICK)
    await work()
    await asyncio.sleep(5 * TICK)
    ticker.cancel()
    return worst


class Measurement:
    """Both ways to rerank the same requests."""

    def __init__(self, reranker: Reranker, requests: Requests) -> None:
        self._reranker = reranker
        self._requests = requests
        method: Any = reranker.method
        self._scorer = getattr(method, "scorer", method)

    def one_batch(self) -> None:
        for ranking in self._reranker.rerank_many(self._requests):
            check(ranking.report)

    async def concurrent(self, level: int) -> None:
        """All requests, ``level`` at a time."""
        waiting = iter(self._requests)

        async def serve() -> None:
            for query, passages in waiting:
                check((await self._reranker.arerank(query, passages)).report)

        await asyncio.gather(*(serve() for _ in range(level)))

    async def idle(self) -> None:
        """The scorer in a plain thread."""
        await asyncio.to_thread(self._scorer.score_many, self._requests)


def main() -> int:
    parser = results.arguments(__doc__)
    parser.add_argument("--candidates", type=int, default=10, help="per query")
    parser.add_argument("--rounds", type=int, default=5, help="the table has medians over them")
    arguments = parser.parse_args()
    folder = arguments.model or make_model.ensure()
    tokenizer = workloads.load_tokenizer(folder)
    made = workloads.generated(tokenizer, "A", QUERIES, arguments.candidates, seed=5)
    reranker = Reranker(results.cross_encoder(folder, arguments.backend), depth=None)
    measurement = Measurement(reranker, [(item.query, item.passages) for item in made])
    pairs = QUERIES * arguments.candidates
    batch: list[float] = []
    levels: dict[int, list[float]] = {level: [] for level in LEVELS}
    stalls: list[float] = []
    idle: list[float] = []
    with asyncio.Runner() as runner:
        # Fill the tokenizer's cache for both.
        measurement.one_batch()
        runner.run(measurement.concurrent(QUERIES))
        gc.collect()
        for number in range(arguments.rounds):
            for level in LEVELS if number == 0 else (1, QUERIES):
                started = time.perf_counter()
                measurement.one_batch()
                batch.append(time.perf_counter() - started)
                started = time.perf_counter()
                runner.run(measurement.concurrent(level))
                levels[level].append(batch[-1] / (time.perf_counter() - started))
            stalls.append(runner.run(longest_stall(lambda: measurement.concurrent(QUERIES))))
            idle.append(runner.run(longest_stall(measurement.idle)))
    rate = pairs / statistics.median(batch)
    lines = [["one call of `rerank_many`", f"{rate:.1f}", "1.00"]]
    for level, found in levels.items():
        share = statistics.median(found)
        lines.append([f"{level} concurrent `arerank`", f"{rate * share:.1f}", f"{share:.2f}"])
    stall, alone = statistics.median(stalls), statistics.median(idle)
    lines.append([f"longest stall, {QUERIES} concurrent", f"{1000 * stall:.1f} ms", ""])
    lines.append(["longest stall, idle loop under the same load", f"{1000 * alone:.1f} ms", ""])
    results.write(
        "concurrency",
        "Concurrent queries on one event loop",
        f"`benchmarks/speed/concurrency.py`: {QUERIES} queries with {arguments.candidates} "
        f"passages of workload A; medians of {arguments.rounds} rounds (levels between: one).",
        ["asynchronous calls", "pairs per s", "share of one big batch"],
        lines,
        [
            results.target(
                f"{QUERIES} concurrent queries / one big batch",
                0.95,
                statistics.median(levels[QUERIES]),
                at_least=True,
            ),
            results.target(
                "longest stall of the loop / idle loop under the same load",
                2.0,
                stall / alone,
                at_least=False,
            ),
        ],
        arguments.out,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
