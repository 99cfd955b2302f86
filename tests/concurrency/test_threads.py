"""Blocking calls in daemon threads, and waits with a timeout."""

import asyncio
import contextvars
import gc
import threading
import time

import pytest

from frozen_heap import frozen_heap  # noqa: F401
from secondpass.concurrency import waiting
from secondpass.concurrency.portal import portal
from secondpass.concurrency.threads import in_thread, with_timeout

pytestmark = pytest.mark.usefixtures("frozen_heap")

# ---------------------------------------------------------------------- threads


def test_call_in_a_daemon_thread():
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
        (SystemExit(3), RuntimeError),
        (MemoryError(), MemoryError),
    ],
)
def test_exceptions_are_raised(raised, met):
    def fail():
        raise raised

    async def use():
        await in_thread(fail)

    with pytest.raises(met):
        asyncio.run(use())


@pytest.mark.parametrize("way", ["thread", "portal"])
def test_late_failures_are_not_logged(way, caplog):
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
        failed.wait(60)
        time.sleep(0.05)  # the outcome stands in the queue of this loop now
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises((asyncio.CancelledError, LookupError)):
            await task

    asyncio.run(use())
    gc.collect()
    assert not caplog.records


@pytest.mark.parametrize("in_time_for", ["its loop", "nobody"])
def test_a_coroutine_that_a_late_thread_returns_is_closed(in_time_for, recwarn):
    go, returned = threading.Event(), threading.Event()

    async def absent():
        raise AssertionError

    def slow():
        go.wait(60)
        threading.Timer(0.1, returned.set).start()
        return absent()

    async def use():
        with pytest.raises(TimeoutError):
            await with_timeout(in_thread(slow), 0.02)
        if in_time_for == "its loop":
            go.set()
            await in_thread(lambda: returned.wait(60))

    asyncio.run(use())
    go.set()
    assert returned.wait(60)
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


# ---------------------------------------------------------------------- waiting


def test_with_timeout_leaves_work_behind():
    ended = []

    async def stubborn(release):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await release.wait()
            ended.append(True)
            raise LookupError("nobody looks at this") from None

    async def use():
        release = asyncio.Event()
        with pytest.raises(TimeoutError):
            await with_timeout(stubborn(release), 0.02)
        assert ended == []
        release.set()
        while not ended:
            await asyncio.sleep(0)

    asyncio.run(use())


def test_work_that_is_cancelled_before_it_starts_is_closed(recwarn):
    async def act():
        task = asyncio.ensure_future(with_timeout(asyncio.sleep(30), None))
        await asyncio.sleep(0)  # it waits for a task that has not started
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(act())
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


def test_failure_during_cancellation_is_not_logged():
    reports = []

    async def use():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        go = asyncio.Event()

        async def fail():
            await go.wait()
            raise LookupError("text of a passage")

        task = asyncio.ensure_future(with_timeout(fail(), 30))
        await asyncio.sleep(0.01)
        go.set()
        await asyncio.sleep(0)  # it has failed by now, and `with_timeout` does not know yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(use())
    assert reports == []


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt()])
def test_exits_of_work_become_errors(error):
    """They must neither end the loop nor look like a cancellation of the caller."""

    async def leave():
        raise error

    async def use():
        name = "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__
        with pytest.raises(RuntimeError, match=f"^{name}$"):
            await with_timeout(leave(), 60)

    asyncio.run(use())


def test_idle_threads_are_reused(monkeypatch):
    async def use():
        first = await in_thread(threading.current_thread)
        # The thread becomes idle just after it has handed its result over.
        for _ in range(6000):
            if waiting._idle:
                break
            await asyncio.sleep(0.01)
        return first, await in_thread(threading.current_thread)

    monkeypatch.setattr(waiting, "_idle", [])
    first, second = asyncio.run(use())
    assert first is second
