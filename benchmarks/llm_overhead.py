"""Measures the overhead of questions to a language model, without the model's own time.

    python benchmarks/llm_overhead.py

Grades 100 candidates in 5 concurrent questions. The model replies immediately: first a function,
then a loopback server, through OpenAI's SDK. Rankings alternate with the same 5 prompts sent by the
SDK alone, and the ratio of the medians is printed. All other time is overhead: prompts, fences,
labels, schemas, readers, ledger, threads. Then, the time to await something in the thread of all
providers' clients, and to return.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from benchmarks.checked import check

from fake_provider import FakeProvider, good
from secondpass import Reranker
from secondpass.concurrency.portal import portal
from secondpass.effects import Task
from secondpass.ranking.candidates import to_candidates

TEXTS = [
    f"{number % 10} passage about something, of some length: {'word ' * 60}"
    for number in range(100)
]
ROUNDS = 30


async def function(messages: list[dict[str, str]]) -> str:
    labels = re.findall(r'<doc id="([^"]*)">(\d)', messages[-1]["content"])
    return json.dumps({label: int(grade) for label, grade in labels})


def duration(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def milliseconds(times: list[float]) -> float:
    return statistics.median(times) * 1000


async def by_sdk(client: Any, reranker: Reranker) -> float:
    """Seconds that the SDK alone takes for the five requests of a ranking."""
    plan = reranker.method.judge(Task("what", TEXTS, to_candidates(TEXTS)))
    questions = next(plan).questions
    started = time.perf_counter()
    requests: list[Awaitable[Any]] = [
        client.chat.completions.create(
            model="m",
            temperature=0.0,
            messages=[
                {"role": "system", "content": question.request.system},
                {"role": "user", "content": question.request.turns[0].text},
            ],
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": question.request.schema},
            },
        )
        for question in questions
    ]
    await asyncio.gather(*requests)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="the table has medians over them"
    )
    rounds = parser.parse_args().rounds
    reranker = Reranker.from_config({"method": {"type": "graded", "llm": function}})
    check(reranker.rerank("what", TEXTS).report)
    times = [duration(lambda: reranker.rerank("what", TEXTS)) for _ in range(rounds)]
    print(f"a function, synchronous   {milliseconds(times):6.1f} ms per ranking of 100 candidates")

    async def asynchronous() -> list[float]:
        times = []
        for _ in range(rounds):
            started = time.perf_counter()
            ranking = await reranker.arerank("what", TEXTS)
            times.append(time.perf_counter() - started)
            check(ranking.report)
        return times

    print(f"a function, asynchronous  {milliseconds(asyncio.run(asynchronous())):6.1f} ms")

    async def crossing(count: int = 1_000) -> float:
        started = time.perf_counter()
        for _ in range(count):
            await portal().call(lambda: asyncio.sleep(0))
        return (time.perf_counter() - started) / count

    import openai

    with FakeProvider() as provider:
        provider.play(good())
        url = provider.base_url("openai")
        llm = {"type": "openai", "model": "m", "base_url": url, "api_key": "k"}
        served = Reranker.from_config({"method": {"type": "graded", "llm": llm}})
        check(served.rerank("what", TEXTS).report)

        async def alternate() -> tuple[list[float], list[float]]:
            client = openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
            await by_sdk(client, served)
            alone, rankings = [], []
            for _ in range(rounds):
                alone.append(await by_sdk(client, served))
                started = time.perf_counter()
                ranking = await served.arerank("what", TEXTS)
                rankings.append(time.perf_counter() - started)
                check(ranking.report)
            await client.close()
            return alone, rankings

        alone, rankings = asyncio.run(alternate())
        served.close()
    print(f"the SDK alone             {milliseconds(alone):6.1f} ms, 5 concurrent requests")
    ratio = statistics.median(rankings) / statistics.median(alone)
    print(
        f"a ranking with the SDK    {milliseconds(rankings):6.1f} ms, "
        f"{ratio:.2f} times the SDK alone"
    )
    best = min(asyncio.run(crossing()) for _ in range(-(-rounds // 3)))
    print(f"to the clients' thread    {1000 * best:6.2f} ms and back")


if __name__ == "__main__":
    main()
