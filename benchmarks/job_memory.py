"""Measures whether the memory of ``secondpass job`` grows with its input (Linux).

    python -m benchmarks.job_memory                            # 1,000 and 10,000 queries
    python -m benchmarks.job_memory --queries 100 1000 --plot build/job-memory.svg

Ranks 100 candidates per query with ``lexical`` on two workers, samples the memory of all processes
five times a second, and prints the peaks: of the largest worker, of the driver, and of all
processes of the job together, Ray's own included. Plots the memory of workers and driver over time.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.jobs import KINDS, Process, Run, run_job, write_requests
from benchmarks.speed.plots import COLOURS, LIGHT, figure

TARGET = 1.2


def peaks(run: Run) -> dict[str, dict[str, float]]:
    """Largest MB by process and kind of memory."""
    return {
        "a worker": {kind: max(one.peak(kind) for one in run.workers) for kind in KINDS},
        "the driver": {kind: run.driver.peak(kind) for kind in KINDS},
        "all processes": {kind: run.total(kind) for kind in KINDS},
    }


def draw(runs: dict[int, Run], path: Path) -> None:
    """Memory that is a process's own (USS), over the share of the run's time."""
    with figure(path, 7.2, 3.4) as axes:
        for colour, (queries, run) in zip(COLOURS, runs.items(), strict=False):
            shown: list[tuple[Process, str, str]] = [(run.driver, "driver", ":")]
            shown += [(worker, "workers", "-") for worker in run.workers]
            labels = set()
            for process, name, style in shown:
                times = [now / run.seconds for now, _ in process.memory]
                values = [memory["USS"] for _, memory in process.memory]
                label = f"{queries:,} queries, {name}"
                axes.plot(
                    times,
                    values,
                    style,
                    color=colour,
                    linewidth=1,
                    label=None if label in labels else label,
                )
                labels.add(label)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("share of the time of the run")
        axes.set_ylabel("own memory (USS) in MB")
        axes.grid(color=LIGHT, linewidth=0.5)
        axes.legend(frameon=False, fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--queries", type=int, nargs=2, default=[1_000, 10_000], help="queries of the two jobs"
    )
    parser.add_argument("--candidates", type=int, default=100, help="per query")
    parser.add_argument("--workers", type=int, default=2, help="number of workers")
    parser.add_argument("--preset", default="lexical", help="preset of the reranker")
    parser.add_argument(
        "--plot",
        type=Path,
        default=Path("build/job-memory.png"),
        help="file of the plot (PNG or SVG)",
    )
    options = parser.parse_args()
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for queries in options.queries:
            path = write_requests(Path(folder) / "in.jsonl", queries, options.candidates)
            arguments = ["--input", path, "--preset", options.preset, "--workers", options.workers]
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
    options.plot.parent.mkdir(parents=True, exist_ok=True)
    draw(runs, options.plot)


if __name__ == "__main__":
    main()
