"""Worker processes. They share the listening socket and nothing else."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from secondpass.ranking.diagnostics import log
from secondpass_server.http.metrics import FOLDER_VARIABLE
from secondpass_server.http.server import Plan, deferred_sigterm, run

_POLL_SECONDS = 0.2
_SHORTEST_LIFE = 5.0
"""Seconds from the start of a worker before which it is not replaced: the next may fail, too."""
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def log_to_stderr() -> None:
    """Log to standard error, one line per record, instead of to other handlers."""
    logger = logging.getLogger("secondpass")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    logger.handlers[:] = [handler]
    logger.propagate = False


def run_workers(plan: Plan, listening: socket.socket, early: Sequence[int] = ()) -> None:
    """Serve in several processes until SIGTERM or SIGINT. A worker that ends is replaced."""
    context = multiprocessing.get_context("spawn")
    stopping: list[int] = []

    def start() -> tuple[Any, float]:
        process = context.Process(target=_work, args=(plan, listening), name="secondpass-worker")
        _block_sigterm(True)  # in the process, until it defers the signal
        try:
            process.start()
        finally:
            _block_sigterm(False)
        return process, time.monotonic()

    before = {
        number: signal.signal(number, lambda number, _frame: stopping.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        resource_tracker.ensure_running()  # else the first process starts it, and unblocks SIGTERM
        with _metrics_folder():
            workers = [start() for _ in range(plan.workers)]
            stopping.extend(early)
            while not stopping:
                time.sleep(_POLL_SECONDS)
                for index, (process, started) in enumerate(workers):
                    if process.is_alive() or stopping:
                        continue
                    log("error", "a worker ended with exit code %s", process.exitcode)
                    _forget(process.pid)
                    while time.monotonic() < started + _SHORTEST_LIFE and not stopping:
                        time.sleep(_POLL_SECONDS)
                    if not stopping:
                        workers[index] = start()
            for process, _ in workers:
                if process.is_alive() and process.pid is not None:
                    os.kill(process.pid, signal.SIGTERM)
            listening.close()
            for process, _ in workers:
                process.join(plan.drain + plan.grace + 10)
                if process.is_alive():
                    process.kill()
                    process.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _work(plan: Plan, listening: socket.socket) -> None:
    with deferred_sigterm() as early:
        _block_sigterm(False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal
        log_to_stderr()
        threading.Thread(target=_end_with_parent, name="secondpass-parent", daemon=True).start()
        run(plan, listening, early)


def _block_sigterm(block: bool) -> None:
    """Block SIGTERM in this thread, and so in processes that it starts; or take it again."""
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        how = signal.SIG_BLOCK if block else signal.SIG_UNBLOCK
        signal.pthread_sigmask(how, {signal.SIGTERM})


def _end_with_parent() -> None:
    """Send SIGTERM to this worker when its parent is killed, which would have stopped it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _forget(pid: int | None) -> None:
    """Remove the running requests of a process that has ended from the metrics."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid)  # type: ignore[no-untyped-call]


@contextmanager
def _metrics_folder() -> Iterator[None]:
    """Create the folder for the metrics of the workers, unless the variable names one."""
    if os.environ.get(FOLDER_VARIABLE):
        yield
        return
    folder = tempfile.mkdtemp(prefix="secondpass-metrics-")
    os.environ[FOLDER_VARIABLE] = folder
    try:
        yield
    finally:
        del os.environ[FOLDER_VARIABLE]
        shutil.rmtree(folder, ignore_errors=True)
