"""Runs ``secondpass job`` in a process and samples all processes that belong to it (Linux)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from own_processes import OwnProcesses

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Process:
    """Samples of one process: its last title, and CPU seconds at each time."""

    title: str
    is_driver: bool
    cpu: list[tuple[float, float]] = field(default_factory=list)

    @property
    def is_worker(self) -> bool:
        return "MapWorker" in self.title

    def used(self, begin: float, end: float) -> float:
        """CPU seconds between two times."""
        seconds = [cpu for now, cpu in self.cpu if begin <= now <= end]
        return seconds[-1] - seconds[0] if seconds else 0.0


@dataclass
class Run:
    """A run of the job: when it began, and its processes."""

    began: float
    processes: dict[int, Process]

    @property
    def workers(self) -> list[Process]:
        return [process for process in self.processes.values() if process.is_worker]

    @property
    def driver(self) -> Process:
        return next(process for process in self.processes.values() if process.is_driver)


def run_job(arguments: Sequence[str | Path | int], output: Path, interval: float) -> Run:
    """Run the job into an empty folder, and sample its processes at an interval in seconds.

    SystemExit with the job's messages if it fails.
    """
    shutil.rmtree(output, ignore_errors=True)
    own = OwnProcesses()
    command = [sys.executable, "-m", "secondpass", "job", *map(str, arguments)]
    messages = output.with_suffix(".stderr")
    messages.parent.mkdir(parents=True, exist_ok=True)
    found: dict[int, Process] = {}
    began = time.time()
    try:
        with messages.open("wb") as stderr:
            driver = subprocess.Popen(
                [*command, "--output", str(output)], stderr=stderr, env=own.environment
            )
            while driver.poll() is None:
                sample(own, driver.pid, time.time() - began, found)
                time.sleep(interval)
    finally:
        own.kill()
    text = messages.read_text(errors="replace")
    if driver.returncode:
        raise SystemExit(text)
    check_rankings(output)
    return Run(began, found)


def check_rankings(output: Path) -> None:
    """Exit unless all rankings of a job's output are ``ok``."""
    for part in output.glob("part-*.jsonl"):
        with part.open(encoding="utf-8") as lines:
            for line in lines:
                if (status := json.loads(line)["report"]["status"]) != "ok":
                    raise SystemExit(f"a ranking of {part.name} is {status}")


def sample(own: OwnProcesses, driver: int, now: float, found: dict[int, Process]) -> None:
    """Record the CPU time of each process."""
    for number, title in own.titles().items():
        with contextlib.suppress(OSError, IndexError):
            process = found.setdefault(number, Process(title, number == driver))
            if "IDLE" not in title:
                process.title = title
            process.cpu.append((now, cpu_seconds(number)))


def cpu_seconds(number: int) -> float:
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


# ---------------------------------------------------------------------- input


def write_requests(path: Path, queries: int, candidates: int, data: Path | None = None) -> Path:
    """Requests of Python's language reference, or of the queries and passages of a collection."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as lines:
        for number, (query, texts) in enumerate(_requests(queries, candidates, data)):
            documents = [
                {"id": f"d{number}-{index}", "text": text, "score": float(candidates - index)}
                for index, text in enumerate(texts)
            ]
            request = {"query_id": f"q{number}", "query": query, "candidates": documents}
            lines.write(json.dumps(request) + "\n")
    return path


def _requests(queries: int, candidates: int, data: Path | None):  # type: ignore[no-untyped-def]
    from benchmarks.speed.workloads import from_collection, shipped_text

    if data is not None:
        for request in from_collection(data, queries, candidates):
            yield request.query, request.passages
        return
    words = shipped_text().split()
    draw = random.Random(0)

    def cut(count: int) -> str:
        start = draw.randrange(len(words) - count)
        return " ".join(words[start : start + count])

    for _ in range(queries):
        yield cut(8), [cut(round(draw.lognormvariate(3.8, 0.35))) for _ in range(candidates)]
