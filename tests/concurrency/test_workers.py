"""Functions that are called in other threads, and what they return or raise."""

import contextvars
import gc
import subprocess
import sys
import threading
import time
import weakref
from contextlib import closing
from queue import SimpleQueue

import pytest

from no_threads import refuse_threads
from secondpass.concurrency import waiting
from secondpass.concurrency.workers import CallResult, Worker, in_threads, uninterrupted

SECONDS = 60


class RaisedError(Exception):
    pass


def fail():
    raise RaisedError


def test_an_error_leaves_no_cycle():
    gc.collect()
    gc.disable()
    try:
        outcome = CallResult(fail)
        reference = weakref.ref(outcome)
        with pytest.raises(RaisedError) as caught:
            outcome.result()
        del outcome, caught
        assert reference() is None
    finally:
        gc.enable()


VARIABLE = contextvars.ContextVar("variable", default="unset")


@pytest.mark.parametrize("threads", [True, False])
def test_uninterrupted(threads, monkeypatch):
    if not threads:
        refuse_threads(monkeypatch)
    context = contextvars.copy_context()
    context.run(VARIABLE.set, "set")
    value, thread = context.run(uninterrupted, lambda: (VARIABLE.get(), threading.current_thread()))
    assert value == "set"
    assert (thread is threading.current_thread()) is not threads
    with pytest.raises(RaisedError):
        uninterrupted(fail)


def test_a_worker_runs_functions_in_its_thread():
    worker = Worker("a-name")
    thread = worker.run(threading.current_thread)
    assert worker.run(threading.current_thread) is thread
    assert worker.run(lambda: threading.current_thread().name) == "a-name"
    with pytest.raises(RaisedError):
        worker.run(fail)
    worker.submit(fail)  # a job's error is dropped, and the next one runs
    assert worker.run(lambda: "next") == "next"


def test_the_thread_of_a_dropped_worker_is_free(monkeypatch):
    monkeypatch.setattr(waiting, "_idle", [])
    worker = Worker("w")
    worker.run(int)
    del worker
    until = time.monotonic() + SECONDS
    while not waiting._idle:
        assert time.monotonic() < until
        time.sleep(0.001)


AT_EXIT = """
import sys, threading, time
from secondpass.concurrency import left_behind
from secondpass.concurrency.workers import Worker

left_behind._SECONDS_AT_EXIT = 0.0
worker, begun = Worker("w"), threading.Event()

def job():
    begun.set()
    time.sleep(0.3)
    try:
        worker.submit(print)
    except RuntimeError as error:
        print(error, flush=True)

worker.submit(job)
worker.submit(lambda: print("the next one", flush=True))
begun.wait(60)
"""


def test_the_process_waits_for_jobs_and_takes_no_more():
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["the process exits", "the next one"]


@pytest.mark.parametrize("threads", [1, 3, 50])
def test_results_are_in_the_order_of_the_items(threads):
    def slow_if_early(number):
        time.sleep(0.02 if number == 0 else 0)
        return number

    assert list(in_threads(slow_if_early, range(20), threads)) == list(range(20))
    assert list(in_threads(slow_if_early, [], threads)) == []


def test_not_more_threads_than_allowed():
    names = SimpleQueue()

    def note(_item):
        names.put(threading.get_ident())
        time.sleep(0.001)

    list(in_threads(note, range(30), 3))
    assert len({names.get() for _ in range(30)}) <= 3


def test_an_error_ends_the_rest():
    def work(number):
        if number == 1:
            raise RaisedError
        return number

    results = in_threads(work, range(1000), 1)
    assert next(results) == 0
    with pytest.raises(RaisedError):
        next(results)
    assert list(results) == []


def test_closed_early_it_waits_for_what_was_begun():
    ended = []

    def work(number):
        time.sleep(0.02)
        ended.append(number)

    with closing(in_threads(work, range(1000), 2)) as results:
        next(results)
    count = len(ended)
    time.sleep(0.05)
    assert len(ended) == count < 1000
