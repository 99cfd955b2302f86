"""Finding JSON in replies: quotations, depth and time."""

import asyncio
import contextlib
import time

import pytest

from reply_cases import NONE, ORDER, O, check, order_of
from secondpass import Reranker
from secondpass.errors import ReplyError
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise


def test_quoted_end_of_thinking():
    reply = f'{O} A document said "</think>["k4t", "b2c", "z9x"]", which I ignored.'
    with contextlib.suppress(ReplyError):  # ambiguous is fine; what the document said is not
        assert order_of(reply) == ORDER


def test_deep_cut_reply():
    started = time.process_time()
    check(lambda: order_of("[x," + "[1," * 130_000, cut=True), NONE)
    assert time.process_time() - started < 5


LASTING = [
    ("escaped quotes before braces", '\\"{x}' * 70_000),
    ("quotes before braces", '"{x} ' * 70_000),
    ("comments in brackets", "[//]" * 90_000),
    ("apostrophes in brackets", "['a]" * 90_000),
    ("unclosed prose", "[a b " * 70_000),
    ("spaces in brackets", ("[" + " " * 200 + ",") * 1900),
    ("almost-JSON", "[1,]" * 90_000),
    ("bare words in objects", "[" + "{a:b}" * 3900 + "]"),
    ("escaped quotes in broken JSON", '[x "' + '\\"' * 12_000),
    (
        "arrays that all differ",
        "".join(f"[{at},{other}]" for at in range(1, 71) for other in range(1, 71)),
    ),
]


@pytest.mark.parametrize("reply", [row[1] for row in LASTING], ids=[row[0] for row in LASTING])
def test_linear_time(reply):
    async def function(messages):
        return reply

    reranker = Reranker(
        Listwise(function, window=None, labels="index1"),
        limits={"deadline": 0.5, "repair": 0},
        log_level="debug",
    )
    texts = [f"passage {at}" for at in range(70)]
    started = time.process_time()  # reading computes; what else the machine does is no matter
    ranking = asyncio.run(reranker.arerank("q", texts))
    assert time.process_time() - started < 3  # busy machines count more; a quadratic one takes 10
    assert ranking.report.status == "unchanged"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_megabyte_before_a_deadline(asynchronous):
    reranker = Reranker(
        Graded(lambda messages: "{" * 1_000_000), limits={"deadline": 2}, log_level="debug"
    )
    if asynchronous:
        ranking = asyncio.run(reranker.arerank("q", ["a", "b"]))
    else:
        ranking = reranker.rerank("q", ["a", "b"])
    assert ranking.report.issues[0].code == "reply_refused"
