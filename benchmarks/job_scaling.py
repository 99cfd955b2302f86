"""Measures the speedup of ``secondpass job`` by a second single-threaded worker (Linux).

    python -m benchmarks.job_scaling
    python -m benchmarks.job_scaling --preset embedded --data FOLDER --rounds 5
    python -m benchmarks.job_scaling --preset lexical --queries 2000 --candidates 2 --block 1

Prints the figures of one worker and of two. The last call says what a block costs.

Runs with one worker and with two take turns. Rates are those between the first and the last block,
so the start of Ray, which takes as long for any number of workers, does not count. A machine that
does other things as well makes two workers wait for each other. So the ratio that CPU times allow
is printed, too: on two cores that do nothing else, where one worker leaves the driver a core of its
own, and two share both with it. The aim is 1.8. ``--data`` takes a collection of real text instead
of Python's language reference.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs import Run, run_job, write_requests

QUERIES = {"lexical": 4_000, "embedded": 100}
BLOCKS = 24
FIELDS = ("seconds", "workers", "driver", "others")


@dataclass(frozen=True)
class Steady:
    """A run between the first block that was written and the last: per query.

    Attributes:
        seconds: by the clock.
        workers: CPU seconds of all workers.
        driver: CPU seconds of the driver.
        others: CPU seconds of Ray's other processes.
    """

    seconds: float
    workers: float
    driver: float
    others: float


def steady(run: Run, output: Path, queries: int) -> Steady:
    parts = sorted(output.glob("part-*.jsonl"), key=lambda part: part.stat().st_mtime)
    first, last = (part.stat().st_mtime - run.began for part in (parts[0], parts[-1]))
    later = queries * (len(parts) - 1) / len(parts)
    every = sum(process.used(first, last) for process in run.processes.values())
    workers = sum(process.used(first, last) for process in run.workers)
    driver = run.driver.used(first, last)
    measured = last - first, workers, driver, every - workers - driver
    return Steady(*(seconds / later for seconds in measured))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--preset", action="append", choices=[*QUERIES])
    parser.add_argument("--queries", type=int)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--block", type=int, help="queries of a block; default: a 24th")
    parser.add_argument("--data", type=Path, help="a collection with queries.jsonl")
    options = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| preset | queries per s | ratio | CPU ms a query: workers", end=" ")
    print("| driver | Ray | ratio by CPU time |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for preset in options.preset or QUERIES:
        measure(preset, options)


def measure(preset: str, options: argparse.Namespace) -> None:
    queries = options.queries or QUERIES[preset]
    runs: dict[int, list[Steady]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        path = write_requests(Path(folder) / "in.jsonl", queries, options.candidates, options.data)
        output = Path(folder) / "out"
        block = options.block or -(-queries // BLOCKS)
        arguments = ["--input", path, "--preset", preset, "--block", block]
        for _ in range(options.rounds):
            for workers, found in runs.items():
                run = run_job([*arguments, "--workers", workers], output, interval=2)
                found.append(steady(run, output, queries))
    one, two = (
        Steady(*(statistics.median(getattr(run, name) for run in found) for name in FIELDS))
        for found in runs.values()
    )
    ratios = [one.seconds / two.seconds for one, two in zip(runs[1], runs[2], strict=True)]
    by_cpu = 2 * one.workers / (two.workers + two.driver + two.others)
    print(
        f"| `{preset}` | {1 / one.seconds:.1f}, {1 / two.seconds:.1f} "
        f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) "
        f"| {1e3 * one.workers:.1f}, {1e3 * two.workers:.1f} "
        f"| {1e3 * one.driver:.1f}, {1e3 * two.driver:.1f} "
        f"| {1e3 * one.others:.1f}, {1e3 * two.others:.1f} | {by_cpu:.2f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
