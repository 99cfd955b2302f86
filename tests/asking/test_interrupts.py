"""Exceptions of signal handlers, wherever they come: later rankings return, and nothing is lost."""

import contextlib
import logging
import re
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fakes import graded, numbered, shown_in
from interrupts import Interrupt, Interrupting
from rotation import rotated
from secondpass import Reranker
from secondpass.asking import drivers
from secondpass.concurrency import locks
from secondpass.concurrency.turns import turns_of
from secondpass.ranking.methods import inner

SECONDS = 60
TEXTS = numbered([1, 3, 2])


class Instant:
    model_name = "instant"

    def score_pairs(self, query, documents):
        return [float(len(document)) for document in documents]


class Slow(Instant):
    def score_pairs(self, query, documents):
        time.sleep(0.001)
        return super().score_pairs(query, documents)


class InBatches(Instant):
    def score_batches(self, requests, deadline):
        for index, document in enumerate(requests[0][1]):
            yield [(0, index, float(len(document)))]


def grade(messages):
    return graded(shown_in(messages))


METHODS = {
    "instant": Instant,
    "slow": Slow,
    "batches": InBatches,
    "engine": lambda: {"type": "embedded", "threads": 1},
    "language model": lambda: {"type": "graded", "llm": grade},
}
LIMITS = {"no limit": {}, "deadline": {"deadline": 60.0}}
WAYS = {
    "rerank": lambda reranker, limits: reranker.rerank("q", TEXTS, **limits),
    "rerank_many": lambda reranker, limits: reranker.rerank_many([("q", TEXTS)] * 2, **limits),
}
SHARED = re.compile(
    r"/(concurrency|asking|services|storage)/|joining|ledger|diagnostics|lib/python"
)
"""Files whose code changes what rankings share: ours, and the standard library."""
AT_LEAST = 100
"""Places per row; all of them, in all files, in `make test-long`."""


