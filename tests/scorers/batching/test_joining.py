"""Batches of concurrent calls: every pair once, its score to its call, errors to theirs."""

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joined_calls import SECONDS, Calls, FakePair, Model, expected, score_of, wait_until
from sampling import examples
from secondpass.concurrency.admission import Claim
from secondpass.scorers.batching.joining import JoinedBatches
from secondpass.scorers.batching.pairs import PairEngine

PASSAGES = st.lists(st.text("ab", max_size=30), max_size=12)


@examples(30)
@given(st.lists(st.lists(PASSAGES, max_size=3), min_size=1, max_size=8), st.integers(1, 3))
def test_every_pair_once_and_to_its_call(calls, threads):
    model = Model(threads)
    engine = PairEngine(model)
    requests = [
        [(f"{call}.{number}.", passages) for number, passages in enumerate(lists)]
        for call, lists in enumerate(calls)
    ]
    with ThreadPoolExecutor(len(calls)) as pool:
        results = list(pool.map(engine.score, requests, timeout=SECONDS))
    assert results == [[expected(*request) for request in one] for one in requests]
    run = sorted(text for batch in model.batches for text in batch)
    assert run == sorted(q + p for one in requests for q, passages in one for p in {*passages})


@examples(30)
@given(st.lists(PASSAGES.filter(len), min_size=2, max_size=8), st.integers(1, 3))
def test_waiting_calls_are_planned_as_one_list(lists, threads):
    model = Model(threads, budget=10_000)
    with Calls(model) as calls:
        futures = [calls.score(f"{number}.", one) for number, one in enumerate(lists)]
        calls.go()
        results = [future.result(SECONDS) for future in futures]
    assert results == [expected(f"{number}.", one) for number, one in enumerate(lists)]
    rest = [batch for batch in model.batches if batch != ["firstx"]]
    assert len(rest) <= threads


def test_a_long_list_has_its_part_of_every_round():
    model, letters = Model(budget=8), [chr(number) for number in range(200, 300)]
    with Calls(model) as calls:
        long = calls.score("l", letters)
        short = calls.score("s", letters[:3])
        calls.go()
        assert short.result(SECONDS) == expected("s", letters[:3])
        assert long.result(SECONDS) == expected("l", letters)
    first, second = model.batches[:2]
    assert sorted(text[0] for text in first + second) == ["l"] * 4 + ["s"] * 3


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_is_that_of_its_call(threads):
    model = Model(threads)
    with Calls(model) as calls:
        fine = calls.score("fine", ["a", "b"])
        broken = calls.score("broken", ["a", "!"])
        other = calls.score("other", ["c"])
        calls.go()
        assert fine.result(SECONDS) == expected("fine", ["a", "b"])
        assert other.result(SECONDS) == expected("other", ["c"])
        with pytest.raises(LookupError, match="broken!"):
            broken.result(SECONDS)
    assert calls.engine.score([("q", ["a"])]) == [expected("q", ["a"])]


def test_too_few_scores_are_an_error_of_each_call():
    joined = JoinedBatches(lambda pairs: [1.0], 1, lambda lengths: [range(len(lengths))])
    items = [(0, index, FakePair("x", 1)) for index in range(2)]
    with pytest.raises(ValueError, match="shorter"):
        list(joined.run(iter([items])))


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_what_an_interrupted_call_has_not_begun_is_dropped(error, monkeypatch):
    model = Model(budget=4)
    engine = PairEngine(model)
    model.hold = threading.Event()
    held = ThreadPoolExecutor(1)
    first = held.submit(engine.score, [("first", ["x"])])
    assert model.begun.acquire(timeout=SECONDS)

    class Interrupted(SimpleQueue):
        def get(self, block=True, timeout=None):
            raise error

    with monkeypatch.context() as patched:
        patched.setattr("secondpass.scorers.batching.calls.SimpleQueue", Interrupted)
        with pytest.raises(error):
            engine.score([("dropped", ["a"] * 9)])
    model.hold.set()
    assert first.result(SECONDS) == [expected("first", ["x"])]
    held.shutdown()
    assert engine.score([("q", ["a"] * 9)]) == [expected("q", ["a"] * 9)]
    assert not any("dropped" in text for batch in model.batches for text in batch)
    assert engine.calls == 0


