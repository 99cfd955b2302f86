"""The interim results of a coroutine, as an asynchronous generator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from secondpass.concurrency.threads import retrieve_exception, running_loop

T = TypeVar("T")


async def stream(work: Callable[[Callable[[T], None]], Awaitable[T]]) -> AsyncGenerator[T, None]:
    """Yield what the work passes to its listener, as soon as possible, and then its result.

    The work, a function of the listener, runs in a separate task, so that it does not wait for a
    slow consumer. Closing the generator cancels it. What it raises comes after its results.
    """
    running_loop()
    results: asyncio.Queue[T | None] = asyncio.Queue()
    task = asyncio.ensure_future(work(results.put_nowait))
    task.add_done_callback(retrieve_exception)
    task.add_done_callback(lambda _task: results.put_nowait(None))
    try:
        while (result := await results.get()) is not None:
            yield result
        yield task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
