"""Functions as language models: what they are given, and what may come back."""

import asyncio
import contextvars
import functools
import threading
from dataclasses import replace

import pytest

from fakes import graded, shown_in
from secondpass import Reranker
from secondpass.errors import LLMError
from secondpass.limits import Prices
from secondpass.llms.function import CallableLLM
from secondpass.questions import Completion, Prompt, Turn
from secondpass.strategies.graded import Graded

PROMPT = Prompt("be brief", (Turn("user", "one"), Turn("assistant", "two"), Turn("user", "three")))
BOUND = Prompt("", (Turn("user", "one"),), {"type": "object"})


def complete(function, prompt=PROMPT, **settings):
    return asyncio.run(CallableLLM(function, **settings).complete(prompt))


# ---------------------------------------------------------------------- what it is given


def test_messages_are_those_of_chat_apis():
    seen = []

    def function(messages):
        seen.append(messages)
        return "yes"

    assert complete(function) == Completion("yes")
    complete(function, BOUND)
    assert seen == [
        [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "three"},
        ],
        [{"role": "user", "content": "one"}],
    ]


def plain(messages):
    return "none"


def with_schema(messages, schema):
    return f"schema={schema}"


def with_timeout(messages, *, timeout=None):
    return f"timeout={timeout}"


def with_others(messages, temperature=0.5, *rest, **others):
    return f"{temperature} {rest} {others}"


class Object:
    def __call__(self, messages, schema):
        return f"schema={schema}"


async def coroutine(messages, schema):
    return f"schema={schema}"


def returns_awaitable(messages, schema):
    return coroutine(messages, schema)


FUNCTIONS = [
    (plain, "none"),
    (with_schema, "schema={'type': 'object'}"),
    (with_timeout, "timeout=7.0"),
    (with_others, "0.5 () {}"),
    (Object(), "schema={'type': 'object'}"),
    (coroutine, "schema={'type': 'object'}"),
    (returns_awaitable, "schema={'type': 'object'}"),
    (functools.partial(with_timeout, timeout=3), "timeout=7.0"),
    (lambda messages: messages[0]["content"], "one"),
]


def test_log_probabilities():
    seen = []

    def function(messages, logprobs):
        seen.append(logprobs)
        return Completion("yes", logprobs=[{"yes": -0.5}])

    assert CallableLLM(function).has_logprobs
    assert not CallableLLM(with_others).has_logprobs
    assert complete(function, replace(BOUND, logprobs=20)).logprobs == [{"yes": -0.5}]
    complete(function)
    assert seen == [20, 0]


@pytest.mark.parametrize(("function", "said"), FUNCTIONS)
def test_keywords(function, said):
    assert complete(function, BOUND, timeout=7.0).text == said


# ---------------------------------------------------------------------- where it runs


def test_blocking_function():
    variable = contextvars.ContextVar("variable", default="unset")

    def function(messages):
        return f"{threading.current_thread() is threading.main_thread()} {variable.get()}"

    async def act():
        variable.set("set")
        return await CallableLLM(function).complete(PROMPT)

    assert asyncio.run(act()).text == "False set"


def test_asynchronous_function():
    loops = []

    async def function(messages):
        loops.append(asyncio.get_running_loop())
        return graded(shown_in(messages))

    async def act():
        loops.append(asyncio.get_running_loop())
        await Reranker(Graded(function)).arerank("q", ["1 a", "2 b"])

    asyncio.run(act())
    assert loops[0] is loops[1]


# ---------------------------------------------------------------------- what comes back


@pytest.mark.parametrize("said", [None, 7, b"bytes", ["yes"], {"content": "yes"}, object()])
def test_not_a_reply(said):
    with pytest.raises(
        LLMError, match=f"^the function returned {type(said).__name__}, not a string$"
    ) as caught:
        complete(lambda messages: said)
    assert caught.value.code == "bad_response"
    assert not caught.value.retryable


# ---------------------------------------------------------------------- settings


def test_names_and_members():
    assert CallableLLM(plain).name == "plain"
    assert CallableLLM(Object()).name == "Object"
    assert CallableLLM(functools.partial(plain)).name == "partial"
    assert CallableLLM(plain, name="mine").name == "mine"
    llm = CallableLLM(plain, timeout=3, prices=Prices(1, 2), context_window=1000)
    assert (llm.timeout, llm.prices, llm.context_window) == (3, Prices(1, 2), 1000)
    assert CallableLLM(plain, prices={"input": 1, "output": 2}).prices == Prices(1, 2)
