"""Threads that cannot be started, plans that fail, Ctrl-C: no call waits for ever, none is left."""

import linecache
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from joined_calls import SECONDS, Calls, Model, expected, wait_until
from no_threads import refuse_threads
from secondpass.concurrency import waiting
from secondpass.concurrency.admission import Claim
from secondpass.scorers import batching
from secondpass.scorers.batching.pairs import PairEngine

TEXTS = ["a", "bb", "a", "c" * 40]


class Threads(Model):
    """Notes the threads that it runs in."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.ran_in = set()

    def run(self, pairs):
        self.ran_in.add(threading.current_thread())
        return super().run(pairs)


def found(engine, deadline):
    scores = [None] * len(TEXTS)
    for batch in engine.score_until([("q", TEXTS)], deadline):
        for _, index, score in batch:
            scores[index] = score
    return scores


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("deadline", [None, threading.TIMEOUT_MAX])
def test_without_threads_a_call_runs_its_batches_itself(threads, deadline, monkeypatch):
    model = Threads(threads=threads, budget=8)
    engine = PairEngine(model)
    with monkeypatch.context() as patched:
        refuse_threads(patched)
        assert found(engine, deadline) == expected("q", TEXTS)
        assert model.ran_in == {threading.current_thread()}
        assert not engine._joined._is_waiting
    assert found(engine, deadline) == expected("q", TEXTS)
    assert len(model.ran_in) > 1


def test_without_threads_calls_do_not_wait_for_each_other(monkeypatch):
    model = Threads(budget=8)
    engine = PairEngine(model)
    calls = [(f"{number}.", TEXTS) for number in range(4)]
    together = threading.Barrier(len(calls))

    def score(call):
        together.wait(SECONDS)
        return engine.score([call])[0]

    with ThreadPoolExecutor(len(calls)) as pool:
        for started in [pool.submit(together.wait, SECONDS) for _ in calls]:
            started.result(SECONDS)
        refuse_threads(monkeypatch)
        results = list(pool.map(score, calls, timeout=SECONDS))
    assert results == [expected(*call) for call in calls]


def test_without_threads_an_error_is_that_of_its_call(monkeypatch):
    engine = PairEngine(Model())
    refuse_threads(monkeypatch)
    with pytest.raises(LookupError, match="broken!"):
        engine.score([("broken", ["a", "!"])])
    assert engine.score([("q", ["a"])]) == [expected("q", ["a"])]


def test_without_threads_no_batch_begins_after_the_deadline(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    refuse_threads(monkeypatch)
    model = Model(threads=2, budget=4)
    engine = PairEngine(model)
    pairs = model.prepare("q", "abc")

    def batches():
        yield [(0, 0, pairs[0])]
        now[0] = 102.0
        yield [(0, 1, pairs[1])]
        yield [(0, 2, pairs[2])]

    assert list(engine._joined.run_in_time(batches(), claim=Claim(101.0), pairs=3)) == []
    assert model.batches == []


def test_one_thread_serves_calls_for_which_no_second_can_be_started(monkeypatch):
    model = Threads(threads=2)
    engine = PairEngine(model)
    model.hold = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.score, [("first", ["x"])])
        assert model.begun.acquire(timeout=SECONDS)
        pool.submit(int).result(SECONDS)  # starts the pool's second thread
        with monkeypatch.context() as patched:
            refuse_threads(patched)
            second = pool.submit(engine.score, [("second", TEXTS)])
            wait_until(lambda: engine._joined._is_waiting)
            model.hold.set()
            assert second.result(SECONDS) == [expected("second", TEXTS)]
        assert first.result(SECONDS) == [expected("first", ["x"])]
    assert len(model.ran_in) == 1


def test_at_the_end_of_the_process_waiting_calls_fail(monkeypatch):
    """Their batches must not begin, since models abort a process that ends meanwhile."""
    model = Model()
    with Calls(model) as calls:
        waiting = [calls.score("q", ["a"]), calls.score("r", ["b"])]

        def refuse(_job):
            raise RuntimeError("shut down")

        for worker in calls.engine._joined._workers._busy:
            monkeypatch.setattr(worker, "submit", refuse)
        calls.go()
        for call in waiting:
            with pytest.raises(RuntimeError, match="shut down"):
                call.result(SECONDS)
    assert model.batches == []
    monkeypatch.undo()
    assert calls.engine.score([("q", ["a"])]) == [expected("q", ["a"])]


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_an_error_of_the_plan_is_that_of_each_waiting_call(error, monkeypatch):
    model = Model(budget=8)

    def broken(_lengths):
        raise error

    with Calls(model) as calls:
        waiting = [calls.score(f"{number}.", TEXTS) for number in range(3)]
        with monkeypatch.context() as patched:
            patched.setattr(calls.engine._joined._rounds, "_plan", broken)
            calls.go()
            for call in waiting:
                with pytest.raises(error):
                    call.result(SECONDS)
        assert model.batches == []
        assert calls.engine.score([("q", TEXTS)]) == [expected("q", TEXTS)]
    assert calls.engine.calls == 0


def test_ctrl_c_while_a_thread_starts(monkeypatch):
    """The thread is there, but its worker does not know it. It must be free for other work."""
    model = Model()
    engine = PairEngine(model)
    monkeypatch.setattr(waiting, "_idle", [])

    def interrupted(*arguments, start=waiting.start_new_thread):
        start(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(waiting, "start_new_thread", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.score([("dropped", ["a"])])
    wait_until(lambda: waiting._idle)
    assert engine.score([("q", ["a"])]) == [expected("q", ["a"])]
    assert model.batches == [["qa"]]


class Interrupting:
    """Raises KeyboardInterrupt before the line of this number of the functions of calls."""

    FUNCTIONS = frozenset(
        "_add _fetch add drop entries fetch next_of _taken ready start submit".split()
    )

    def __init__(self, number):
        self.left = number

    def __call__(self, frame, event, _argument):
        code = frame.f_code
        in_batching = Path(code.co_filename).parent == Path(batching.__file__).parent
        if not in_batching or code.co_name not in self.FUNCTIONS:
            return None
        line = linecache.getline(code.co_filename, frame.f_lineno).strip()
        # There Python handles no signal: from acquiring a lock to the first statement with it, and
        # from the last one to its release.
        if event == "line" and not line.startswith(("with ", "try:")):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("starts", [True, False], ids=["threads", "no threads"])
def test_ctrl_c_at_any_line(threads, starts, monkeypatch):
    model = Model(threads, budget=8)
    engine = PairEngine(model)
    number, interrupted = 0, True
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result(SECONDS)  # starts its thread
        while interrupted:
            interrupted = False
            engine = PairEngine(model)
            before = sys.gettrace()
            with monkeypatch.context() as patched:
                if not starts:
                    refuse_threads(patched)
                try:
                    sys.settrace(Interrupting(number))
                    engine.score([("dropped", TEXTS)])
                except KeyboardInterrupt:
                    interrupted = True
                finally:
                    sys.settrace(before)
            # In another thread, because a lock that is held would be waited for without end.
            next_call = pool.submit(engine.score, [("q", TEXTS)])
            assert next_call.result(SECONDS) == [expected("q", TEXTS)], number
            assert engine.calls == 0
            joined = engine._joined
            wait_until(lambda joined=joined: not joined._is_waiting)
            number += 1
    assert number > 10
