"""Measures whether the memory of ``secondpass job`` grows with its input (Linux).

    python -m benchmarks.job_memory                            # 1,000 and 10,000 queries
    python -m benchmarks.job_memory --queries 100 1000

Ranks 100 candidates per query with ``lexical`` on two workers, samples the memory of all processes
five times a second, and prints the peaks: of the largest worker, of the driver, and of all
processes of the job together, Ray's own included.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.jobs import KINDS, Run, run_job, write_requests

TARGET = 1.2
CANDIDATES = 100


def peaks(run: Run) -> dict[str, dict[str, float]]:
    """Largest MB by process and kind of memory."""
    return {
        "a worker": {kind: max(one.peak(kind) for one in run.workers) for kind in KINDS},
        "the driver": {kind: run.driver.peak(kind) for kind in KINDS},
        "all processes": {kind: run.total(kind) for kind in KINDS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--queries", type=int, nargs=2, default=[1_000, 10_000], help="queries of the two jobs"
    )
    options = parser.parse_args()
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for queries in options.queries:
            path = write_requests(Path(folder) / "in.jsonl", queries, CANDIDATES)
            arguments = ["--input", path, "--preset", "lexical", "--workers", 2]
            runs[queries] = run_job(arguments, Path(folder) / "out", interval=0.2)
            size, seconds = path.stat().st_size / 1e6, runs[queries].seconds
            print(f"{queries:,} queries, {size:,.0f} MB: {seconds:.0f} s", flush=True)
    few, many = (peaks(run) for run in runs.values())
    first, second = (f"{queries:,} queries" for queries in runs)
    print(f"\n| peak in MB | | {first} | {second} | ratio |\n| --- | --- | ---: | ---: | ---: |")
    for name, values in few.items():
        for kind, value in values.items():
            ratio = many[name][kind] / value
            print(f"| {name} | {kind} | {value:.0f} | {many[name][kind]:.0f} | {ratio:.2f} |")
    worst = max(many["a worker"][kind] / few["a worker"][kind] for kind in KINDS)
    print(f"\nLargest ratio of a worker: {worst:.2f} (target: at most {TARGET})")


if __name__ == "__main__":
    main()
