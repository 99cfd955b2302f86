"""How much faster are two single-threaded workers of ``secondpass job`` than one? (Linux)

    python -m benchmarks.job_scaling
    python -m benchmarks.job_scaling --preset embedded --data FOLDER --rounds 5

Runs with one worker and with two take turns. Rates are those between the first and the last block,
so the start of Ray, which takes as long for any number of workers, does not count. A machine that
does other things as well makes two workers wait for each other: the CPU time per query says how
many of them its cores could feed. ``--data`` takes a collection of real text instead of Python's
language reference.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path

from benchmarks.jobs import Run, run_job, write_requests

BAR = 1.8
QUERIES = {"lexical": 4_000, "embedded": 100}
BLOCKS = 24


def rate(output: Path, queries: int, blocks: int) -> float:
    """Queries per second between the first block that was written and the last."""
    written = sorted(part.stat().st_mtime for part in output.glob("part-*.jsonl"))
    return queries * (len(written) - 1) / blocks / (written[-1] - written[0])


def cpu(run: Run) -> tuple[float, float, float]:
    """CPU seconds of the workers, of the driver, and of Ray's other processes."""
    workers = sum(process.cpu for process in run.workers)
    every = sum(process.cpu for process in run.processes.values())
    return workers, run.driver.cpu, every - workers - run.driver.cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--preset", action="append", choices=[*QUERIES])
    parser.add_argument("--queries", type=int)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, help="a collection with queries.jsonl")
    options = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| preset | 1 worker | 2 workers | ratio | CPU s per 1,000 queries, 1 and 2 |")
    print("| --- | ---: | ---: | ---: | --- |")
    for preset in options.preset or QUERIES:
        measure(preset, options)


def measure(preset: str, options: argparse.Namespace) -> None:
    queries = options.queries or QUERIES[preset]
    block = -(-queries // BLOCKS)
    rates: dict[int, list[float]] = {1: [], 2: []}
    used: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        path = write_requests(Path(folder) / "in.jsonl", queries, options.candidates, options.data)
        for _ in range(options.rounds):
            for workers in (1, 2):
                output = Path(folder) / "out"
                arguments = ["--input", path, "--preset", preset, "--workers", workers]
                run = run_job([*arguments, "--block", block], output)
                rates[workers].append(rate(output, queries, -(-queries // block)))
                used[workers].append(cpu(run))
    ratios = [two / one for one, two in zip(rates[1], rates[2], strict=True)]
    one, two = (f"{statistics.median(rates[workers]):.1f} /s" for workers in (1, 2))
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}; {BAR} is the aim"
    print(
        f"| `{preset}` | {one} | {two} | {statistics.median(ratios):.2f} ({spread}) "
        f"| {'; '.join(shares(used[workers], queries) for workers in (1, 2))} |",
        flush=True,
    )


def shares(used: list[tuple[float, float, float]], queries: int) -> str:
    """CPU seconds per 1,000 queries, medians of the runs."""
    values = [1_000 * statistics.median(part) / queries for part in zip(*used, strict=True)]
    return "{:.1f} (workers) + {:.1f} (driver) + {:.1f} (Ray)".format(*values)


if __name__ == "__main__":
    main()
