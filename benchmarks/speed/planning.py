"""Simulations: which pairs of concurrent calls share a batch, and what is begun before a deadline.

    python -m benchmarks.speed.planning

No model runs. Lengths of pairs are drawn like those of workload A. The first table has rules for
what shares a batch: 32 calls with a list each, the first of which is alone when its batches begin,
on two threads, as on the machine of docs/data/speed.md.
`one list` are all pairs in one call, `rounds` what ``scorers/batching/rounds.py`` does.

The second table has the engine's own planning, with a simulated clock: a batch takes 1.5 ms and
62 µs a token, times a normal deviate of mean 1. It compares the limit on a batch (0.4 of the time
left) with none. Seeds are fixed, so the tables are always the same.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple
from unittest import mock

from benchmarks.speed.workloads import SHAPES, SPECIAL

from secondpass.scorers.batching import deadlines, pairs
from secondpass.scorers.batching.batches import by_length

BUDGET = 1024
THREADS = 2
CALLS = 32
DRAWS = 20
CANDIDATES = (8, 10, 100)

DEADLINE = 0.2  # seconds
BATCH = 0.0015  # seconds
TOKEN = 62e-6  # seconds
QUERIES = 200
VARIATIONS = (0.0, 0.1, 0.2)
PARTS = {"no limit on a batch": math.inf, "no batch with more than .4 of the time left": 0.4}

Lists = Sequence[Sequence[int]]
"""The tokens of the pairs of each call."""


def drawn(count: int, draw: random.Random) -> list[int]:
    """Tokens of the pairs of a query with ``count`` passages."""
    query = draw.randint(8, 14)
    mean, spread = SHAPES["A"].tokens - SPECIAL - query, SHAPES["A"].spread
    centre = math.log(mean) - spread**2 / 2
    passages = [draw.lognormvariate(centre, spread) for _ in range(count)]
    return [SPECIAL + query + min(max(8, round(tokens)), 480) for tokens in passages]


# ---------------------------------------------------------------------- what shares a batch


def batches_of(lengths: Sequence[int]) -> Lists:
    return [
        [lengths[index] for index in batch] for batch in by_length(lengths, BUDGET, threads=THREADS)
    ]


def one_list(lists: Lists) -> Iterator[Sequence[int]]:
    yield from batches_of([length for lengths in lists for length in lengths])


def alone(lists: Lists) -> Iterator[Sequence[int]]:
    for lengths in lists:
        yield from batches_of(lengths)


def rounds(lists: Lists, at_once: int = CALLS) -> Iterator[Sequence[int]]:
    """The next batches of each call under way, planned together; then the next round."""
    waiting = deque(deque(batches_of(lengths)) for lengths in lists)
    calls = [waiting.popleft()]
    while calls:
        parts = [call.popleft() for call in calls for _ in range(min(THREADS, len(call)))]
        yield from parts if len(calls) == 1 else one_list(parts)
        calls = [call for call in calls if call]
        while waiting and len(calls) < at_once:
            calls.append(waiting.popleft())


def no_longer(lists: Lists) -> Iterator[Sequence[int]]:
    """The next batch of the first call, filled with pairs of others that are no longer."""
    left = [sorted(lengths, reverse=True) for lengths in lists]
    for number, lengths in enumerate(left):
        while lengths:
            batch = list(batches_of(lengths)[0])
            del lengths[: len(batch)]
            fitting = [
                (length, other)
                for other, others in enumerate(left)
                for length in others
                if other > number and length <= batch[0]
            ]
            fitting.sort(key=lambda pair: (pair[1], -pair[0]))  # in the order of the calls
            for length, other in fitting[: max(0, BUDGET // batch[0] - len(batch))]:
                left[other].remove(length)
                batch.append(length)
            yield batch


def nearest(lists: Lists) -> Iterator[Sequence[int]]:
    """The longest pair of the first call, with the pairs that are nearest to it in length."""
    left = [sorted(lengths, reverse=True) for lengths in lists]
    for number, lengths in enumerate(left):
        while lengths:
            batch = [lengths.pop(0)]
            rest = [
                (length, other)
                for other, others in enumerate(left)
                for length in others
                if other >= number
            ]
            rest.sort(key=lambda pair: (abs(pair[0] - batch[0]), pair))
            for length, other in rest:
                if (len(batch) + 1) * max(*batch, length) > BUDGET:
                    break
                left[other].remove(length)
                batch.append(length)
            yield batch


RULES: dict[str, Callable[[Lists], Iterator[Sequence[int]]]] = {
    "each call its own batches": alone,
    "the batch of the call that waits longest, filled with pairs that are no longer": no_longer,
    "the longest pair of that call, with the pairs nearest to it in length": nearest,
    "rounds of all waiting calls, 6 at a time": lambda lists: rounds(lists, 6),
    "**rounds of all waiting calls, 32 at a time**": rounds,
    "one list": one_list,
}


def padded(batches: Lists) -> int:
    return sum(max(batch) * len(batch) for batch in batches)


def shared(name: str, count: int, draws: int = DRAWS) -> tuple[float, float]:
    """Padded tokens of one list, divided by those of a rule; and the rule's number of batches."""
    draw = random.Random(count)
    best, tokens, numbers = 0, 0, []
    for _ in range(draws):
        lists = [drawn(count, draw) for _ in range(CALLS)]
        batches = list(RULES[name](lists))
        assert sorted(chain(*batches)) == sorted(chain(*lists))
        best += padded(list(one_list(lists)))
        tokens += padded(batches)
        numbers.append(len(batches))
    return best / tokens, statistics.mean(numbers)


