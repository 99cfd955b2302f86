"""What one worker does in a second: the rates behind the arithmetic of docs/scale.md.

    python -m benchmarks.scale_rates
    python -m benchmarks.scale_rates --queries 200

Pairs of workload A (about 80 tokens; ``benchmarks/speed/workloads.py``), 100 to a query, 64 queries
at a time as ``secondpass job`` ranks them, one thread. A second of CPU time is what counts: the
machine may do other things as well. The language model is a function that answers after 300 ms, so
its rate is what the number of concurrent questions allows, and the CPU time is the limit of a core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.speed import workloads
from benchmarks.speed.machine import describe

from secondpass import Reranker
from secondpass.config import load, merged, preset
from secondpass.scorers import minilm

SECONDS = 0.3
Requests = Sequence[tuple[str, list[str]]]


class Grader:
    """A language model that answers the questions of ``graded`` after 300 ms."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, messages: list[dict[str, str]]) -> str:
        self.calls += 1
        await asyncio.sleep(SECONDS)
        labels = re.findall(r'<doc id="([^"]*)">', messages[-1]["content"])
        return json.dumps({label: len(label) % 4 for label in labels})


def local(requests: Requests) -> Iterator[tuple[str, Callable[[], Reranker], Requests]]:
    """The local methods, each with as many requests as take some seconds."""
    yield "`lexical`", lambda: load(preset("lexical")), requests
    for precision in ("auto", "exact"):
        config = merged(preset("embedded"), {"method": {"threads": 1, "precision": precision}})
        few = requests[: max(2, len(requests) // 20)]
        yield f"`embedded`, `{precision}`", lambda config=config: load(config), few  # type: ignore[misc]


def measure(build: Callable[[], Reranker], requests: Requests) -> tuple[float, float, float]:
    """Pairs per second, pairs per second of CPU time, and seconds until the first ranking."""
    began = time.perf_counter()
    reranker = build()
    check(reranker, requests[:1])
    first = time.perf_counter() - began
    began, cpu = time.perf_counter(), time.process_time()
    check(reranker, requests)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    pairs = sum(len(texts) for _, texts in requests)
    return pairs / seconds, pairs / cpu, first


def check(reranker: Reranker, requests: Requests) -> None:
    for start in range(0, len(requests), 64):
        for ranking in reranker.rerank_many(requests[start : start + 64]):
            if ranking.report.status != "ok":
                raise SystemExit(f"{ranking.report}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--queries", type=int, default=240)
    options = parser.parse_args()
    tokenizer = minilm.load_tokenizer()
    tokenizer.no_truncation()
    found = workloads.generated(tokenizer, "A", options.queries, 100)
    requests = [(request.query, request.passages) for request in found]
    size = sum(len(json.dumps({"query": query, "candidates": texts})) for query, texts in requests)
    machine: Mapping[str, Any] = describe()
    print(f"{machine['processor']}, {machine['family']}, {machine['date']}, load {machine['load']}")
    print(f"{size / len(requests) / 100:.0f} bytes of input a pair\n")
    print("| method | pairs per s | pairs per CPU s | first ranking s |")
    print("| --- | ---: | ---: | ---: |")
    for name, build, some in local(requests):
        rate, cpu_rate, first = measure(build, some)
        print(f"| {name} | {rate:,.0f} | {cpu_rate:,.0f} | {first:.2f} |", flush=True)
    for concurrency in (8, 64):
        grader = Grader()
        config = {
            "method": {"type": "graded", "llm": grader},
            "depth": 100,
            "limits": {"concurrency": concurrency},
        }
        reranker = Reranker.from_config(config)
        rate, cpu_rate, first = measure(lambda made=reranker: made, requests[: 4 * concurrency])  # type: ignore[misc]
        pairs = 100 * (1 + len(requests[: 4 * concurrency])) / grader.calls
        print(
            f"| `graded`, {concurrency} questions of {pairs:.0f} pairs at a time "
            f"| {rate:,.0f} | {cpu_rate:,.0f} | {first:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
