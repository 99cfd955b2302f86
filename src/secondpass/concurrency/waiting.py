"""How a thread that a signal handler may interrupt starts work in other threads, and waits for it.

Ctrl-C, a notebook's interrupt or the time limit of a job raises an exception in the main thread,
between any two instructions of Python code. What ``threading``, ``queue`` and
``concurrent.futures`` wait with is written in Python around a lock: ``Condition``, ``Event``,
``Semaphore``, ``Future``, ``Queue``, the pools, and the start of a ``Thread``. An exception within
leaves that lock held, and the threads that need it next wait for ever. ``SimpleQueue`` is written
in C: the exception comes before or after a call of it. So whatever a caller of secondpass may run
waits by this module, and hands work over by one call written in C.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeAlias, TypeVar

T = TypeVar("T")

_Jobs: TypeAlias = "SimpleQueue[Callable[[], object]]"

_LONGEST = 0.5
"""Seconds of one wait in C. A signal that comes just before it, or on Windows during it, is handled
only after it."""
_MAX_IDLE = 32
_idle: list[_Jobs] = []
"""Queues of the threads that wait for work. They are reused, because a new thread costs time."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads do not survive a fork


def received(queue: SimpleQueue[T], seconds: float | None = None) -> T:
    """The next item of a queue.

    Args:
        queue: to wait for.
        seconds: to wait at most; None for no limit.

    Raises:
        Empty: there is none in time.
    """
    until = math.inf if seconds is None else time.monotonic() + seconds
    while True:
        left = until - time.monotonic()
        try:
            return queue.get(timeout=max(0.0, min(left, _LONGEST)))
        except Empty:
            if left <= _LONGEST:
                raise


class Signal:
    """Something that happens once, for one thread to wait for, or more with a limit."""

    def __init__(self) -> None:
        self.is_set = False
        self._queue: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """Wake those who wait."""
        self.is_set = True
        self._queue.put(None)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set, for a time at most; return whether it is."""
        if not self.is_set:
            with contextlib.suppress(Empty):
                received(self._queue, seconds)
                self._queue.put(None)  # for the next who waits
        return self.is_set


def start(work: Callable[[], object]) -> None:
    """Run ``work`` in an idle daemon thread, or in a new one.

    Raises:
        RuntimeError: the system starts no more threads.
    """
    try:
        # One call in C: after an exception between taking a thread and giving it the work, that
        # thread would wait for ever. iter(pop, None) yields the queue of an idle thread, and map()
        # puts the work into it within next().
        next(map(SimpleQueue.put, iter(_idle.pop, None), [work]))
    except IndexError:
        jobs: _Jobs = SimpleQueue()
        jobs.put(work)
        start_new_thread(_begin, (jobs,))


def _begin(jobs: _Jobs) -> None:
    """Start a thread that Python knows, from this one, which no signal handler interrupts."""
    try:
        threading.Thread(target=_serve, args=[jobs], name="secondpass", daemon=True).start()
    except RuntimeError:  # the system starts no more threads, but has started this one
        _serve(jobs)


def _serve(jobs: _Jobs) -> None:
    while True:
        jobs.get()()  # not assigned to a name, which would keep the caller's context alive
        if len(_idle) >= _MAX_IDLE:
            return
        _idle.append(jobs)


class BackgroundThread:
    """Work that lasts, in a thread of its own, which is started once.

    Args:
        work: for the thread.
        name: of the thread meanwhile.

    Attributes:
        started: whether the thread was started.
    """

    def __init__(self, work: Callable[[], object], name: str = "secondpass") -> None:
        self._work = [work]  # empty as soon as a thread has taken it
        self._name = name
        self.started = False

    def start(self) -> None:
        """Start the thread, unless that was done; after an interruption it may be called again.

        Raises:
            RuntimeError: the system starts no more threads.
        """
        if not self.started:
            start(self._run)
            self.started = True

    def _run(self) -> None:
        try:
            work = self._work.pop()
        except IndexError:  # it was started twice
            return
        thread = threading.current_thread()
        name, thread.name = thread.name, self._name
        try:
            work()
        finally:
            thread.name = name
