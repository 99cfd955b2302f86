"""Threads with one job after the other."""

import threading
from functools import partial
from queue import SimpleQueue

import pytest

from no_threads import refuse_threads
from secondpass.concurrency import left_behind
from secondpass.concurrency.workers import Worker
from secondpass.scorers.batching.workers import Workers

SECONDS = 60


@pytest.fixture
def jobs():
    """What the jobs put: the worker, and the name of its thread."""
    return SimpleQueue()


def run(workers, jobs):
    """Start a job; the worker and its thread, once it has run."""
    workers.start(lambda worker: jobs.put((worker, threading.current_thread())))
    return jobs.get(timeout=SECONDS)


def test_an_idle_worker_has_the_next_job(jobs):
    workers = Workers(2, "a-name")
    worker, thread = run(workers, jobs)
    assert thread.name.startswith("a-name")
    assert workers.is_busy(worker)
    workers.release(worker)
    assert not workers.any_busy
    assert run(workers, jobs) == (worker, thread)
    other, second = run(workers, jobs)  # the first is busy
    assert other is not worker
    assert second is not thread


def test_not_more_jobs_than_workers(jobs):
    workers = Workers(1, "w")
    worker, _ = run(workers, jobs)
    started = []
    workers.start(started.append)
    workers.release(worker)
    run(workers, jobs)
    assert not started


def test_no_thread_can_be_started(monkeypatch):
    refuse_threads(monkeypatch)
    workers = Workers(1, "w")
    workers.start(lambda worker: None)
    assert not workers.any_busy


def test_after_an_error_a_worker_is_not_busy(jobs, monkeypatch):
    workers = Workers(1, "w")
    worker, _ = run(workers, jobs)
    monkeypatch.setattr(left_behind, "_exiting", True)
    with pytest.raises(RuntimeError):
        workers.submit(worker, lambda worker: None)
    assert not workers.is_busy(worker)
    workers.release(worker)
    with pytest.raises(RuntimeError):  # of an idle worker: the process ends
        workers.start(lambda worker: None)


def test_jobs_of_a_worker_run_in_order():
    done, worker = SimpleQueue(), Worker("w")
    for number in range(5):
        worker.submit(partial(done.put, number))
    assert [done.get(timeout=SECONDS) for _ in range(5)] == [*range(5)]
