"""Deadlines and refusals of rankings that share a scorer; few, with real threads."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from joined_calls import Model
from rankings import codes, rank
from secondpass import Reranker
from secondpass.concurrency.admission import Claim
from secondpass.concurrency.turns import WIDTH, turns_of
from secondpass.scorers.batching.pairs import PairEngine

TEXTS = [f"text {number}" for number in range(40)]
SECONDS = 60


class Own:
    """A scorer of one's own; calls take a millisecond a text, and can be held."""

    model_name = "own"

    def __init__(self):
        self.calls = []
        self.hold = None

    def score_pairs(self, query, documents):
        self.calls.append((query, len(documents)))
        if self.hold is not None:
            assert self.hold.wait(SECONDS)
        time.sleep(0.001 * len(documents))
        return [float(len(document)) for document in documents]


class Batches(Own):
    """One that is called once, and ends at the time that it is given."""

    def score_batches(self, requests, deadline):
        ((query, documents),) = requests
        for index, document in enumerate(documents):
            if index and deadline is not None and time.monotonic() >= deadline:
                return
            yield [(0, index, self.score_pairs(query, [document])[0])]


class Engine:
    """A scorer on the engine of local models."""

    model_name = "engine"
    joins_calls = True

    def __init__(self):
        self.model = Model(threads=2)
        run = self.model.run
        self.model.run = lambda pairs: time.sleep(0.001 * len(pairs)) or run(pairs)
        self.model.truncated = lambda *_: []
        self.engine = PairEngine(self.model)

    def score_pairs(self, query, documents):
        return self.engine.score([(query, documents)])[0]

    def score_batches(self, requests, deadline):
        yield from self.engine.score_until(requests, deadline)


def scored(ranking):
    return {item.position for item in ranking if item.status == "scored"}


@pytest.mark.parametrize("kind", [Own, Batches, Engine])
def test_a_ranking_alone_is_scored_whole(kind):
    reranker = Reranker(kind())
    for limit in ({"deadline": 30.0}, {}):
        report = reranker.rerank("q", TEXTS, **limit).report
        assert (report.status, report.depth_asked, report.depth_done) == ("ok", 40, 40)
        assert 0 <= report.waiting_seconds <= report.seconds
        assert 0 < report.calling_seconds <= report.seconds


@pytest.mark.parametrize("way", ["sync", "async"])
def test_only_calls_that_were_made_are_counted(way):
    scorer = Own()
    scorer.batch_size = 5
    reranker = Reranker(scorer, limits={"deadline": 0.03}, log_level="debug")
    usage = rank(reranker, way, "q", TEXTS).report.usage
    counts = [count for _, count in scorer.calls]
    assert (usage.calls, usage.pairs) == (len(counts), sum(counts))


@pytest.mark.parametrize("kind", [Own, Engine])
def test_many_at_once_are_scored_or_refused_and_keep_all(kind):
    reranker = Reranker(kind(), log_level="debug")
    reranker.rerank("q", TEXTS, deadline=30.0)
    with ThreadPoolExecutor(32) as pool:
        work = [pool.submit(reranker.rerank, "q", TEXTS, deadline=1.0) for _ in range(64)]
        rankings = [future.result(SECONDS) for future in work]
    refused = [ranking for ranking in rankings if "overloaded" in codes(ranking)]
    assert len(refused) < 64
    for ranking in rankings:
        assert sorted(item.position for item in ranking) == list(range(40))
        if ranking in refused:
            assert ranking.report.status == "unchanged"
            assert ranking.report.depth_done == 0
            assert [item.position for item in ranking] == list(range(40))
        else:
            assert ranking.report.status in {"ok", "partial", "unchanged"}


def test_a_ranking_without_time_is_refused_at_once():
    scorer = Engine()
    reranker = Reranker(scorer, log_level="debug")
    reranker.rerank("q", TEXTS, deadline=30.0)
    admission = scorer.engine.admission
    admission.cost.learn(1_000_000, 1_000_000.0)  # a second each
    now = time.monotonic()
    assert admission.enter(Claim(now + 9.0, now), 10, now)
    began = time.perf_counter()
    refused = reranker.rerank("q", TEXTS, deadline=9.5)
    assert time.perf_counter() - began < 5
    assert codes(refused) == {"overloaded"}
    assert refused.report.status == "unchanged"
    assert refused.report.usage.calls == 0


def test_a_cancelled_ranking_leaves_its_turn():
    scorer = Own()
    scorer.hold = threading.Event()
    reranker = Reranker(scorer, log_level="debug")

    async def main():
        tasks = [
            asyncio.create_task(reranker.arerank(f"{number}", TEXTS, deadline=60.0))
            for number in range(WIDTH + 3)
        ]
        while len(scorer.calls) < WIDTH:
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
    turns = turns_of(scorer)
    assert (turns._running, turns._waiting, turns.admission.claims) == ([], [], {})
    scorer.hold.set()


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_call_has_as_many_texts_as_the_measured_time_allows(way):
    scorer = Own()
    reranker = Reranker(scorer, limits={"deadline": 30.0}, log_level="debug")
    for _ in range(3):
        assert rank(reranker, way, "q", TEXTS).report.status == "ok"
    assert [count for _, count in scorer.calls] == [32, 8, 40, 40]
    scorer.batch_size = 15
    rank(Reranker(scorer, limits={"deadline": 30.0}, log_level="debug"), way, "q", TEXTS)
    assert [count for _, count in scorer.calls[4:]] == [15, 15, 10]


