"""Monitoring: what rankings did day by day, without any text.

::

    import secondpass
    from secondpass.monitoring import Monitor

    secondpass.observe(Monitor("monitoring"))  # every ranking of this process from now on

:func:`secondpass_evaluation.drift` and ``secondpass drift`` compare two periods.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from weakref import WeakSet

from secondpass.concurrency.waiting import BackgroundThread, Signal
from secondpass.errors import InputError
from secondpass.formats.lines import AnyPath
from secondpass.monitoring.ranking_days import (
    DayCounts,
    DayFiles,
    DayKey,
    Days,
    line_of,
    merge_days,
    read_days,
)
from secondpass.monitoring.ranking_days import is_day as is_day
from secondpass.monitoring.ranking_statistics import STATISTICS, ranking_statistics
from secondpass.monitoring.sketches import Repeats as Repeats
from secondpass.monitoring.sketches import Sketch as Sketch
from secondpass.monitoring.sketches import design_effect as design_effect
from secondpass.ranking.diagnostics import log, without_folders
from secondpass.ranking.observers import Operation, RankingOperation, Registration, observe
from secondpass.settings import describe
from secondpass.types import Report

__all__ = ["STATISTICS", "DayCounts", "DayKey", "Days", "Monitor", "read_days"]

_VERSION: str = import_module("secondpass").__version__  # its name, because it is above this room

_monitors: WeakSet[Monitor] = WeakSet()


class Monitor:
    """An observer that keeps sketches of what rankings do, a file for each day.

    For each day, reranker and method it stores how many rankings had which status and which issues,
    and a sketch for each of :data:`STATISTICS`, with one number per ranking: scores, how far
    candidates moved, and what the retriever returned. It stores no text, no id and no key, and only
    the last part of a local model's path.

    Pass it to :func:`secondpass.observe`, or use it in a with block, in which it observes. All
    rankings of the process are counted, those of adapters, too. It can be used from many threads,
    and many processes can write to one folder. What is not yet written is written when it is
    closed and when the process ends; a process that is killed loses at most the last ``every``
    seconds.

    Args:
        folder: where to write; created if it is absent. A file has a line for each reranker and
            method, 500 at most and one for all others, and at most 8,293 bins for each statistic of
            a line.
        every: seconds between writes, above 0.
        keep: number of days with files to keep, the last ones, at least 1; None keeps all.

    Raises:
        InputError: an argument is wrong; or the monitor enters a with block within another.
        OSError: the folder cannot be created.
    """

    def __init__(self, folder: AnyPath, *, every: float = 60.0, keep: int | None = 400) -> None:
        if isinstance(every, bool) or not isinstance(every, int | float) or not 0 < every < 1e9:
            raise InputError(f"every: must be a number of seconds above 0, not {describe(every)}")
        if keep is not None and (type(keep) is not int or keep < 1):
            raise InputError(
                f"keep: must be None or an integer of at least 1, not {describe(keep)}"
            )
        self.folder = Path(folder)
        self.every = every
        self.keep = keep
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"folder: {folder} is a file; give a folder to write to")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._registration: Registration | None = None
        self._closed = False
        self._failed = False
        self._begin()
        _monitors.add(self)
        atexit.register(self.close)

    def _begin(self) -> None:
        """Reset the state: of a new monitor, or of one in a forked child.

        The parent writes what was counted before the fork, and has the locks and the thread.
        """
        self._files = DayFiles(self.folder, self.keep)
        self._days: Days = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._start()

    def _start(self) -> None:
        """Prepare the thread that writes, which begins with the first ranking."""
        self._stop = Signal()
        self._thread = BackgroundThread(partial(self._run, self._stop), "secondpass-monitor")

    def __enter__(self) -> Monitor:
        if self._registration is not None:
            raise InputError("the monitor is in a with block already; it would count twice")
        if self._closed:
            self._closed = False
            self._start()
            atexit.register(self.close)
        self._registration = observe(self)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def end(self, operation: Operation) -> None:
        """Count a ranking that has ended."""
        if not isinstance(operation, RankingOperation):
            return
        report, trace = operation.report, operation.trace
        day, name = time.strftime("%Y-%m-%d", time.gmtime()), without_folders(operation.name)
        if report is None:
            key = DayKey(day, name, None, None, _VERSION, None)
            self._add(key, operation.query, "cancelled", [operation.error or "cancelled"], {})
            return
        method = report.method and without_folders(report.method)
        key = DayKey(day, name, method, report.score_kind, _VERSION, _engine(report))
        statistics = {} if trace is None else ranking_statistics(trace)
        # A skipped ranking has no method, like a failed one; the status distinguishes them.
        skipped = report.status == "ok" and report.skipped is not None and report.method is None
        status = "skipped" if skipped else report.status
        codes = [issue.code for issue in report.issues]
        self._add(key, operation.query, status, codes, statistics)

    def flush(self) -> None:
        """Write what is not yet written.

        Raises:
            OSError: the folder cannot be written to. Nothing is lost; the next call tries again.
        """
        with self._writing:
            days: Days = {}
            try:
                with self._lock:
                    days, self._days = self._days, {}
                for day in sorted({key.day for key in days}):
                    part = {key: counts for key, counts in days.items() if key.day == day}
                    self._files.add(day, part)
                    for key in part:
                        del days[key]
            finally:
                with self._lock:
                    merge_days(self._days, days)  # empty, unless writing failed
            self._files.delete_old()

    def close(self) -> None:
        """Stop observing if a with block started it, and write what is not yet written."""
        if self._registration is not None:
            self._registration.close()
            self._registration = None
        self._closed = True
        self._stop.set()
        atexit.unregister(self.close)
        self._flush_or_log()

    # ------------------------------------------------------------------ private

    def _add(
        self, key: DayKey, query: int, status: str, issues: list[str], statistics: dict[str, float]
    ) -> None:
        with self._lock:
            key = line_of(self._days, key)
            counts = self._days.get(key)
            if counts is None:
                counts = self._days[key] = DayCounts()
            counts.add(query, status, issues, statistics)
            if not self._thread.started and not self._closed:
                self._start_thread()
            write_now = self._closed or not self._thread.started
        if write_now:
            self._flush_or_log()

    def _start_thread(self) -> None:
        with contextlib.suppress(RuntimeError):  # no thread can be started
            self._thread.start()
        if (module := sys.modules.get("multiprocessing")) and module.parent_process() is not None:
            from multiprocessing.util import Finalize

            # A forked worker ends without the functions of atexit.
            Finalize(None, self.close, exitpriority=1)

    def _run(self, stop: Signal) -> None:
        while not stop.wait(self.every):
            self._flush_or_log()

    def _flush_or_log(self) -> None:
        try:
            self.flush()
        except Exception as error:  # the thread has to continue
            if not self._failed:  # log once until a write succeeds
                self._failed = True
                reason = getattr(error, "strerror", None) or type(error).__name__
                log("warning", "monitoring cannot write to %s: %s", self.folder, reason)
        else:
            self._failed = False


def _engine(report: Report) -> str | None:
    """Backend and precision of the local models of a ranking."""
    names = {f"{engine.backend} {engine.precision}" for engine in report.engines}
    return ", ".join(sorted(names)) or None


def _after_fork() -> None:
    for monitor in list(_monitors):
        monitor._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