def test_a_call_of_which_a_pair_runs_may_leave():
    """What it left in the queue is not run, and its scores go nowhere."""
    model, left = Model(budget=2), threading.Event()
    run = model.run
    model.run = lambda pairs: run(pairs) if not model.batches or left.wait(SECONDS) else None
    engine = PairEngine(model)
    items = [(0, number, pair) for number, pair in enumerate(model.prepare("q", "abcdef"))]
    scored = engine._joined.run_in_time(iter([items]), claim=Claim(threading.TIMEOUT_MAX), pairs=6)
    assert next(scored) == [(0, 0, score_of("qa"))]
    scored.close()
    left.set()
    assert engine.score([("r", ["a"])]) == [expected("r", ["a"])]
    assert model.batches in ([["qa"], ["ra"]], [["qa"], ["qb"], ["ra"]])


def test_a_call_is_left_without_waiting():
    """As when garbage collection ends a forgotten call in a thread that has the lock."""
    model = Model(budget=4)
    engine = PairEngine(model)
    batches = ([(0, number, pair)] for number, pair in enumerate(model.prepare("q", "abc")))
    scored = engine._joined.run_in_time(batches, claim=Claim(threading.TIMEOUT_MAX), pairs=3)
    next(scored)
    thread = threading.Thread(target=scored.close, daemon=True)
    with engine._joined._lock:
        thread.start()
        thread.join(SECONDS)
    assert not thread.is_alive()
    assert engine.calls == 0


