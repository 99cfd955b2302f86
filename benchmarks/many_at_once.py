"""Many rankings that begin at the same time, with a deadline, by one scorer.

    python -m benchmarks.many_at_once                        50, 200 and 1,000 rankings
    python -m benchmarks.many_at_once --threads              by `rerank` in threads
    python -m benchmarks.many_at_once --many                 a scorer with `score_many`

Each ranking has 32 texts; a call of the scorer takes 5 ms (``--call``), whatever its length, and
sleeps meanwhile. For each number of rankings, deadline and ``batch_size``, and each without a
deadline just before, it prints: the status of the rankings; the pairs a second between the first
and the last call, and the same without a deadline, as a share of what as many threads as the scorer
is called in score by themselves in calls of that size, measured just before; the CPU seconds of the
process. A loaded machine makes deadlines early, which the share of the rate without a deadline
shows.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.checked import check

from secondpass import Ranking, Reranker
from secondpass.concurrency.turns import WIDTH

TEXTS = 32
LIMITED = {"abandoned_calls", "deadline", "overloaded"}
"""Issues that a deadline causes."""


class Scorer:
    """Takes a constant time for each call."""

    model_name = "own"

    def __init__(self, seconds: float, batch_size: int | None) -> None:
        if batch_size is not None:
            self.batch_size = batch_size
        self._seconds = seconds
        self._lock = threading.Lock()
        self._pairs, self._first, self._last = 0, 0.0, 0.0

    def score_pairs(self, _query: str, documents: list[str]) -> list[float]:
        began = time.perf_counter()
        time.sleep(self._seconds)
        with self._lock:
            self._first = self._first or began
            self._last = time.perf_counter()
            self._pairs += len(documents)
        return [float(len(document)) for document in documents]

    @property
    def rate(self) -> float:
        """Pairs a second, from the first call to the last one."""
        return self._pairs / (self._last - self._first) if self._pairs else 0.0


class Many(Scorer):
    def score_many(self, requests: list[tuple[str, list[str]]]) -> list[list[float]]:
        return [self.score_pairs(query, documents) for query, documents in requests]


def rate_alone(seconds: float, size: int) -> float:
    """Pairs a second of the scorer itself, in as many threads as it is called in."""
    scorer = Scorer(seconds, None)
    with ThreadPoolExecutor(WIDTH) as pool:
        list(pool.map(lambda _: scorer.score_pairs("q", [""] * size), range(20 * WIDTH)))
    return scorer.rate


def rank(scorer: Scorer, count: int, deadline: float | None, threads: bool) -> list[Ranking]:
    reranker = Reranker(scorer, limits={"deadline": deadline}, log_level="debug")
    lists = [[f"text {number} {index}" for index in range(TEXTS)] for number in range(count)]
    if threads:
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(lambda texts: reranker.rerank("q", texts), lists))

    async def main() -> list[Ranking]:
        return await asyncio.gather(*(reranker.arerank("q", texts) for texts in lists))

    return asyncio.run(main())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--call", type=float, default=0.005, help="seconds of a call")
    parser.add_argument("--counts", default="50,200,1000", help="numbers of rankings")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--many", action="store_true")
    options = parser.parse_args()
    make: Any = Many if options.many else Scorer
    print(
        "| rankings | deadline | batch_size | ok | partial | unchanged | rate | without | CPU s |"
    )
    print("| --- " * 9 + "|")
    for count in map(int, options.counts.split(",")):
        for deadline in (1.0, 5.0):
            for size in (8, TEXTS, None):
                alone = rate_alone(options.call, size or TEXTS)
                free = make(options.call, size)
                for ranking in rank(free, count, None, options.threads):
                    check(ranking.report)
                scorer = make(options.call, size)
                began = time.process_time()
                rankings = rank(scorer, count, deadline, options.threads)
                cpu = time.process_time() - began
                for ranking in rankings:
                    check(ranking.report, LIMITED)
                status = Counter(ranking.report.status for ranking in rankings)
                rates = f"{scorer.rate / alone:.2f} | {free.rate / alone:.2f}"
                found = " | ".join(str(status[name]) for name in ("ok", "partial", "unchanged"))
                print(f"| {count} | {deadline:g} | {size} | {found} | {rates} | {cpu:.2f} |")


if __name__ == "__main__":
    main()
