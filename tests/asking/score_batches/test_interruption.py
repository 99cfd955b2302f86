"""Deadlines, cancellation and interrupts between batches."""

import asyncio
import math
import threading
import time
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_scorers import LATE, InBatches, both, in_twos, rerank, scores_of
from sampling import examples
from secondpass import Reranker
from secondpass.asking import drivers
from secondpass.asking.gate import Gate
from secondpass.concurrency import left_behind, threads

SECONDS = 60  # a wait for what happens at once


class Cut:
    """A deadline that comes when a scorer says so, in place of the clock.

    ``arrive`` is called by the scorer's thread: the drivers' waits end, and the thread goes on when
    the rankings have returned.
    """

    def __init__(self, monkeypatch):
        self.arrived, self.returned = threading.Event(), threading.Event()
        monkeypatch.setattr(drivers, "_within", self.within)
        monkeypatch.setattr(threads, "with_timeout", self.with_timeout)

    def arrive(self):
        self.arrived.set()
        assert self.returned.wait(SECONDS)

    def within(self, _scorer, work, _seconds, _more_seconds):
        ended = threading.Event()

        def run():
            try:
                work()
            finally:
                ended.set()
                self.arrived.set()

        threading.Thread(target=run, daemon=True).start()
        assert self.arrived.wait(SECONDS)
        if ended.is_set():
            self.arrived.clear()

    async def with_timeout(self, work, _seconds, _more_seconds):
        task = asyncio.ensure_future(work)
        until = time.monotonic() + SECONDS
        while not (task.done() or self.arrived.is_set()):
            assert time.monotonic() < until
            await asyncio.sleep(0)
        if not task.done():
            task.cancel()
            raise TimeoutError
        return task.result()


class Planned:
    """For each query, a list of batches; the last query's ends as ``ending`` says."""

    model_name = "planned"

    def __init__(self, plans, ending, cut):
        self.plans, self.ending, self.cut = plans, ending, cut
        self.stopped = threading.Event()
        self.went_on = False

    def score_pairs(self, query, documents):
        raise AssertionError("score_batches is there")

    def score_batches(self, requests, deadline):
        ((query, documents),) = requests
        batches, rest = self.plans[query]
        assert sorted(chain(*batches, rest)) == list(range(len(documents)))
        for batch in batches:
            yield [(0, index, score_of(query, index)) for index in batch]
        if query == str(len(self.plans) - 1):
            yield from self.end(query, batches, rest)

    def end(self, query, batches, rest):
        try:
            if self.ending == "late":
                self.cut.arrive()
                yield [(0, index, math.inf) for index in rest]
                self.went_on = True
            elif self.ending == "raises":
                raise LookupError
            elif self.ending == "repeats":
                yield [(0, index, math.inf) for index in [*chain(*batches)][:1]]
            elif self.ending == "unknown":
                yield [*((0, index, math.inf) for index in rest), (0, 10**6, 1.0)]
        finally:
            self.stopped.set()


def score_of(query, index):
    return int(query) * 100.0 + index * 7 % 10


CODES = {
    "ends": "deadline",
    "late": "deadline",
    "raises": "scorer_raised",
    "repeats": "score_repeated",
    "unknown": "score_index",
}


@st.composite
def plans(draw):
    """For each query, its documents in batches, and those that are not scored."""
    result = {}
    for number in range(draw(st.integers(1, 3))):
        indices = draw(st.permutations(range(draw(st.integers(1, 12)))))
        cuts = sorted(draw(st.lists(st.integers(0, len(indices)), max_size=4)))
        bounds = [0, *cuts]
        batches = [indices[a:b] for a, b in pairwise(bounds)]
        result[str(number)] = batches, indices[bounds[-1] :]
    return result