def test_rankings_that_fit_are_not_split_for_others():
    scorer = Own()
    reranker = Reranker(scorer, log_level="debug")
    reranker.rerank("q", TEXTS, deadline=30.0)
    del scorer.calls[:]
    with ThreadPoolExecutor(16) as pool:
        work = [pool.submit(reranker.rerank, "q", TEXTS, deadline=SECONDS) for _ in range(32)]
        assert {future.result(SECONDS).report.status for future in work} == {"ok"}
    assert [count for _, count in scorer.calls] == [40] * 32


def test_a_call_for_many_rankings_has_as_many_texts_as_the_measured_time_allows():
    class Many(Own):
        def score_many(self, requests):
            self.together.append(sum(len(documents) for _, documents in requests))
            return [self.score_pairs(*request) for request in requests]

    scorer, requests = Many(), [(f"{number}", TEXTS[:10]) for number in range(10)]
    reranker = Reranker(scorer, log_level="debug")
    for expected in ([30, 30, 30], [100]):  # the time is not known at first
        scorer.together = []
        rankings = reranker.rerank_many(requests, deadline=30.0)
        assert {ranking.report.status for ranking in rankings} == {"ok"}
        assert scorer.together == expected


def test_an_error_in_one_part_leaves_the_others():
    class Failing(Own):
        batch_size = 10

        def score_pairs(self, query, documents):
            if "text 15" in documents:
                raise ValueError
            return super().score_pairs(query, documents)

    scorer = Failing()
    ranking = Reranker(scorer, log_level="debug").rerank("q", TEXTS, deadline=30.0)
    assert scored(ranking) == set(range(40)) - set(range(10, 20))
    assert turns_of(scorer)._running == []


def test_a_scorer_that_calls_its_reranker_does_not_wait_for_itself():
    class Nested(Own):
        def score_pairs(self, query, documents):
            if query == "outer":
                inside.wait(SECONDS)  # all turns are taken
                reranker.rerank("inner", documents, deadline=30.0)
            return super().score_pairs(query, documents)

    inside = threading.Barrier(WIDTH)
    reranker = Reranker(Nested(), log_level="debug")
    rankings = []
    threads = [
        threading.Thread(
            target=lambda: rankings.append(reranker.rerank("outer", TEXTS[:5], deadline=30.0)),
            daemon=True,
        )
        for _ in range(WIDTH)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [ranking.report.status for ranking in rankings] == ["ok"] * WIDTH


def test_the_wait_for_a_thread_is_no_time_of_the_scorer():
    other, scorer = Own(), Own()
    other.hold = threading.Event()

    async def main():
        held = Reranker(other, log_level="debug")
        tasks = [asyncio.create_task(held.arerank("q", TEXTS[:1])) for _ in range(WIDTH)]
        while len(other.calls) < WIDTH:
            await asyncio.sleep(0.001)
        asyncio.get_running_loop().call_later(0.5, other.hold.set)
        ranking = await Reranker(scorer, log_level="debug").arerank("q", TEXTS)
        await asyncio.gather(*tasks)
        return ranking.report

    report = asyncio.run(main())
    assert report.waiting_seconds > 0.4
    assert report.calling_seconds < 0.4
    assert turns_of(scorer).admission.cost.rate < 0.01


def test_the_time_of_a_busy_event_loop_is_no_time_of_the_scorer():
    """A turn begins its call in a thread at once, and ends in that thread."""
    scorer = Own()
    reranker = Reranker(scorer, log_level="debug")

    async def main():
        task = asyncio.create_task(reranker.arerank("q", TEXTS, deadline=30.0))
        await asyncio.sleep(0)
        began = time.monotonic()
        while len(scorer.calls) < 2 and time.monotonic() < began + 0.3:
            time.sleep(0.01)  # as other rankings that begin
        assert scorer.calls
        return await task

    report = asyncio.run(main()).report
    assert report.status == "ok"
    assert turns_of(scorer).admission.cost.mean < 0.2


def test_a_thousand_rankings_at_once_are_not_held_up_by_their_turns():
    scorer = Own()
    reranker = Reranker(scorer, log_level="debug")

    async def main():
        calls = (reranker.arerank("q", TEXTS, deadline=30.0) for _ in range(1000))
        return await asyncio.gather(*calls)

    rankings = asyncio.run(main())
    assert {ranking.report.status for ranking in rankings} == {"ok"}


@pytest.mark.parametrize("closed", [False, True])
def test_turns_of_a_loop_that_does_not_run_are_given_to_others(closed):
    scorer = Own()
    scorer.hold = threading.Event()
    reranker = Reranker(scorer, log_level="debug")
    loop = asyncio.new_event_loop()

    async def begin():
        tasks = [
            asyncio.create_task(reranker.arerank("q", TEXTS, deadline=30.0))
            for _ in range(WIDTH + 1)
        ]
        while len(scorer.calls) < WIDTH:
            await asyncio.sleep(0.001)
        return tasks

    tasks = loop.run_until_complete(begin())
    if closed:
        loop.close()
    scorer.hold.set()
    with ThreadPoolExecutor(1) as pool:
        ranking = pool.submit(reranker.rerank, "q", TEXTS, deadline=20.0).result(SECONDS)
    assert ranking.report.status == "ok"
    if not closed:
        rest = loop.run_until_complete(asyncio.wait_for(asyncio.gather(*tasks), SECONDS))
        loop.close()
        assert {ranking.report.status for ranking in rest} == {"ok"}
    assert turns_of(scorer)._waiting == []
