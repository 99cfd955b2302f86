"""The portal: one loop for the process, from any thread and any other loop."""

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from secondpass.concurrency.portal import portal


async def loop_here():
    return asyncio.get_running_loop()


# ---------------------------------------------------------------------- the loop


def test_call_inside_the_portal():
    async def nested():
        return await portal().call(loop_here)

    assert portal().submit(nested()).result(60) is portal().loop


def test_context_is_the_callers():
    variable = contextvars.ContextVar("variable", default="unset")

    async def read():
        return variable.get()

    variable.set("set")
    assert portal().submit(read()).result(60) == "set"


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


EXITING = """
import sys
from secondpass import Reranker
from secondpass.strategies.graded import Graded

def leaves(messages):
    sys.exit(3)

settings = {"limits": {"deadline": 60}, "log_level": "debug"}
try:
    Reranker(Graded(leaves), **settings).rerank("q", ["a", "b"])
except SystemExit:
    pass
replies = Reranker(Graded(lambda messages: "none"), **settings).rerank("q", ["a", "b"])
print([issue.code for issue in replies.report.issues])
"""


def test_exiting_function_keeps_the_portal():
    # In a separate process, because a broken portal would break other tests.
    done = subprocess.run(
        [sys.executable, "-c", EXITING], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "['reply_refused']"