@examples(40)
@given(plans=plans(), ending=st.sampled_from(sorted(CODES)))
def test_interruptions_lose_nothing(plans, ending):
    """Sync and async use exactly the batches that came before the interruption."""
    results = []
    for asynchronous in (False, True):
        with pytest.MonkeyPatch.context() as monkeypatch:
            cut = Cut(monkeypatch)
            scorer = Planned(plans, ending, cut)
            reranker = Reranker(scorer, limits={"deadline": 60})
            requests = [
                (query, ["text"] * len([*chain(*batches, rest)]))
                for query, (batches, rest) in plans.items()
            ]
            try:
                if asynchronous:
                    rankings = asyncio.run(reranker.arerank_many(requests))
                else:
                    rankings = reranker.rerank_many(requests)
            finally:
                cut.returned.set()
            assert scorer.stopped.wait(SECONDS)
            assert not scorer.went_on
            results.append(rankings)
    assert [scores_of(result) for result in results[0]] == [
        scores_of(result) for result in results[1]
    ]
    for (query, (batches, _)), ranking in zip(plans.items(), results[0], strict=True):
        count = len(ranking)
        assert sorted(ranking.order) == list(range(count))
        scored = set(chain(*batches))
        is_last = query == str(len(plans) - 1)
        if is_last and ending == "repeats":
            scored -= set([*chain(*batches)][:1])
        assert scores_of(ranking) == {index: score_of(query, index) for index in scored}
        unscored = [index for index in range(count) if index not in scored]
        assert [index for index in ranking.order if index not in scored] == unscored
        codes = [issue.code for issue in ranking.report.issues]
        repeats = is_last and ending == "repeats" and batches and any(batches)
        code = CODES[ending] if is_last and (ending != "repeats" or repeats) else "deadline"
        assert codes == ([code] if unscored else [])


@both
def test_hanging_scorer_is_left_behind(asynchronous):
    """With the real clock. On a busy machine the deadline may pass before the call begins."""
    begun, release, closed = (threading.Event() for _ in range(3))

    def generate(*_):
        try:
            begun.set()
            release.wait(SECONDS)
            while True:
                yield []
        finally:
            closed.set()

    ranking = rerank(asynchronous, InBatches(generate), limits={"deadline": 0.2})
    assert [(issue.code, issue.message) for issue in ranking.report.issues] == [("deadline", LATE)]
    assert not closed.is_set()
    release.set()
    if begun.is_set():
        assert closed.wait(SECONDS)


def stepping():
    """A generator that says when it is in its second batch, and waits there; and its events."""
    begun, go, closed = (threading.Event() for _ in range(3))
    yielded = []

    def generate(*_):
        try:
            yield [(0, 0, 1.0)]
            begun.set()
            go.wait(SECONDS)
            for index in (1, 2, 3):
                yielded.append(index)
                yield [(0, index, 1.0)]
        finally:
            closed.set()

    return generate, begun, go, closed, yielded


def test_cancellation_stops_after_the_batch():
    generate, begun, go, closed, yielded = stepping()

    async def main():
        reranker = Reranker(InBatches(generate), limits={"deadline": 60})
        task = asyncio.ensure_future(reranker.arerank("q", list("abcd")))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not closed.is_set()

    asyncio.run(main())
    go.set()
    assert closed.wait(SECONDS)
    assert yielded == [1]


def test_interrupt_stops_after_the_batch(monkeypatch):
    """Ctrl-C while the calling thread waits for the scorer's."""
    generate, begun, go, closed, yielded = stepping()
    join = threading.Thread.join

    def interrupted(thread, timeout=None):
        if thread.name != "secondpass":
            return join(thread, timeout)
        assert begun.wait(SECONDS)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rerank(False, InBatches(generate))
    assert not closed.is_set()
    go.set()
    assert closed.wait(SECONDS)
    assert yielded == [1]


def test_call_that_waited_too_long_is_not_made(monkeypatch):
    """The deadline passes, or the task is cancelled, while its scorer waits for a slot."""
    scorer = InBatches(in_twos)
    monkeypatch.setattr(drivers, "_SCORER_GATE", Gate(1))

    async def hold(held):
        async with drivers._SCORER_GATE.in_this_loop().taken():
            held.set()
            await asyncio.sleep(SECONDS)

    async def main():
        held = asyncio.Event()
        holder = asyncio.ensure_future(hold(held))
        await held.wait()
        ranking = await Reranker(scorer, limits={"deadline": 0.01}).arerank("q", list("abcd"))
        assert [issue.message for issue in ranking.report.issues] == [LATE]
        task = asyncio.ensure_future(
            Reranker(scorer, limits={"deadline": 60}).arerank("q", list("abcd"))
        )
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        holder.cancel()

    asyncio.run(main())
    assert scorer.calls == []


@both
@pytest.mark.parametrize("member", ["score_batches", "score_pairs"])
def test_no_thread_can_be_started(asynchronous, member, monkeypatch):
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == "secondpass":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(threads, "_idle", [])
    monkeypatch.setattr(left_behind, "_left", set())
    scorer = InBatches(in_twos, **({} if member == "score_batches" else {"score_batches": None}))
    report = rerank(asynchronous, scorer).report
    assert report.status == "unchanged"
    assert [(issue.code, issue.message) for issue in report.issues] == [
        ("no_thread", "no thread could be started for the scorer")
    ]
    assert not left_behind._left