# ---------------------------------------------------------------------- before a deadline


class Pair(NamedTuple):
    """A prepared pair."""

    length: int


class Simulated:
    """A model whose batches take simulated time; a passage is its number of tokens."""

    backend, precision, threads, budget = "simulated", "float32", 1, BUDGET

    def __init__(self, variation: float) -> None:
        self.now = 0.0
        self._variation = variation
        self._draw = random.Random(1)

    def identity(self) -> dict[str, object]:
        return {}

    def prepare(self, _query: str, passages: Sequence[str]) -> list[Pair]:
        return [Pair(int(passage.split()[0])) for passage in passages]

    def run(self, batch: Sequence[Pair]) -> list[float]:
        seconds = BATCH + TOKEN * max(pair.length for pair in batch) * len(batch)
        self.now += seconds * max(0.1, self._draw.gauss(1, self._variation))
        return [0.0] * len(batch)


def before_deadline(part: float, variation: float, queries: int = QUERIES) -> float:
    """Median of the share judged until the deadline of what the rate without one allows."""
    model = Simulated(variation)
    engine = pairs.PairEngine(model)
    draw = random.Random(2)
    shares = []

    def clock() -> float:
        return model.now

    with (
        mock.patch.object(deadlines, "_BATCH_TIME_SHARE", part),
        mock.patch.object(time, "monotonic", clock),
        mock.patch.object(time, "perf_counter", clock),
    ):
        for query in range(queries):
            # A passage is scored once, so equal lengths need different texts.
            texts = [f"{length} {at}" for at, length in enumerate(drawn(200, draw))]
            began = model.now
            engine.score([(str(query), texts[:100])])
            rate = 100 / (model.now - began)
            began, judged = model.now, 0
            end = began + DEADLINE
            for scored in engine.score_until([(str(query), texts)], end):
                judged += len(scored) if model.now <= end else 0
            shares.append(judged / (rate * (min(model.now, end) - began)))
    return statistics.median(shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=DRAWS, help="of the lists of all calls")
    parser.add_argument("--queries", type=int, default=QUERIES, help="with a deadline")
    arguments = parser.parse_args()
    columns = " / ".join(map(str, CANDIDATES))
    print(f"| lists of {columns} candidates | one list's padded tokens / the rule's | batches |")
    print("| --- | ---: | ---: |")
    for name in RULES:
        found = [shared(name, count, arguments.draws) for count in CANDIDATES]
        shares = " / ".join(f"{share:.2f}"[share < 0.995 :] for share, _ in found)
        print(f"| {name} | {shares} | {' / '.join(f'{number:.0f}' for _, number in found)} |")
    print("\n| judged / (rate · time) |", *(f"{each:.0%} |" for each in VARIATIONS))
    print("| --- |", "---: |" * len(VARIATIONS))
    for name, part in PARTS.items():
        cells = [before_deadline(part, variation, arguments.queries) for variation in VARIATIONS]
        print(f"| {name} |", *(f"{cell:.2f}"[cell < 0.995 :] + " |" for cell in cells))


if __name__ == "__main__":
    main()
