"""Threads that are started and waited for without the waits of the standard library."""

import ast
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

import secondpass
from no_threads import refuse_threads
from secondpass.concurrency import waiting
from secondpass.concurrency.waiting import BackgroundThread, Signal, received, start

SECONDS = 60
PACKAGES = Path(secondpass.__file__).parents[1]
SOURCES = [
    *(PACKAGES / name for name in ("secondpass", "secondpass_evaluation", "secondpass_ray")),
    *Path(__file__).parents[2].glob("integrations/*/src"),
]
"""All but the server, whose main thread handles signals without an exception."""
UNSAFE = {
    "threading": {"Barrier", "BoundedSemaphore", "Condition", "Event", "Semaphore", "Timer"},
    "queue": {"LifoQueue", "PriorityQueue", "Queue"},
    "concurrent.futures": {"Future", "ThreadPoolExecutor", "as_completed", "wait"},
    "asyncio": {"run_coroutine_threadsafe", "to_thread", "wrap_future"},
}
"""What takes a lock in Python code, by module."""
STARTS_THREADS = {"waiting.py"}


def names_in(tree):
    """The modules and names of what a module uses, as ``(module, name)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module, name.name) for name in node.names)
        elif isinstance(node, ast.Attribute):
            yield ast.unparse(node.value), node.attr


def test_no_wait_of_the_standard_library_is_used():
    """An exception of a signal handler within one would hang those that wait for the other side."""
    files = [path for folder in SOURCES for path in folder.rglob("*.py")]
    assert len(files) > 200
    for path in files:
        for module, name in names_in(ast.parse(path.read_text(encoding="utf-8"))):
            assert name not in UNSAFE.get(module, ()), f"{path}: {module}.{name}"
            if (module, name) == ("threading", "Thread"):
                assert path.name in STARTS_THREADS, path


# ---------------------------------------------------------------------- queues and signals


@pytest.mark.parametrize("seconds", [None, threading.TIMEOUT_MAX * 2, 1e300, 60.0])
def test_an_item_is_received(seconds):
    queue = SimpleQueue()
    threading.Timer(0.02, queue.put, ["item"]).start()
    assert received(queue, seconds) == "item"


@pytest.mark.parametrize("seconds", [0.0, -1.0, 0.01])
def test_no_item_in_time(seconds):
    with pytest.raises(Empty):
        received(SimpleQueue(), seconds)


def test_a_signal_wakes_all_who_wait():
    signal = Signal()
    assert not signal.wait(0)
    woken = SimpleQueue()
    for _ in range(5):
        start(lambda: woken.put(signal.wait(SECONDS)))
    time.sleep(0.02)
    signal.set()
    assert [woken.get(timeout=SECONDS) for _ in range(5)] == [True] * 5
    assert signal.is_set
    assert signal.wait()


# ---------------------------------------------------------------------- threads


def test_threads_are_known_daemons_and_used_again(monkeypatch):
    monkeypatch.setattr(waiting, "_idle", [])
    threads = SimpleQueue()
    start(lambda: threads.put(threading.current_thread()))
    first = threads.get(timeout=SECONDS)
    assert first.daemon
    assert first in threading.enumerate()
    while not waiting._idle:
        time.sleep(0.001)
    start(lambda: threads.put(threading.current_thread()))
    assert threads.get(timeout=SECONDS) is first


def test_the_last_thread_of_the_system_does_the_work_itself(monkeypatch):
    """The system starts it, but not the one that it would start."""
    monkeypatch.setattr(waiting, "_idle", [])
    done = SimpleQueue()

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        start(lambda: done.put(True))
        assert done.get(timeout=SECONDS)


def test_no_thread_can_be_started(monkeypatch):
    refuse_threads(monkeypatch)
    with pytest.raises(RuntimeError):
        start(print)


def test_a_service_is_started_once(monkeypatch):
    """Also if an interruption came between its start and the note of it."""
    names, stop = SimpleQueue(), Signal()

    def work():
        names.put(threading.current_thread().name)
        stop.wait(SECONDS)

    service = BackgroundThread(work, "a-name")
    for _ in range(3):
        service.start()
        service.started = False
    assert names.get(timeout=SECONDS) == "a-name"
    stop.set()
    others = SimpleQueue()
    start(lambda: others.put(threading.current_thread().name))
    assert others.get(timeout=SECONDS) != "a-name"
    assert names.empty()
