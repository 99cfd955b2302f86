"""Locks and values in forked children."""

import subprocess
import sys
import threading

import pytest

from forked import IGNORES_FORKS, NEEDS_FORK, ended_well, run_child
from secondpass.concurrency.lazy import Lazy
from secondpass.concurrency.locks import fork_lock
from secondpass.concurrency.portal import portal
from secondpass.concurrency.threads import in_thread
from secondpass.errors import ModelLoadError

pytestmark = [NEEDS_FORK, IGNORES_FORKS]

MANY_FORKS = """
import os, signal, sys, threading
from secondpass.concurrency.locks import fork_lock

lock = fork_lock()
sys.setswitchinterval(1e-6)  # threads change places as often as they can
stop = threading.Event()

def hold():
    while not stop.is_set():
        with lock:
            pass

def child():
    signal.alarm(60)  # ends it if it hangs
    barrier, errors = threading.Barrier(8), []
    def use():
        barrier.wait()
        try:
            with lock:
                pass
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(len(errors))

parent = threading.Thread(target=hold)
parent.start()
for number in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        child()
    status = os.waitpid(pid, 0)[1]
    if status:
        break
stop.set()
parent.join()
print(number, status)
"""


def in_threads(act, count=8):
    """What ``act`` returns in each of some threads that start together."""
    barrier, results = threading.Barrier(count), []

    def run():
        barrier.wait(60)
        results.append(act())

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


@pytest.mark.parametrize("forks", [25, pytest.param(300, id="300", marks=pytest.mark.long)])
def test_lock_in_threads_of_many_children(forks):
    command = [sys.executable, "-c", MANY_FORKS, str(forks)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.split() == [str(forks - 1), "0"]


def test_lock_of_the_forking_thread_stays_held():
    lock = fork_lock()

    def use():
        with lock:
            return "free"

    def act():
        waiting = threading.Thread(target=lambda: results.append(use()), daemon=True)
        waiting.start()
        waiting.join(0.05)
        before = list(results)
        lock.release()
        waiting.join(60)
        return (before, results, use()) == ([], ["free"], "free")

    results = []
    with lock:
        assert ended_well(run_child(act))
    assert use() == "free"


def test_collected_locks_are_forgotten():
    locks = [fork_lock() for _ in range(100)]
    del locks[1:]
    assert ended_well(run_child(locks[0].__enter__))


def test_value_is_created_once_in_a_child():
    made = []
    lazy = Lazy()

    def get():
        return lazy.get(lambda: made.append(True) or len(made))

    assert ended_well(run_child(lambda: in_threads(get) == [1] * 8))
    assert made == []


def test_retry_forgets_a_failure():
    outcomes = iter([ModelLoadError("not yet"), "value"])

    def make():
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    lazy = Lazy()
    for _ in range(2):
        with pytest.raises(ModelLoadError):
            lazy.get(make)
    assert lazy.retry(make) == "value"


def test_portal_and_threads_in_a_child():
    async def thread_id():
        return await in_thread(threading.get_ident)

    parents = portal()
    parents.run(thread_id, 60)  # leaves an idle thread behind

    def act():
        portals = set(in_threads(portal))
        (own,) = portals
        return own is not parents and own.run(thread_id, 60) is not None

    assert ended_well(run_child(act))
    assert portal() is parents
