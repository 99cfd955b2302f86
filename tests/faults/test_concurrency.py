"""One reranker in many threads, tasks, event loops and processes; cancelled rankings."""

import asyncio
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import fake_provider as fake
from fake_provider import FakeProvider
from forked import IGNORES_FORKS, NEEDS_FORK, ended_well, run_child
from raw_http import until
from rotation import rotated
from secondpass import InputError, Reranker
from secondpass.questions import Prompt

FLAVOURS = ("openai", "anthropic", "google")
COUNT = 16


@pytest.fixture
def shared(provider, reranker):
    """A reranker of a flavour, with a few questions a ranking."""

    def make(flavour="openai", **limits):
        return reranker(
            method={
                "type": "graded",
                "batch_size": 4,
                "llm": provider.llm(flavour, api_key="k"),
            },
            limits={"deadline": 60, "retries": 0, **limits},
        )

    return make


def given(number):
    """Candidates that differ from one ranking to the next."""
    return [f"{(number * 7 + index * 3) % 10} text {number}" for index in range(8)]


def facts(ranking):
    """What other rankings must not change."""
    usage = ranking.report.usage
    scores = [item.rerank_score for item in ranking]
    return ranking.order, scores, ranking.report.status, usage.calls, usage.input_tokens


def in_threads(rank):
    with ThreadPoolExecutor(COUNT) as pool:
        return list(pool.map(rank, range(COUNT)))


def in_tasks(arank):
    async def main():
        return await asyncio.gather(*map(arank, range(COUNT)))

    return asyncio.run(main())


WAYS = {
    "threads": lambda rank, arank: in_threads(rank),
    "tasks": lambda rank, arank: in_tasks(arank),
    "threads and loops": lambda rank, arank: in_threads(
        lambda number: rank(number) if number % 2 else asyncio.run(arank(number))
    ),
}


@pytest.mark.parametrize(("flavour", "way"), rotated(FLAVOURS, WAYS))
def test_concurrent_rankings_agree(provider, shared, flavour, way):
    provider.play()
    reranker = shared(flavour)
    expected = [facts(reranker.rerank(f"query {number}", given(number))) for number in range(COUNT)]
    reranker = shared(flavour)  # its client is made by whichever thread comes first
    rankings = WAYS[way](
        lambda number: reranker.rerank(f"query {number}", given(number)),
        lambda number: reranker.arerank(f"query {number}", given(number)),
    )
    assert [facts(ranking) for ranking in rankings] == expected


def test_reports_have_their_own_errors(provider, shared):
    """Every third query fails; each report lists its own errors only."""
    broken = {f"query {number}" for number in range(0, COUNT, 3)}

    def script(request):
        asked = request.messages[-1].partition("<query>")[2].partition("</query>")[0]
        return fake.status(500) if asked in broken else fake.good()

    provider.play_by(script)
    reranker = shared()
    with ThreadPoolExecutor(16) as pool:
        rankings = list(
            pool.map(lambda number: reranker.rerank(f"query {number}", given(number)), range(COUNT))
        )
    for number, ranking in enumerate(rankings):
        failed = f"query {number}" in broken
        assert ranking.report.status == ("unchanged" if failed else "ok")
        assert bool(ranking.report.issues) == failed


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_one_loop_after_another(provider, shared, flavour):
    """Clients whose connections belong to a loop that is closed would break here; so would
    synchronous calls inside a loop, as in notebooks and components that are synchronous."""
    provider.play()
    reranker = shared(flavour)

    async def main():
        before = await reranker.arerank("q", given(1))
        inside = reranker.rerank("q", given(1))
        threaded = await asyncio.to_thread(reranker.rerank, "q", given(1))
        return before, inside, threaded

    for _ in range(3):
        rankings = *asyncio.run(main()), reranker.rerank("q", given(1))
        assert {ranking.report.status for ranking in rankings} == {"ok"}
        assert len({ranking.order for ranking in rankings}) == 1


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_cancelled_task_ends_its_request(provider, shared, flavour):
    provider.play(fake.silence())
    reranker = shared(flavour)
    reports = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        task = asyncio.ensure_future(reranker.arerank("q", given(1)))
        while len(provider.requests) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        while provider.under_way:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 60))
    assert reports == []
    # It holds neither a slot nor a connection any longer.
    provider.play()
    assert reranker.rerank("q", given(1)).report.status == "ok"
    assert provider.calls == 2


