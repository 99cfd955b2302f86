"""The threads that run batches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

from secondpass.concurrency.workers import Worker


class Workers:
    """Workers with and without a job. Not safe for use from several threads at once.

    Args:
        count: maximum number of workers with a job.
        name: of the threads.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()

    @property
    def any_busy(self) -> bool:
        """Whether any worker has a job."""
        return bool(self._busy)

    def is_busy(self, worker: Worker) -> bool:
        """Whether a worker should run its job; see :meth:`submit`."""
        return worker in self._busy

    def start(self, job: Callable[[Worker], None]) -> None:
        """Give a worker a job, unless all have one, or none is idle and none can be started.

        Raises:
            RuntimeError: the process ends, and a worker was idle.
        """
        if len(self._busy) >= self._count:
            return
        if self._idle:
            self.submit(self._idle.pop(), job)
            return
        with contextlib.suppress(RuntimeError):
            self.submit(Worker(self._name), job)

    def submit(self, worker: Worker, job: Callable[[Worker], None]) -> None:
        """Give a worker a job. After an error it is not busy, even if its thread was started.

        So a job must first ask :meth:`is_busy`, as soon as this has returned or raised.

        Raises:
            RuntimeError: see :meth:`Worker.submit`; of a worker that had a job, the process ends.
        """
        # In this order, so that Ctrl-C in between leaves no worker busy that has no job.
        self._busy.discard(worker)
        worker.submit(partial(job, worker))
        self._busy.add(worker)

    def release(self, worker: Worker) -> None:
        """Let a worker be idle."""
        self._busy.discard(worker)
        self._idle.append(worker)
