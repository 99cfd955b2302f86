"""Threads that run jobs one after the other, and functions that are called in several threads."""

from __future__ import annotations

import contextlib
import contextvars
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeAlias, TypeVar

from secondpass.concurrency.left_behind import GuardedCall, process_exits
from secondpass.concurrency.waiting import BackgroundThread, received, start

S = TypeVar("S")
T = TypeVar("T")

_Jobs: TypeAlias = "SimpleQueue[Callable[[], object] | None]"


class CallResult(Generic[T]):
    """What a function has returned or raised, for another thread."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._returned: list[T] = []
        self._raised: BaseException | None = None
        try:
            self._returned.append(function())
        except BaseException as error:
            self._raised = error

    @property
    def failed(self) -> bool:
        """Whether it has raised something, until that was asked for."""
        return self._raised is not None

    def result(self) -> T:
        """What it has returned; raises what it has raised. To be asked once."""
        error, self._raised = self._raised, None
        if error is None:
            return self._returned[0]
        try:
            raise error
        finally:
            del error  # its traceback has this frame


def uninterrupted(function: Callable[[], T]) -> T:
    """Call a function in another thread, in the caller's context, and wait for it.

    Signal handlers run in the main thread only, so that their exceptions do not interrupt it.
    """
    outcomes: SimpleQueue[CallResult[T]] = SimpleQueue()
    context = contextvars.copy_context()
    try:
        start(lambda: outcomes.put(CallResult(partial(context.run, function))))
    except RuntimeError:  # the system starts no more threads
        return function()
    return received(outcomes).result()


class Worker:
    """A thread that runs jobs one after the other, started with the first one.

    It ends with the last reference to it. The process waits for its job before it exits, and a job
    that is submitted then is rejected.
    """

    def __init__(self, name: str) -> None:
        self._jobs: _Jobs = SimpleQueue()
        self._service = BackgroundThread(partial(_work, self._jobs), name)
        weakref.finalize(self, self._jobs.put, None).atexit = False

    def submit(self, job: Callable[[], object]) -> None:
        """Call ``job`` after the earlier ones; what it raises is dropped.

        Raises:
            RuntimeError: the process exits, or the system starts no more threads.
        """
        call = GuardedCall(job, until_it_ends=True)
        call.leave()
        try:
            if process_exits():  # checked after leave(): it waits for all calls that left before
                raise RuntimeError("the process exits")
            self._service.start()
            self._jobs.put(call)
        except BaseException:
            call.end()
            raise

    def run(self, function: Callable[[], T]) -> T:
        """Call a function after the earlier jobs, and return or raise what it does.

        Raises:
            RuntimeError: see :meth:`submit`.
        """
        outcomes: SimpleQueue[CallResult[T]] = SimpleQueue()
        self.submit(lambda: outcomes.put(CallResult(function)))
        return received(outcomes).result()


def _work(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        CallResult(job)
        del job


def in_threads(
    function: Callable[[S], T], items: Iterable[S], threads: int
) -> Generator[T, None, None]:
    """Call a function with each item, in up to this many threads; yield its results in order.

    What it raises is raised in place of the result. After an exception, and at the end, also of an
    iterator that is closed early, no others are begun; those that were begun have ended then.
    """
    jobs = deque((item, SimpleQueue[CallResult[T]]()) for item in items)
    outcomes = [outcome for _, outcome in jobs]
    ended: SimpleQueue[None] = SimpleQueue()

    def work() -> None:
        with contextlib.suppress(IndexError):  # of an empty deque
            while True:
                item, outcome = jobs.popleft()
                ended_call = CallResult(GuardedCall(partial(function, item)))
                if ended_call.failed:
                    jobs.clear()
                outcome.put(ended_call)
        ended.put(None)

    started = 0
    try:
        for _ in range(min(threads, len(outcomes))):
            start(work)
            started += 1
        for outcome in outcomes:
            yield received(outcome).result()
    finally:
        jobs.clear()
        for _ in range(started):
            received(ended)