# ---------------------------------------------------------------------- scorers in threads


class Stuck:
    """Scores by length; a query of ``stuck`` waits for an event first."""

    model_name = "stuck"

    def __init__(self):
        self.go, self.ended, self.begun = threading.Event(), threading.Event(), 0

    def score_pairs(self, query, documents):
        self.begun += 1
        if query == "stuck":
            self.go.wait(60)
            self.ended.set()
        return [float(len(text)) for text in documents]


@pytest.fixture
def stuck():
    scorer = Stuck()
    yield scorer
    scorer.go.set()


@pytest.mark.parametrize("cancelled", [False, True])
def test_loop_ends_before_its_scorers(stuck, cancelled):
    reranker = Reranker(stuck, limits=None if cancelled else {"deadline": 0.05}, log_level="debug")

    async def main():
        task = asyncio.ensure_future(reranker.arerank("stuck", ["a", "bb"]))
        if cancelled:
            await asyncio.to_thread(until, lambda: stuck.begun)
            task.cancel()
        return await asyncio.gather(task, return_exceptions=True)

    (result,) = asyncio.run(main())
    assert not stuck.ended.is_set()
    if cancelled:
        assert isinstance(result, asyncio.CancelledError)
    else:
        assert result.report.status == "unchanged"


def test_late_scorers_hold_no_slot(stuck):
    stuck_one = Reranker(stuck, limits={"deadline": 0.05}, log_level="debug")
    other = Reranker(Stuck())

    async def main():
        given_up = await asyncio.gather(
            *(stuck_one.arerank("stuck", ["a", "bb"]) for _ in range(40))
        )
        ranking = await other.arerank("q", ["a", "bb"])
        # The executor of the loop is left alone.
        assert await asyncio.to_thread(lambda: "free") == "free"
        return given_up, ranking

    given_up, ranking = asyncio.run(main())
    assert {one.report.status for one in given_up} == {"unchanged"}
    assert ranking.order == (1, 0)
    assert not stuck.ended.is_set()


@pytest.mark.parametrize("name", ["awarm_up", "aclose"])
def test_warm_up_and_close_cancel(stuck, name):
    def block():
        stuck.score_pairs("stuck", [])

    stuck.warm_up = stuck.close = block

    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(getattr(Reranker(stuck), name)(), 0.05)

    asyncio.run(main())
    assert not stuck.ended.is_set()


def test_keyboard_interrupt_passes(provider, shared):
    """In the main thread of a synchronous ranking, while it waits for the model."""
    provider.play(fake.silence())
    reranker = shared()

    def interrupt():
        until(lambda: provider.requests)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)

    def rank():
        thread.start()  # a late request of an earlier test may end its wait at once
        reranker.rerank("q", given(1))

    with pytest.raises(KeyboardInterrupt):
        rank()
    thread.join()
    provider.play()
    assert reranker.rerank("q", given(1)).report.status == "ok"


def test_close_while_ranking(provider, shared):
    provider.play(fake.good(after=0.1))
    reranker = shared()
    with ThreadPoolExecutor(4) as pool:
        rankings = [pool.submit(reranker.rerank, "q", given(number)) for number in range(4)]
        until(lambda: provider.requests)
        reranker.close()
        for ranking in rankings:
            assert sorted(ranking.result().order) == list(range(8))
    provider.play()
    assert reranker.rerank("q", given(1)).report.status == "ok"


