"""Calls that were left behind, and the end of the process."""

import subprocess
import sys
import threading

import pytest

from rotation import rotated
from secondpass.concurrency import left_behind
from secondpass.concurrency.left_behind import Abandonable, GuardedCall

SCRIPT = """
import asyncio, atexit, sys, threading, time
from pathlib import Path
from secondpass import Reranker
from secondpass.concurrency import left_behind

way, member, seconds, path = sys.argv[1:]
entered = threading.Event()
left_behind._SECONDS_AT_EXIT = 60.0 if float(seconds) < 60 else 0.1

def score():
    entered.set()
    while not exiting.is_set():  # the call ends only after the process has begun to
        time.sleep(0.01)
    time.sleep(float(seconds))
    Path(path).write_text("ended")

class Slow:
    model_name = "slow"

    def score_pairs(self, query, documents):
        score()
        return [1.0] * len(documents)

class SlowBatches(Slow):
    def score_batches(self, requests, deadline):
        score()
        yield []
        raise AssertionError

exiting = threading.Event()
scorer = {"score_pairs": Slow, "score_batches": SlowBatches}[member]()
reranker = Reranker(scorer, limits={"deadline": 0.05})
if way == "waiting":
    asking = {"args": ("q", ["a"]), "kwargs": {"deadline": 60.0}, "daemon": True}
    threading.Thread(target=reranker.rerank, **asking).start()
    assert entered.wait(60)
while not entered.is_set():  # on a busy machine, the deadline may pass before the call
    if way == "sync":
        ranking = reranker.rerank("q", ["a", "b"])
    else:
        ranking = asyncio.run(reranker.arerank("q", ["a", "b"]))
assert way == "waiting" or ranking.report.status == "unchanged"
atexit.register(exiting.set)
"""


def run(*arguments):
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("way", "member"), rotated(["sync", "async", "waiting"], ["score_pairs", "score_batches"])
)
def test_process_waits_a_moment(way, member, tmp_path):
    done = run(way, member, 0.3, tmp_path / "mark")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert (tmp_path / "mark").read_text() == "ended"


def test_process_does_not_wait_for_ever(tmp_path):
    done = run("sync", "score_pairs", 3600, tmp_path / "mark")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert not (tmp_path / "mark").exists()


def test_only_running_calls_are_kept():
    go = threading.Event()
    call = GuardedCall(lambda: go.wait(60))
    thread = threading.Thread(target=call)
    thread.start()
    call.leave()
    assert call in left_behind._left
    go.set()
    thread.join(60)
    assert call not in left_behind._left
    call.leave()
    assert call not in left_behind._left


def test_exit_function_is_registered_once_per_import(monkeypatch):
    registered = []
    monkeypatch.setattr(left_behind.atexit, "register", registered.append)
    monkeypatch.setattr(left_behind.atexit, "unregister", lambda _: None)
    monkeypatch.setattr(left_behind, "_modules", 0)
    for _ in range(3):
        GuardedCall(int)()
    assert registered == [left_behind._wait_at_exit]
    monkeypatch.setitem(sys.modules, "a_library_with_an_exit_function", left_behind)
    GuardedCall(int)()
    GuardedCall(int)()
    assert registered == [left_behind._wait_at_exit] * 2


def test_a_call_that_has_ended_is_not_abandoned():
    call = Abandonable(lambda: 1)
    assert call() == 1
    call.abandon()
    assert not call.is_abandoned
