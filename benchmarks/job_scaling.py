"""Measures the speedup of ``secondpass job`` by a second single-threaded worker (Linux).

    python -m benchmarks.job_scaling
    python -m benchmarks.job_scaling --preset embedded --collection FOLDER --rounds 5
    python -m benchmarks.job_scaling --preset lexical --queries 2000 --candidates 2 --batch 1

Runs with one worker and with two alternate, and the table has the figures of both. The last command
measures the cost of a batch.

Rates are measured between the first and the last part file, which excludes the start of Ray. On a
machine with other load, two workers wait for each other, so the ratio that the CPU times allow is
printed as well. It assumes two idle cores: one worker leaves the driver a core of its own, two
share both cores with it. The target is 1.8. The text is Python's language reference;
``--collection`` names a collection to use instead.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs import Run, run_job, write_requests

QUERIES = {"lexical": 4_000, "embedded": 100}
PARTS = 24
FIELDS = ("seconds", "workers", "driver", "others")


@dataclass(frozen=True)
class Steady:
    """Times per query of a run, between the first and the last part file that it wrote.

    Attributes:
        seconds: wall-clock.
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
    parser.add_argument("--preset", action="append", choices=[*QUERIES], help="default: both")
    parser.add_argument(
        "--queries", type=int, help="default: 4,000 with lexical, 100 with embedded"
    )
    parser.add_argument("--candidates", type=int, default=100, help="per query")
    parser.add_argument("--rounds", type=int, default=3, help="the table has medians over them")
    parser.add_argument("--batch", type=int, help="queries per part file; default: a 24th of them")
    parser.add_argument("--collection", type=Path, help="a collection with queries.jsonl")
    options = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| preset | queries per s | ratio | CPU ms per query: workers", end=" ")
    print("| driver | Ray | ratio by CPU time |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for preset in options.preset or QUERIES:
        measure(preset, options)


def measure(preset: str, options: argparse.Namespace) -> None:
    queries = options.queries or QUERIES[preset]
    runs: dict[int, list[Steady]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        path = write_requests(
            Path(folder) / "in.jsonl", queries, options.candidates, options.collection
        )
        output = Path(folder) / "out"
        batch = options.batch or -(-queries // PARTS)
        arguments = ["--input", path, "--preset", preset, "--batch", batch]
        for _ in range(options.rounds):
            for workers, found in runs.items():
                run = run_job([*arguments, "--workers", workers], output, interval=2)
                found.append(steady(run, output, queries))
    one, two = (
        Steady(*(statistics.median(getattr(run, name) for run in found) for name in FIELDS))
        for found in runs.values()
    )
    ratios = [one.seconds / two.seconds for one, two in zip(runs[1], runs[2], strict=True)]
    used = two.workers + two.driver + two.others  # nothing, if the job ends between two samples
    by_cpu = 2 * one.workers / used if used else math.nan
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
