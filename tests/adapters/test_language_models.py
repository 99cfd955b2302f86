"""Model objects of frameworks: which interface is called, and what a reply says."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from secondpass.adapters.language_models import FrameworkLLM, SavedByAdapter, completion
from secondpass.concurrency.left_behind import AbandonedCallsError
from secondpass.concurrency.portal import portal
from secondpass.concurrency.threads import with_timeout


class Model:
    def call(self, word, *, times):
        return word * times, threading.get_ident()

    async def acall(self, word, *, times):
        return word * times, threading.get_ident()


async def called(llm, asynchronous=True):
    model = Model()
    word, thread = await llm.call(model.call, model.acall if asynchronous else None, "a", times=2)
    assert word == "aa"
    return thread


def test_async_in_its_own_loop():
    llm = FrameworkLLM()
    assert asyncio.run(called(llm)) == threading.get_ident()
    assert llm.used == {"async"}
    assert asyncio.run(called(llm)) != threading.get_ident()  # another loop
    assert llm.used == {"async", "sync"}
    llm.home.leave()
    assert asyncio.run(called(llm)) == threading.get_ident()


def test_sync_in_a_thread():
    llm = FrameworkLLM()
    assert asyncio.run(called(llm, asynchronous=False)) != threading.get_ident()
    asyncio.run_coroutine_threadsafe(called(llm), portal().loop).result(60)
    assert llm.used == {"sync"}


def test_an_object_that_hangs_is_not_called_again_and_again():
    release = threading.Event()

    class Hanging:
        calls = 0

        def run(self):
            self.calls += 1
            return release.wait(60)

    async def call_often(hanging):
        for _ in range(20):  # each by a new object around the same model, as frameworks make them
            try:
                await with_timeout(FrameworkLLM().call(hanging.run, None), 0.01)
            except TimeoutError:
                continue
            except AbandonedCallsError:
                return hanging.calls
        raise AssertionError

    try:
        assert 1 <= asyncio.run(call_often(Hanging())) <= 8  # a thread may begin late
    finally:
        release.set()


def test_saved_as_its_timeout():
    class Owned(SavedByAdapter, FrameworkLLM):
        pass

    assert Owned().as_setting("method.llm") is None
    assert Owned(300).as_setting("method.llm") == {"timeout": 300}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, (3, 4)),
        (SimpleNamespace(input_tokens=3, output_tokens=4), (3, 4)),
        ({"prompt_token_count": 3, "candidates_token_count": None}, (3, None)),
        ({"prompt_tokens": True, "input_tokens": 2}, (2, None)),
        (None, (None, None)),
    ],
)
def test_token_counts(usage, tokens):
    reply = completion("text", "length", usage)
    assert (reply.input_tokens, reply.output_tokens) == tokens
    assert reply.cut