def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def others():
    """Another thread: a lock that the main thread holds is no hindrance to that itself."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def held_locks():
    held = []
    for lock in list(locks._locks):
        if lock.acquire(blocking=False):
            lock.release()
        else:
            held.append(lock)
    return held


def counted(turns):
    """The running turns, without those that are given to others when they are needed."""
    return [turn for turn in turns._running if not turn.is_stopped]


def check(others, reranker, limits):
    """Another thread ranks, and nothing is held."""
    ranking = others.submit(reranker.rerank, "q", TEXTS, **limits).result(SECONDS)
    assert ranking.report.status == "ok"
    wait_until(lambda: others.submit(held_locks).result(SECONDS) == [])
    turns = turns_of(inner(reranker.method))
    wait_until(lambda: not counted(turns) and not turns._waiting and not turns.admission.present)
    slots = reranker._gate
    wait_until(lambda: not slots._holders and not slots._lines)


def places(act, accepts):
    """The number of places at which this can be interrupted."""
    with Interrupting(1 << 40, accepts) as counting:
        act()
    return (1 << 40) - counting.left


# Python drops an exception in the callback of a weak reference, and says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("extent", ["some", pytest.param("all", marks=pytest.mark.long)])
@pytest.mark.parametrize(("method", "limit", "way"), rotated(METHODS, LIMITS, WAYS))
def test_a_ranking_that_is_interrupted_at_any_place(method, limit, way, extent, others):
    reranker = Reranker(METHODS[method](), log_level="debug")
    limits = LIMITS[limit]

    def act():
        return WAYS[way](reranker, limits)

    def accepts(file):
        return file != __file__ and (extent == "all" or SHARED.search(file) is not None)

    for _ in range(3):
        act()
        check(others, reranker, limits)
    threads = threading.active_count()
    count = places(act, accepts)
    place, interrupted = 0, True
    while interrupted:
        with Interrupting(place, accepts) as interrupting:
            act()
        interrupted = interrupting.raised
        check(others, reranker, limits)
        place += 1 if extent == "all" else max(1, count // AT_LEAST)
    assert place > AT_LEAST
    wait_until(lambda: threading.active_count() <= threads + 4)


class Waits(Instant):
    """Waits in each call until it is released."""

    def __init__(self):
        self.begun, self.release = threading.Event(), threading.Event()

    def score_pairs(self, query, documents):
        self.wait()
        return super().score_pairs(query, documents)

    def __call__(self, messages):
        self.wait()
        return grade(messages)

    def wait(self):
        self.begun.set()
        assert self.release.wait(SECONDS)


WAITING = {
    "scorer": (lambda waits: waits, {"deadline": 60.0}),
    "language model": (lambda waits: {"type": "graded", "llm": waits}, {}),
    "language model, deadline": (
        lambda waits: {"type": "graded", "llm": waits},
        {"deadline": 60.0},
    ),
}


@pytest.mark.parametrize("name", WAITING)
def test_a_ranking_that_waits_is_interrupted_at_once(name, others):
    make, limits = WAITING[name]
    waits = Waits()
    reranker = Reranker(make(waits))

    def interrupt():
        assert waits.begun.wait(SECONDS)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    for _ in range(3):
        waits.begun.clear()
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            reranker.rerank("q", TEXTS, **limits)
        thread.join(SECONDS)
    waits.release.set()
    check(others, reranker, limits)


@pytest.mark.parametrize("kept", [False, True])
def test_turns_that_were_not_ended_heal(kept, others, monkeypatch):
    """More of them than there are turns; the exceptions may still be there, as in a notebook."""
    scorer = Instant()
    reranker = Reranker(scorer, limits={"deadline": 60.0})
    turns = turns_of(scorer)
    errors = []

    def interrupted(*_arguments, **_settings):
        raise Interrupt

    for _ in range(turns.admission.threads + 2):
        with monkeypatch.context() as patched:
            patched.setattr(turns, "end", interrupted)
            try:
                reranker.rerank("q", TEXTS)
            except Interrupt as error:
                errors += [error] * kept
    assert len(counted(turns)) == kept  # of the last one, until its thread takes a turn again
    ranking = others.submit(reranker.rerank, "q", TEXTS).result(SECONDS)
    assert ranking.report.status == "ok"


def test_a_claim_that_was_not_withdrawn_counts_no_more(monkeypatch):
    scorer = Instant()
    reranker = Reranker(scorer, limits={"deadline": 60.0})
    turns = turns_of(scorer)

    def interrupted(_admission, _claim):
        raise Interrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(turns.admission), "leave", interrupted)
        with contextlib.suppress(Interrupt):
            reranker.rerank("q", TEXTS)
    assert len(turns.admission.claims) == 1
    assert not turns.admission.present
    assert not turns.admission.claims


def test_log_records_of_the_main_thread_are_made_in_another(caplog):
    """Up to Python 3.12, where the locks of `logging` are taken in Python code."""
    threads = []

    class Noting(logging.Filter):
        def filter(self, record):
            threads.append(threading.current_thread())
            return True

    noting = Noting()
    caplog.handler.addFilter(noting)
    Reranker({"type": "graded", "llm": lambda messages: "no"}).rerank("q", TEXTS)
    caplog.handler.removeFilter(noting)
    assert len(caplog.records) == len(threads) == 1
    is_main = threads == [threading.main_thread()]
    assert is_main is (sys.version_info >= (3, 13))


@pytest.mark.parametrize("nested", [False, True])
def test_locks_that_a_with_statement_left_held_are_released(nested, others, monkeypatch):
    """As Python 3.14 may. Not by a ranking within another one, which may be within a lock."""
    monkeypatch.setattr(drivers, "WITH_MAY_SKIP_EXIT", True)
    lock = locks.fork_lock()

    def is_free():
        return others.submit(lambda: lock not in held_locks()).result(SECONDS)

    class Leaving(Instant):
        def score_pairs(self, query, documents):
            lock.acquire()
            raise KeyboardInterrupt

    class Outer(Instant):
        def score_pairs(self, query, documents):
            with contextlib.suppress(KeyboardInterrupt):
                Reranker(Leaving()).rerank("q", TEXTS)
            freed.append(is_free())
            raise KeyboardInterrupt

    freed = []
    with pytest.raises(KeyboardInterrupt):
        Reranker(Outer() if nested else Leaving()).rerank("q", TEXTS)
    assert freed == [False] * nested
    assert is_free()
