"""Measures the rates of one worker, from which docs/evidence.md estimates large jobs.

    python -m benchmarks.scale_rates
    python -m benchmarks.scale_rates --queries 200

Ranks pairs of workload A (about 80 tokens; ``benchmarks/speed/workloads.py``), 100 per query, 64
queries at a time as in ``secondpass job``, in one thread. Estimates use pairs per CPU second, which
other load on the machine does not change. The language model is a function that answers after
300 ms: its rate per second follows from the number of concurrent questions, and its rate per CPU
second is the limit of a core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import checked
from benchmarks.speed import workloads
from benchmarks.speed.machine import describe

from secondpass import Reranker
from secondpass.config import load, merged, preset
from secondpass.scorers.embedding import minilm
from secondpass.types import no_progress
from secondpass_ray.blocks import Row
from secondpass_ray.inputs import JobInput
from secondpass_ray.ranking import Choices, RowRanker, in_batches

SECONDS = 0.3
DOCUMENTED = {"`cross_encoder`, `auto`": 192.4, "`cross_encoder`, `exact`": 111.3}
"""Pairs of workload A per CPU second on the first processor of docs/data/speed.md."""
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
    """The local methods, each with requests for some seconds."""
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
            checked.check(ranking.report)


def measure_files(requests: Requests) -> tuple[float, float, float, float]:
    """Measure what a job does besides ranking: reading and writing lines.

    Returns:
        Pairs per CPU second of ``lexical`` from JSON lines to JSON lines, MB per CPU second of the
        driver's pass over the input, and bytes of input and of output per pair.
    """
    records = [
        {
            "query_id": f"q{number}",
            "query": query,
            "candidates": [
                {"id": f"d{number}-{index}", "text": text, "score": float(len(texts) - index)}
                for index, text in enumerate(texts)
            ],
        }
        for number, (query, texts) in enumerate(requests)
    ]
    lines = [json.dumps(record).encode() + b"\n" for record in records]
    pairs = sum(len(texts) for _, texts in requests)
    rows = [Row(number, "in.jsonl", number + 1, line) for number, line in enumerate(lines)]
    ranker = RowRanker(load(preset("lexical")), Choices({}))
    written = 0
    cpu = time.process_time()
    for batch in in_batches(rows, 64):
        ranked = ranker.lines(batch, [ranker.parse(row) for row in batch])
        written += sum(len(line.encode()) for line in ranked.lines)
    rate = pairs / (time.process_time() - cpu)
    size = 4 * sum(map(len, lines))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.jsonl"
        path.write_bytes(b"".join(4 * lines))
        cpu = time.process_time()
        JobInput(str(path)).prepare(folder, 256, no_progress)
        megabytes = size / 1e6 / (time.process_time() - cpu)
    return rate, megabytes, size / 4 / pairs, written / pairs


def arithmetic(rates: Mapping[str, float], options: argparse.Namespace) -> None:
    """Print the time for a number of pairs at these rates, if no core slows another one down."""
    cores = options.cores
    columns = " | ".join(f"{options.nodes} nodes of {count} cores" for count in cores)
    print(
        f"\n| {options.pairs:,} pairs | CPU hours | {columns} "
        f"| cost at {options.cpu_price} per core hour |"
    )
    print(f"| --- | ---: |{' ---: |' * len(cores)} ---: |")
    for name, rate in rates.items():
        hours = options.pairs / rate / 3600
        spans = " | ".join(span(hours / options.nodes / count) for count in cores)
        print(f"| {name} | {hours:,.0f} | {spans} | {hours * options.cpu_price:,.0f} |")
    lists = options.pairs / 100
    plan = Reranker.from_config({"method": {"type": "graded", "llm": Grader()}, "depth": 100}).plan(
        100, tokens_per_passage=80
    )
    assert plan.total.calls is not None
    calls, tokens = lists * plan.total.calls, (plan.total.input_tokens, plan.total.output_tokens)
    millions = [lists * amount / 1e6 for amount in tokens if amount is not None]
    cost = millions[0] * options.input_price + millions[1] * options.output_price
    print(f"\n`graded`: {calls:,.0f} questions, {millions[0]:,.0f} million input tokens and")
    print(
        f"{millions[1]:,.0f} million output tokens; cost {cost:,.0f} at {options.input_price} and",
        end=" ",
    )
    print(f"{options.output_price} per million")
    for concurrency in (64, 1_000, 10_000):
        hours = calls * SECONDS / concurrency / 3600
        per_minute = 60 * concurrency / SECONDS * millions[0] * 1e6 / calls
        print(
            f"{concurrency:,} at a time: {span(hours)}, {per_minute:,.0f} input tokens per minute"
        )


def span(hours: float) -> str:
    """A time in the unit that fits."""
    if hours < 1 / 60:
        return f"{hours * 3600:.0f} s"
    return f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.1f} h"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--queries", type=int, default=240, help="queries to measure with")
    parser.add_argument("--pairs", type=int, default=1_000_000_000, help="pairs of the estimate")
    parser.add_argument("--nodes", type=int, default=100, help="nodes of the estimate")
    parser.add_argument("--cores", type=int, nargs="+", default=[2, 16], help="cores per node")
    parser.add_argument("--cpu-price", type=float, default=0.04, help="price of a core hour")
    parser.add_argument(
        "--input-price", type=float, default=0.1, help="price of a million input tokens"
    )
    parser.add_argument(
        "--output-price", type=float, default=0.4, help="price of a million output tokens"
    )
    options = parser.parse_args()
    tokenizer = minilm.load_tokenizer()
    tokenizer.no_truncation()
    found = workloads.generated(tokenizer, "A", options.queries, 100)
    requests = [(request.query, request.passages) for request in found]
    machine: Mapping[str, Any] = describe()
    print(f"{machine['processor']}, {machine['family']}, {machine['date']}, load {machine['load']}")
    print("| method | pairs per s | pairs per CPU s | first ranking s |")
    print("| --- | ---: | ---: | ---: |")
    rates = {}
    for name, build, some in local(requests):
        rate, cpu_rate, first = measure(build, some)
        rates[name] = cpu_rate
        print(f"| {name} | {rate:,.0f} | {cpu_rate:,.0f} | {first:.2f} |", flush=True)
    name = "`lexical`, from JSON lines to JSON lines"
    rates[name], megabytes, bytes_in, bytes_out = measure_files(requests)
    print(f"| {name} | | {rates[name]:,.0f} | |")
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
    gigabytes = options.pairs * bytes_in / 1e9
    pass_time = span(gigabytes / 3.6 / megabytes)
    print(f"\n{bytes_in:.0f} bytes of input and {bytes_out:.0f} of output per pair")
    print(
        f"pass over the input: {megabytes:,.0f} MB per CPU s, {pass_time} for {gigabytes:,.0f} GB"
    )
    arithmetic({**rates, **DOCUMENTED}, options)


if __name__ == "__main__":
    main()
