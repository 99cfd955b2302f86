"""Compares the CPU time of cached rankings with that of a model that answers immediately.

    python benchmarks/response_cache.py

100 candidates of 80 words, by `listwise` (9 questions one after the other), `blocks` (10 at the
same time, then 1) and `graded` (5 at the same time). Rankings without a cache, with an empty one
(cold: every answer is stored) and with a full one (warm: no request is made) alternate. Prints
medians of the process's CPU time, all threads; and the longest stall of the event loop during a
warm ranking, compared with an idle loop.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from checked import check

from secondpass import Reranker
from secondpass.questions import Completion, Prompt

ROUNDS = 40
WORDS = ["a", "passage", "about", "something", "of", "some", "length", "in", "different", "words"]
TEXTS = [
    " ".join([str(number * 37 % 100), *islice(cycle(WORDS), number, number + 80)])
    for number in range(100)
]
METHODS = ("listwise", "blocks", "graded")
TICK = 0.001  # seconds


class Immediate:
    """A language model that answers immediately."""

    name = cache_key = "immediate"

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, prompt: Prompt) -> Completion:
        self.calls += 1
        shown = re.findall(r'<doc id="([^"]*)">(\d+)', prompt.turns[0].text)
        if "score" in prompt.turns[0].text:
            return Completion(json.dumps({label: int(number) % 11 for label, number in shown}))
        best_first = sorted(shown, key=lambda row: -int(row[1]))
        return Completion(json.dumps({"ranking": [label for label, _ in best_first]}))


def cpu_ms(call: Callable[[], Any]) -> float:
    started = time.process_time()
    call()
    return (time.process_time() - started) * 1000


def measure(method: str, folder: Path, rounds: int) -> None:
    llm = Immediate()
    settings = {"type": method, "llm": llm}
    without, cold, warm = (
        Reranker(settings, cache=None if name is None else folder / f"{method}-{name}.sqlite")
        for name in (None, "cold", "warm")
    )
    for reranker in (warm, without):
        check(reranker.rerank("query", TEXTS).report)
    questions, reports = llm.calls // 2, []
    times: dict[str, list[float]] = {"without": [], "cold": [], "warm": []}
    for number in range(rounds):
        times["without"].append(cpu_ms(lambda: without.rerank("query", TEXTS)))
        times["cold"].append(cpu_ms(lambda number=number: cold.rerank(f"query {number}", TEXTS)))
        before = llm.calls
        times["warm"].append(cpu_ms(lambda: reports.append(warm.rerank("query", TEXTS).report)))
        assert llm.calls == before
    for report in reports:
        check(report)
        assert report.usage.cached == questions
    medians = {name: statistics.median(values) for name, values in times.items()}
    shown = "   ".join(f"{name} {median:5.2f} ms" for name, median in medians.items())
    ratio = medians["warm"] / medians["without"]
    print(f"{method:9} {questions:3} questions   {shown}   warm / without {ratio:.2f}")
    idle, busy = asyncio.run(stalls(warm, rounds))
    print(f"          longest stall of the event loop, median: {busy:.1f} ms; idle: {idle:.1f} ms")
    for reranker in (without, cold, warm):
        reranker.close()


async def stalls(reranker: Reranker, rounds: int) -> tuple[float, float]:
    """The longest stall of an idle loop and of one that awaits a warm ranking, in milliseconds."""
    longest: dict[str, list[float]] = {"idle": [], "busy": []}
    for _ in range(rounds):
        longest["idle"].append(await longest_stall(asyncio.sleep(0.01)))
        longest["busy"].append(await longest_stall(reranker.arerank("query", TEXTS)))
    idle, busy = (statistics.median(values) * 1000 for values in longest.values())
    return idle, busy


async def longest_stall(work: Any) -> float:
    task = asyncio.ensure_future(work)
    longest = 0.0
    while not task.done():
        started = time.perf_counter()
        await asyncio.sleep(TICK)
        longest = max(longest, time.perf_counter() - started - TICK)
    return longest


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="medians are over them")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        for method in METHODS:
            measure(method, Path(folder), rounds)


if __name__ == "__main__":
    main()
