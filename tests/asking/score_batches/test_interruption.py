"""Deadlines, cancellation and interrupts between batches."""

import asyncio
import math
import signal
import threading

import pytest

from batch_scorers import LATE, InBatches, both, in_twos, rerank, scores_of
from fakes import within_deadlines
from no_threads import refuse_threads
from secondpass import Reranker
from secondpass.concurrency import left_behind

SECONDS = 60  # a wait for what happens at once


@both
def test_scores_before_the_deadline_count(asynchronous):
    release, closed = threading.Event(), threading.Event()

    def generate(*_):
        try:
            yield [(0, 2, 1.0), (0, 0, 0.5)]
            release.wait(SECONDS)
            yield [(0, 1, math.inf), (0, 3, math.inf)]
            raise AssertionError("it was left, and goes on")
        finally:
            closed.set()

    ranking = within_deadlines(
        lambda deadline: rerank(asynchronous, InBatches(generate), limits={"deadline": deadline}),
        lambda ranking: ranking.report.usage.pairs == 2,
    )
    release.set()
    assert scores_of(ranking) == {0: 0.5, 2: 1.0}
    (issue,) = ranking.report.issues
    assert (issue.code, issue.positions) == ("deadline", (1, 3))
    assert LATE.fullmatch(issue.message)
    assert ranking.report.status == "partial"
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


def test_interrupt_stops_after_the_batch():
    """Ctrl-C while the calling thread waits for the scorer's."""
    generate, begun, go, closed, yielded = stepping()

    def interrupt():
        assert begun.wait(SECONDS)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        rerank(False, InBatches(generate))
    assert not closed.is_set()
    go.set()
    assert closed.wait(SECONDS)
    assert yielded == [1]


@both
@pytest.mark.parametrize("member", ["score_batches", "score_pairs"])
def test_no_thread_can_be_started(asynchronous, member, monkeypatch):
    refuse_threads(monkeypatch)
    monkeypatch.setattr(left_behind, "_left", set())
    scorer = InBatches(in_twos, **({} if member == "score_batches" else {"score_batches": None}))
    report = rerank(asynchronous, scorer).report
    assert report.status == "unchanged"
    assert [(issue.code, issue.message) for issue in report.issues] == [
        ("no_thread", "no thread could be started for the scorer")
    ]
    assert not left_behind._left
