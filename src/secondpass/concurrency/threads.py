"""Blocking calls in daemon threads, and waits with a timeout that abandon the work."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from secondpass.concurrency.left_behind import (
    ALLOWED,
    Abandonable,
    AbandonedCallsError,
    check_abandoned,
)
from secondpass.concurrency.waiting import start
from secondpass.errors import InputError

T = TypeVar("T")

_TURNS = 10  # turns of the event loop in which tasks that were cancelled just now may end


def running_loop() -> asyncio.AbstractEventLoop:
    """The running event loop of asyncio; an InputError if there is none, as under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        message = (
            "asynchronous methods need an event loop of asyncio; under another, such as trio, call "
            "the synchronous ones in a thread, as by trio.to_thread.run_sync"
        )
        raise InputError(message) from None


async def in_thread(call: Callable[[], T]) -> T:
    """Run ``call`` in a daemon thread, in the caller's context.

    Cancellation returns at once and leaves the thread running. Unlike threads of an executor, these
    are unlimited in number, and neither the event loop nor the process waits for them at its end:
    what may hang needs :func:`in_thread_of`.

    Raises:
        RuntimeError: ``call`` raised StopIteration or an exit, such as SystemExit.
        InputError: no event loop of asyncio is running.
    """
    loop = running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            _close(result)
        elif error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(call)
        except BaseException as raised:
            # An exit raised by a task ends the event loop; a future cannot hold StopIteration.
            plain = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            error = raised if plain else RuntimeError(type(raised).__name__)
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:  # the loop is closed
            _close(result)

    start(work)
    try:
        return await future
    except asyncio.CancelledError:
        if future.done() and not future.cancelled() and future.exception() is None:
            _close(future.result())
        raise


def _close(result: object) -> None:
    """Close a coroutine that nobody will await."""
    if asyncio.iscoroutine(result):
        result.close()


async def in_thread_of(owner: object, call: Callable[[], T]) -> T:
    """:func:`in_thread` for a call of a user's function or object, which may hang.

    Raises:
        AbandonedCallsError: as many of its calls were abandoned, and still run, as a ranking may
            make at once.
    """
    check_abandoned(owner, ALLOWED.get())
    work = Abandonable(call, owner)
    try:
        return await in_thread(work)
    except asyncio.CancelledError:
        work.abandon()
        raise


async def in_task_of(owner: object, call: Callable[[], Awaitable[T]]) -> T:
    """:func:`in_thread_of` for an asynchronous function, which may ignore its cancellation.

    Cancellation returns at once, and may leave the task running.
    """
    for _ in range(_TURNS):
        with contextlib.suppress(AbandonedCallsError):
            check_abandoned(owner, ALLOWED.get())
            break
        await asyncio.sleep(0)
    check_abandoned(owner, ALLOWED.get())
    return await with_timeout(call(), None, owner=owner)


async def with_timeout(
    work: Awaitable[T],
    seconds: float | None,
    extended: Callable[[], float] | None = None,
    owner: object = None,
) -> T:
    """Await ``work`` for a time. Unlike ``asyncio.wait_for`` this waits for no cancelled work.

    ``extended`` is called when ``seconds`` have passed and returns the seconds that are added to
    them. The work counts as an abandoned call of its owner, if it has one, while it ignores its
    cancellation.

    Raises:
        TimeoutError: the work takes longer.
        RuntimeError: the work was cancelled by other code, or raised an exit.
    """
    task = asyncio.ensure_future(_shielded(work))
    # The caller may be cancelled at the moment at which the task fails.
    task.add_done_callback(retrieve_exception)
    if asyncio.iscoroutine(work):  # a task that is cancelled before it starts does not close it
        task.add_done_callback(lambda _task: work.close())
    abandonable = Abandonable(task.result, owner)
    task.add_done_callback(lambda _task: abandonable.end())
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done() and extended is not None and (added := extended()):
            await asyncio.wait({task}, timeout=added)
        if not task.done():
            raise TimeoutError
    finally:
        task.cancel()
        if owner is not None:
            abandonable.abandon()
    if task.cancelled():  # a CancelledError would look like a cancellation of the caller
        raise RuntimeError("cancelled")
    return task.result()


async def _shielded(work: Awaitable[T]) -> T:
    """Await ``work``; an exit that it raises becomes a RuntimeError, which ends no event loop."""
    try:
        return await work
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as raised:
        raise RuntimeError(type(raised).__name__) from None


def retrieve_exception(future: asyncio.Future[Any]) -> None:
    """Mark the exception of a future as retrieved, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()
