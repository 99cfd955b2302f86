"""Measures when `astream` yields rankings: a cascade of `lexical` and a model that takes 3 s.

There are 100 candidates of 80 words; the best 20 go to the model. Prints the wall-clock time from
the call to each ranking, the median of several runs.

    python benchmarks/interim.py
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import time
from collections.abc import Mapping, Sequence

from secondpass import Reranker

RUNS = 5
SECONDS = 3.0


async def model(messages: Sequence[Mapping[str, str]]) -> str:
    """Replies with the documents in the order of the prompt."""
    await asyncio.sleep(SECONDS)
    return json.dumps({"ranking": re.findall(r'<doc id="([^"]*)">', messages[-1]["content"])})


async def measure(reranker: Reranker, query: str, passages: list[str]) -> list[float]:
    started = time.perf_counter()
    return [time.perf_counter() - started async for _ in reranker.astream(query, passages)]


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    random.seed(1)
    words = [f"word{number}" for number in range(2000)]
    passages = [" ".join(random.choices(words, k=80)) for _ in range(100)]
    query = " ".join(random.choices(words, k=6))
    stages = [{"type": "lexical"}, {"type": "listwise", "depth": 20, "llm": model}]
    reranker = Reranker({"type": "cascade", "stages": stages})
    runs = [asyncio.run(measure(reranker, query, passages)) for _ in range(RUNS)]
    print("| ranking | ms |")
    print("| --- | ---: |")
    for name, times in zip(["after `lexical`", "final"], zip(*runs, strict=True), strict=True):
        print(f"| {name} | {statistics.median(times) * 1000:,.0f} |")


if __name__ == "__main__":
    main()