def test_pairs_of_a_call_whose_time_is_over_are_not_begun(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("secondpass.scorers.batching.calls.time.monotonic", lambda: now[0])
    model = Model(budget=4)

    def late(until):
        items = [(0, number, pair) for number, pair in enumerate(model.prepare("late", "ab"))]
        return list(calls.engine._joined.run_in_time(iter([items]), Claim(until), 2))

    with Calls(model) as calls:
        future = calls.submit(late, 101.0)
        other = calls.score("other", ["a"])
        now[0] = 102.0
        calls.go()
        assert future.result(SECONDS) == []
        assert other.result(SECONDS) == expected("other", ["a"])
    assert model.batches == [["othera"]]


def test_scores_before_a_deadline_come_as_batches_end():
    model, go = Model(budget=4), threading.Semaphore(1)
    run = model.run
    model.run = lambda pairs: run(pairs) if go.acquire(timeout=SECONDS) else None
    engine = PairEngine(model)
    batches = ([(0, number, pair)] for number, pair in enumerate(model.prepare("q", "abc")))
    for scored in engine._joined.run_in_time(batches, claim=Claim(threading.TIMEOUT_MAX), pairs=3):
        assert len(scored) == 1  # of the first pair, to learn the rate
        break
    go.release(8)
    rest = engine._joined.run_in_time(
        iter([[(0, 0, pair) for pair in model.prepare("q", "abc")]]),
        claim=Claim(threading.TIMEOUT_MAX),
        pairs=3,
    )
    assert sorted(score for found in rest for *_, score in found) == expected("q", "abc")


def test_a_pair_longer_than_what_is_planned_together():
    engine, texts = PairEngine(Model(budget=4)), ["a", "b" * 100, "c"]
    batches = engine.score_until([("q", texts)], threading.TIMEOUT_MAX)
    found = {index: score for batch in batches for _, index, score in batch}
    assert found == dict(enumerate(expected("q", texts)))


@pytest.mark.parametrize("until", [None, threading.TIMEOUT_MAX])
def test_the_last_batch_ends_before_its_call_asks(until):
    model = Model()
    engine = PairEngine(model)

    def batches():
        yield [(0, 0, pair) for pair in model.prepare("q", "a")]
        (call,) = engine._joined._calls
        wait_until(lambda: not call.running)

    joined = engine._joined
    if until is None:
        scored = joined.run(batches())
    else:
        scored = joined.run_in_time(batches(), Claim(until), 1)
    assert list(scored) == [[(0, 0, score_of("qa"))]]


def test_the_last_batch_ends_while_the_one_before_is_handled():
    slow = threading.Event()
    model = Model(threads=2)
    model.run = lambda pairs: [float("a" in one.text or slow.wait(SECONDS)) for one in pairs]
    engine = PairEngine(model)
    batches = ([(0, number, pair)] for number, pair in enumerate(model.prepare("q", "ab")))
    scored = engine._joined.run_in_time(batches, claim=Claim(threading.TIMEOUT_MAX), pairs=3)
    assert next(scored) == [(0, 0, 1.0)]
    (call,) = engine._joined._calls
    slow.set()
    wait_until(lambda: not call.running)
    assert list(scored) == [[(0, 1, 1.0)]]


def test_scores_are_fetched_before_the_time_of_their_call_ends(monkeypatch):
    """Not only when the batch that is run at that time has ended."""
    model, first, slow = Model(threads=2, budget=4), threading.Event(), threading.Event()
    held = {"qslow": slow, "qb": first}
    model.run = lambda pairs: [float(p.text == "qa" or held[p.text].wait(SECONDS)) for p in pairs]
    monkeypatch.setattr("secondpass.scorers.batching.calls.EARLY", 0.99)  # not at the end alone
    monkeypatch.setattr("secondpass.concurrency.admission.FIRST", 1)
    engine = PairEngine(model)
    pairs = [(0, n, pair) for n, pair in enumerate(model.prepare("q", ["a", "slow", "b"]))]
    until = time.monotonic() + SECONDS
    scored = engine._joined.run_in_time(iter([pairs]), claim=Claim(until), pairs=3)
    assert next(scored) == [(0, 0, 1.0)]  # the first one at once: a score is there
    first.set()
    assert next(scored) == [(0, 2, 1.0)]
    assert time.monotonic() < until
    slow.set()
    assert list(scored) == [[(0, 1, 1.0)]]


def test_batches_are_full_while_more_pairs_wait(monkeypatch):
    """With two threads, a list is split in two only if nothing else is left."""
    monkeypatch.setattr("secondpass.concurrency.admission.FIRST", 2)
    model = Model(threads=2, budget=800)
    with Calls(model) as calls:
        calls.engine.pace.learn([1], 1e-9)
        for _ in range(5):  # a second a pair: all take longer than there is time
            calls.engine.admission.cost.learn(8, 8.0)
        for number in range(4):
            texts = [f"{part:099}" for part in range(30)]
            claim = Claim(time.monotonic() + 50, pairs=30)
            joined = calls.engine._joined
            items = [(0, n, pair) for n, pair in enumerate(model.prepare(str(number), texts))]
            calls.submit(list, joined.run_in_time(iter([items]), claim, 30))
        calls.go()
    assert len(model.batches[0]) == 8
    assert [len(batch) for batch in model.batches].count(8) >= 10


def test_scores_before_an_error_come_first():
    model = Model(budget=4)
    engine = PairEngine(model)

    def batches():
        for number, pair in enumerate(model.prepare("q", "a!")):
            yield [(0, number, pair)]
        (call,) = engine._joined._calls
        wait_until(lambda: call.error)

    model.threads = 3  # all are planned before any is fetched
    engine._joined._deadlines._threads = 3
    scored = engine._joined.run_in_time(batches(), claim=Claim(threading.TIMEOUT_MAX), pairs=3)
    assert next(scored) == [(0, 0, score_of("qa"))]
    with pytest.raises(LookupError, match="q!"):
        next(scored)


def test_known_pairs_do_not_wait():
    model = Model()
    prepare = model.prepare
    with Calls(model) as calls:
        hold, model.hold = model.hold, None
        model.prepare = lambda *texts: [pair._replace(length=0) for pair in prepare(*texts)]
        assert calls.engine.score([("q", ["a"])]) == [expected("q", ["a"])]
        model.hold = hold


def test_an_engine_is_released_with_its_last_holder():
    engine = PairEngine(Model())
    assert engine.score([("q", ["a"]), ("r", [])]) == [expected("q", ["a"]), []]
    model = weakref.ref(engine.model)
    gc.disable()
    try:
        del engine
        wait_until(lambda: model() is None)  # the thread may still hold its last job
    finally:
        gc.enable()
