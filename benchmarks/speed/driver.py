"""Starts one worker process per row, and sends requests to them in turn."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.speed import environments

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 900.0  # seconds for one reply
SPARE_MB = 4000.0
"""Idle workers are stopped when less memory than this is available."""
START = ("what is a cat", ["A cat is a small animal.", "A dog is another animal."])


MEASURED = ("A", "B")
"""Workloads whose memory counts: larger ones follow in the same process."""


class WorkerError(Exception):
    """A worker reported an error, ended, or did not reply in time."""


@dataclass(frozen=True)
class Row:
    """A row of the tables: an engine with its settings, in an environment.

    ``group`` is ``ours``, ``baseline``, ``loop``, ``peer`` or ``peak``.
    """

    name: str
    engine: str
    group: str
    environment: str = environments.OURS
    settings: dict[str, Any] = field(default_factory=dict)


def available_mb() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 1024
    return float("inf")


def worker_environment(row: Row, threads: int) -> dict[str, str]:
    """The environment variables of a worker: the number of threads, no network."""
    variables = dict(os.environ)
    if row.environment != environments.OURS:
        variables.pop("PYTHONPATH", None)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
        variables[name] = str(threads)
    variables["TOKENIZERS_PARALLELISM"] = "false" if threads == 1 else "true"
    variables |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    variables |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}
    variables |= {"HAYSTACK_TELEMETRY_ENABLED": "false", "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
    return variables


class Worker:
    """A worker process.

    Args:
        row: engine and settings.
        model: folder of the model.
        scratch: a folder for files that engines need.
        threads: number of threads of the engine.
        log: file for the process's standard error.
    """

    def __init__(self, row: Row, model: Path, scratch: Path, threads: int, log: Path) -> None:
        self.row = row
        started = time.perf_counter()
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [str(environments.python_of(row.environment)), "-m", "benchmarks.speed.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                env=worker_environment(row, threads),
            )
        self._pending = b""
        try:
            self.ask(
                do="load",
                row={"engine": row.engine, "settings": row.settings},
                model=str(model),
                scratch=str(scratch),
                threads=threads,
                request=list(START),
            )
            self.start_seconds = time.perf_counter() - started
        except BaseException:
            self.kill()
            raise

    def ask(self, timeout: float = TIMEOUT, **command: Any) -> dict[str, Any]:
        """Sends a command and returns the reply.

        Raises:
            WorkerError: the reply is an error, the process ended, or it took too long.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise WorkerError("the process ended") from error
        reply: dict[str, Any] = json.loads(self._read_line(time.monotonic() + timeout))
        if "error" in reply:
            raise WorkerError(reply["error"])
        return reply

    def _read_line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise WorkerError("no reply in time")
                part = os.read(descriptor, 1 << 16)
                if not part:
                    code = self._process.wait(10)
                    raise WorkerError(f"the process ended with status {code}")
                self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def quit(self) -> None:
        """Asks the process to end, and ends it if it does not within 10 s."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b'{"do": "quit"}\n')
            self._process.stdin.close()
            self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@dataclass
class Measured:
    """Measurements of a row."""

    error: str = ""
    start: list[float] = field(default_factory=list)  # seconds from process start to first score
    memory_mb: float = 0.0
    about: dict[str, Any] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)  # seconds a request, by workload
    wall: dict[str, list[float]] = field(default_factory=dict)
    indices: dict[str, list[int]] = field(default_factory=dict)  # of the requests
    scores: dict[str, list[list[float]]] = field(default_factory=dict)


class Pool:
    """The workers of all rows; each is started for its first request, and keeps running.

    If memory becomes scarce, the least recently used workers are stopped; the next request starts
    them again. A row whose worker fails gets no further requests.
    """

    def __init__(self, model: Path, folder: Path, threads: int, requests: Path) -> None:
        """``requests`` has a JSON file of [query, passages] for each workload."""
        self._model = model
        self._folder = folder
        self._threads = threads
        self._requests = requests
        self._workers: dict[str, Worker] = {}  # least recently used first
        self.measured: dict[str, Measured] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.quit()
        self._workers.clear()

    def of(self, row: Row) -> Measured:
        return self.measured.setdefault(row.name, Measured())

    def start(self, row: Row, *, warm_up: int = 0) -> Worker | None:
        """The row's worker, started and warmed up if necessary; None if it cannot run.

        Args:
            warm_up: pairs of each warm-up request, 0 for none.
        """
        measured = self.of(row)
        if measured.error:
            return None
        if row.name in self._workers:
            worker = self._workers.pop(row.name)
            self._workers[row.name] = worker
            return worker
        self._make_room()
        try:
            if reason := environments.reason(row.environment):
                raise WorkerError(reason)
            log = self._folder / "workers.log"
            worker = Worker(row, self._model, self._folder, self._threads, log)
            self._workers[row.name] = worker
            measured.start.append(worker.start_seconds)
            measured.about = worker.ask(do="about")
            if warm_up:
                for index in range(2):
                    self._send(worker, "warm-up", index, warm_up)
                measured.about = worker.ask(do="about")
        except (WorkerError, OSError) as error:
            self._fail(row, str(error))
            return None
        return worker

    def stop(self, row: Row) -> None:
        if row.name in self._workers:
            self._workers.pop(row.name).quit()

    def score(
        self, row: Row, workload: str, index: int, *, count: int | None = None, warm_up: int = 100
    ) -> dict[str, Any] | None:
        """The reply of a row's worker to a request, recorded; None if it cannot run."""
        worker = self.start(row, warm_up=warm_up)
        if worker is None:
            return None
        try:
            reply = self._send(worker, workload, index, count)
        except WorkerError as error:
            self._fail(row, str(error))
            return None
        measured = self.of(row)
        if workload in MEASURED:
            measured.memory_mb = max(measured.memory_mb, reply["peak_mb"])
        measured.cpu.setdefault(workload, []).append(reply["cpu"])
        measured.wall.setdefault(workload, []).append(reply["wall"])
        measured.indices.setdefault(workload, []).append(index)
        measured.scores.setdefault(workload, []).append(reply["scores"])
        return reply

    def _send(self, worker: Worker, workload: str, index: int, count: int | None) -> dict[str, Any]:
        file = str(self._requests / f"{workload}.json")
        return worker.ask(do="score", file=file, index=index, count=count)

    def _fail(self, row: Row, error: str) -> None:
        self.of(row).error = error
        if row.name in self._workers:
            self._workers.pop(row.name).kill()

    def _make_room(self) -> None:
        while self._workers and available_mb() < SPARE_MB:
            name = next(iter(self._workers))
            self._workers.pop(name).quit()
