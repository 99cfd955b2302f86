"""The portal: one loop for the process, from any thread and any other loop."""

import asyncio
import contextvars
import threading

import pytest

from secondpass.concurrency.portal import portal


async def loop_here():
    return asyncio.get_running_loop()


# ---------------------------------------------------------------------- the loop


def test_call_inside_the_portal():
    async def nested():
        return await portal().call(loop_here)

    assert portal().run(nested, 60) is portal().loop


def test_context_is_the_callers():
    variable = contextvars.ContextVar("variable", default="unset")

    async def read():
        return variable.get()

    variable.set("set")
    assert portal().run(read, 60) == "set"


def test_cancelling_the_caller_cancels_the_work():
    begun, ended = threading.Event(), threading.Event()

    async def endless():
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def use():
        task = asyncio.ensure_future(portal().call(endless))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(use())
    assert ended.wait(60)