@NEEDS_FORK
@IGNORES_FORKS
@pytest.mark.parametrize(("flavour", "used"), rotated(FLAVOURS, [True, False]))
def test_child_process_ranks_alike(provider, shared, flavour, used):
    """As under servers that load everything and then fork their workers."""
    provider.play()
    reranker = shared(flavour)
    expected = reranker.rerank("q", given(1)).order
    if not used:
        reranker = shared(flavour)

    def ranks_alike():
        rankings = reranker.rerank("q", given(1)), asyncio.run(reranker.arerank("q", given(1)))
        return {(one.order, one.report.status) for one in rankings} == {(expected, "ok")}

    assert ended_well(run_child(ranks_alike))
    # The parent's connections are its own still.
    assert reranker.rerank("q", given(1)).order == expected
    assert reranker.rerank("q", given(2)).report.status == "ok"


@NEEDS_FORK
@IGNORES_FORKS
def test_fork_during_a_ranking(provider, shared):
    provider.play(fake.good(after=0.3))
    reranker = shared()
    with ThreadPoolExecutor(1) as pool:
        ranking = pool.submit(reranker.rerank, "q", given(1))
        until(lambda: provider.requests)
        child = run_child(lambda: reranker.rerank("q", given(1)).report.status == "ok")
        assert ended_well(child)
        assert ranking.result().report.status == "ok"


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_pickled_reranker(provider, shared, flavour, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-test-SECRET-123")
    provider.play()
    reranker = shared(flavour)
    expected = reranker.rerank("q", given(1)).order
    method = {"type": "graded", "llm": provider.llm(flavour, api_key_env="SOME_KEY")}
    with contextlib.closing(Reranker.from_config({"method": method})) as named:
        assert named.rerank("q", given(1)).order == expected
        packed = pickle.dumps(named)
    assert b"SECRET" not in packed
    with contextlib.closing(pickle.loads(packed)) as copy:
        assert copy.rerank("q", given(1)).order == expected


SCRIPT = """
import asyncio, sys
from secondpass import InputError, Reranker
from secondpass.questions import Prompt
llm = {{"type": {flavour!r}, "model": "m", "base_url": {url!r}, "api_key": "k"}}
method = {{"type": "graded", "llm": llm}}
one = Reranker.from_config({{"method": method, "limits": {{"deadline": 0.3}}}})
one.warm_up()
print(one.rerank("q", ["a", "b"]).report.status)
print(asyncio.run(one.arerank("q", ["a", "b"])).report.status)
"""


@pytest.mark.parametrize(
    "flavour", ["openai", pytest.param("google", id="google", marks=pytest.mark.long)]
)
def test_process_ends_despite_silence(flavour):
    """Abandoned threads and requests neither keep the process nor write to stderr."""
    with FakeProvider(fake.silence()) as provider:
        script = SCRIPT.format(flavour=flavour, url=provider.base_url(flavour))
        ended = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
        )
    assert ended.stdout.split() == ["unchanged", "unchanged"]
    assert ended.returncode == 0
    lines = [line for line in ended.stderr.splitlines() if not line.startswith("reranking is")]
    assert lines == []


CALLS = {
    "arerank": lambda one: one.arerank("q", ["a", "b"]),
    "no candidates": lambda one: one.arerank("q", []),
    "arerank_many": lambda one: one.arerank_many([("q", ["a", "b"])]),
    "astream": lambda one: anext(one.astream("q", ["a", "b"])),
    "awarm_up": lambda one: one.awarm_up(),
    "aclose": lambda one: one.aclose(),
    "complete": lambda one: one.method.llm.complete(Prompt("s", ())),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_event_loop_of_another_library_is_named(call, reranker):
    """Such as trio's: they all run a coroutine by `send`."""
    llm = {"type": "openai", "model": "m", "base_url": "http://127.0.0.1:9", "api_key": "k"}
    one = reranker(method={"type": "graded", "llm": llm})
    coroutine = CALLS[call](one).__await__()
    with pytest.raises(InputError, match="need an event loop of asyncio; under another, such as"):
        coroutine.send(None)
