"""The portal: one loop for the process, from any thread and any other loop."""

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest

from secondpass.concurrency.portal import portal
from secondpass.concurrency.threads import in_thread, with_timeout


async def loop_here():
    return asyncio.get_running_loop()


# ---------------------------------------------------------------------- the loop


def test_there_is_one_portal_whoever_asks():
    with ThreadPoolExecutor(8) as threads:
        portals = set(threads.map(lambda _: portal(), range(32)))
    assert portals == {portal()}
    assert portal().submit(loop_here()).result() is portal().loop


def test_it_outlives_the_loops_that_use_it():
    async def use():
        return await portal().call(loop_here)

    assert asyncio.run(use()) is asyncio.run(use()) is portal().loop


def test_within_its_own_loop_it_calls_at_once():
    async def nested():
        return await portal().call(loop_here)

    assert portal().submit(nested()).result(5) is portal().loop


def test_it_is_reached_from_a_thread_whose_loop_runs():
    async def blocking():
        return portal().submit(loop_here()).result(5)

    assert asyncio.run(blocking()) is portal().loop


def test_what_is_raised_there_is_raised_here():
    async def fail():
        raise LookupError("there")

    with pytest.raises(LookupError, match="there"):
        portal().submit(fail()).result(5)

    async def use():
        await portal().call(fail)

    with pytest.raises(LookupError, match="there"):
        asyncio.run(use())


def test_context_variables_go_along():
    variable = contextvars.ContextVar("variable", default="unset")

    async def read():
        return variable.get()

    variable.set("set")
    assert portal().submit(read()).result(5) == "set"


def test_cancellation_here_cancels_there():
    begun, ended = threading.Event(), threading.Event()

    async def endless():
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def use():
        task = asyncio.ensure_future(portal().call(endless))
        await asyncio.to_thread(begun.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(use())
    assert ended.wait(5)


def test_cancelling_the_future_cancels_the_work():
    ended = threading.Event()

    async def endless():
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    future = portal().submit(endless())
    portal().submit(asyncio.sleep(0)).result(5)  # by then it has begun
    future.cancel()
    assert ended.wait(5)
    with pytest.raises(CancelledError):
        future.result(0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_has_a_portal_of_its_own():
    parents = portal()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        try:
            own = (
                portal() is not parents and portal().submit(loop_here()).result(5) is portal().loop
            )
            os.write(writing, b"own" if own else b"shared")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"own"
    os.close(reading)
    os.close(writing)
    assert portal() is parents
    assert parents.submit(loop_here()).result(5) is parents.loop


EXITING = """
import sys
from secondpass import Reranker
from secondpass.strategies.graded import Graded

def leaves(messages):
    sys.exit(3)

settings = {"limits": {"deadline": 1}, "log_level": "debug"}
try:
    Reranker(Graded(leaves), **settings).rerank("q", ["a", "b"])
except SystemExit:
    pass
replies = Reranker(Graded(lambda messages: "none"), **settings).rerank("q", ["a", "b"])
print([issue.code for issue in replies.report.issues])
"""


def test_a_function_that_exits_does_not_take_the_portal_along():
    # In a process of its own: a broken portal would be everybody's.
    done = subprocess.run(
        [sys.executable, "-c", EXITING], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "['reply_refused']"


# ---------------------------------------------------------------------- threads


def test_a_call_runs_in_a_thread_of_its_own_with_the_context():
    variable = contextvars.ContextVar("variable", default="unset")

    async def use():
        variable.set("set")
        return await in_thread(lambda: (threading.current_thread(), variable.get()))

    thread, value = asyncio.run(use())
    assert thread is not threading.current_thread()
    assert thread.daemon
    assert value == "set"


@pytest.mark.parametrize(
    ("raised", "met"),
    [
        (LookupError("x"), LookupError),
        (StopIteration(3), RuntimeError),
        (MemoryError(), MemoryError),
    ],
)
def test_what_a_thread_raises_is_raised(raised, met):
    def fail():
        raise raised

    async def use():
        await in_thread(fail)

    with pytest.raises(met):
        asyncio.run(use())


@pytest.mark.parametrize("way", ["thread", "portal"])
def test_failures_of_cancelled_callers_are_not_logged(way, caplog):
    failed = threading.Event()

    def fail():
        failed.set()
        raise LookupError("a passage")

    async def fail_there():
        fail()

    async def use():
        work = in_thread(fail) if way == "thread" else portal().call(fail_there)
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0)
        failed.wait(5)
        time.sleep(0.05)  # the outcome stands in the queue of this loop now
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises((asyncio.CancelledError, LookupError)):
            await task

    asyncio.run(use())
    gc.collect()
    assert not caplog.records


def test_a_thread_that_is_given_up_on_is_left_behind():
    go, ended = threading.Event(), threading.Event()

    def slow():
        go.wait(5)
        ended.set()

    async def use():
        with pytest.raises(TimeoutError):
            await with_timeout(in_thread(slow), 0.05)

    started = time.perf_counter()
    asyncio.run(use())  # neither waits for the thread nor is told of its end
    assert time.perf_counter() - started < 2
    go.set()
    assert ended.wait(5)


def test_many_threads_at_once():
    barrier = threading.Barrier(40)

    async def use():
        await asyncio.gather(*(in_thread(lambda: barrier.wait(10)) for _ in range(40)))

    asyncio.run(use())


# ---------------------------------------------------------------------- waiting


def test_within_gives_the_result_or_what_was_raised():
    async def fail():
        raise LookupError

    async def use():
        assert await with_timeout(asyncio.sleep(0, "done"), 5) == "done"
        assert await with_timeout(asyncio.sleep(0, "done"), None) == "done"
        with pytest.raises(LookupError):
            await with_timeout(fail(), 5)

    asyncio.run(use())


def test_within_does_not_wait_for_what_it_cancels():
    ended = []

    async def stubborn():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.2)
            ended.append(True)
            raise LookupError("nobody looks at this") from None

    async def use():
        started = time.perf_counter()
        with pytest.raises(TimeoutError):
            await with_timeout(stubborn(), 0.05)
        assert time.perf_counter() - started < 0.2
        await asyncio.sleep(0.3)

    asyncio.run(use())
    assert ended == [True]


def test_cancelling_within_cancels_the_work():
    ended = []

    async def endless():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async def use():
        task = asyncio.ensure_future(with_timeout(endless(), 30))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)

    asyncio.run(use())
    assert ended == [True]


def test_an_error_at_the_moment_of_cancellation_is_not_logged():
    complaints = []

    async def use():
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
        go = asyncio.Event()

        async def fail():
            await go.wait()
            raise LookupError("text of a passage")

        task = asyncio.ensure_future(with_timeout(fail(), 30))
        await asyncio.sleep(0.01)
        go.set()
        await asyncio.sleep(0)  # it has failed by now, and `with_timeout` has not been told
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(use())
    assert complaints == []
