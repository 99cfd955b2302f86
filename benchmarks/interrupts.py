"""Interrupts rankings by real timers, and checks that later ones return and nothing is lost.

A timer of the system interrupts synchronous calls after a random time: their signal handler raises
an exception, as Ctrl-C and the time limits of job queues do. After each interrupt, another thread
ranks with the same reranker within a time limit, and turns, slots and threads are counted.

    python benchmarks/interrupts.py                     # about a minute
    python benchmarks/interrupts.py --interrupts 20000  # as in the documentation
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from secondpass import Reranker
from secondpass.concurrency.turns import turns_of
from secondpass.ranking.methods import inner

TEXTS = ["a castle", "a garden in spring", "the castle's garden", "trains"]
LATEST = 10.0  # seconds within which a later ranking has to return
LIMITS: dict[str, dict[str, float]] = {
    "none": {},
    "deadline": {"deadline": 5.0},
}


class Interrupt(KeyboardInterrupt):
    """What Ctrl-C raises."""


class TimeLimitError(Exception):
    """What the time limit of a job queue raises. A ranking may take it for an error of its method,
    and go on."""


class Instant:
    """Scores by the length, at once."""

    model_name = "instant"

    def score_pairs(self, _query: str, documents: Sequence[str]) -> list[float]:
        return [float(len(document)) for document in documents]


class Slow(Instant):
    """Scores by the length, after some milliseconds."""

    model_name = "slow"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        time.sleep(0.003)
        return super().score_pairs(query, documents)


def grade(messages: Sequence[Mapping[str, str]]) -> str:
    """A language model that answers at once: each passage by its length."""
    passages = re.findall(r'<doc id="([^"]*)">(.*?)</doc>', messages[-1]["content"], re.S)
    return json.dumps({label: len(text) % 4 for label, text in passages})


METHODS: dict[str, Callable[[], Any]] = {
    "instant": Instant,
    "slow": Slow,
    "engine": lambda: {"type": "embedded", "threads": 1},
    "language model": lambda: {"type": "graded", "llm": grade},
}
CALLS: dict[str, Callable[..., object]] = {
    "rerank": lambda reranker, **limits: reranker.rerank("castle", TEXTS, **limits),
    "rerank_many": lambda reranker, **limits: reranker.rerank_many(
        [("castle", TEXTS), ("garden", TEXTS)], **limits
    ),
}


@dataclass
class Counts:
    """What happened in one case."""

    interrupts: int = 0
    late: int = 0
    """Later rankings that did not return in time; each has a new reranker afterwards."""
    wrong: int = 0
    """Later rankings without scores for all."""
    turns: int = 0
    """Interrupts after which a turn, a claim or a slot was taken for good."""


class Case:
    """A method with a limit and a way to call it."""

    def __init__(self, method: str, limit: str, call: str, draw: random.Random) -> None:
        self.name = f"{method}, {limit}, {call}"
        self.counts = Counts()
        self._method, self._limits, self._call = METHODS[method], LIMITS[limit], CALLS[call]
        self._draw = draw
        self._begin()

    def _begin(self) -> None:
        self.reranker = Reranker(self._method(), log_level="debug")
        self._others = ThreadPoolExecutor(1)
        ranking = self._rank_elsewhere()
        if ranking.report.status != "ok":
            sys.exit(f"{self.name}: without an interrupt the ranking is {ranking.report.status}")
        self._seconds = min(self._timed() for _ in range(20))

    def _timed(self) -> float:
        began = time.perf_counter()
        self._call(self.reranker, **self._limits)
        return time.perf_counter() - began

    def _rank_elsewhere(self) -> Any:
        future = self._others.submit(self.reranker.rerank, "castle", TEXTS, **self._limits)
        return future.result(LATEST)

    def interrupt(self) -> None:
        """Interrupt one call, and check what is left."""
        before = len(_raised)
        signal.setitimer(signal.ITIMER_REAL, self._draw.uniform(1e-6, 1.3 * self._seconds))
        try:
            self._call(self.reranker, **self._limits)
        except (Interrupt, Exception):  # what the interrupt became
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.counts.interrupts += len(_raised) - before
        try:
            ranking = self._rank_elsewhere()
        except TimeoutError:
            self.counts.late += 1
            self._begin()
            return
        self.counts.wrong += ranking.report.status != "ok"
        self.counts.turns += not within(1.0, self._is_free)

    def _is_free(self) -> bool:
        turns = turns_of(inner(self.reranker.method))
        running = any(not turn.is_stopped for turn in turns._running)
        slots = self.reranker._gate
        return not (
            running or turns._waiting or turns.admission.present or slots._holders or slots._waiting
        )


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether a condition becomes true in time."""
    until = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > until:
            return False
        time.sleep(0.001)
    return True


_raised: list[str] = []
"""The names of the exceptions, which themselves would keep alive what was interrupted."""


def handle(_number: int, frame: Any) -> None:
    """Raise one of the exceptions in turn, but not in this script, which has to count."""
    while frame is not None:
        if "/secondpass/" in frame.f_code.co_filename:
            kind = (Interrupt, TimeLimitError)[len(_raised) % 2]
            _raised.append(kind.__name__)
            raise kind
        frame = frame.f_back


def cases(draw: random.Random) -> Iterator[Case]:
    for method in METHODS:
        for limit in LIMITS:
            for call in CALLS:
                yield Case(method, limit, call, draw)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--interrupts", type=int, default=1200, help="number of all interrupts")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, handle)
    all_cases = list(cases(random.Random(arguments.seed)))
    each = -(-arguments.interrupts // len(all_cases))
    threads = threading.active_count()
    print("| case | interrupts | late | without scores | turns or slots lost |")
    print("| --- |" + " ---: |" * 4)
    total = Counts()
    for case in all_cases:
        while case.counts.interrupts < each:
            case.interrupt()
        found = case.counts
        print(
            f"| {case.name} | {found.interrupts} | {found.late} | {found.wrong} | {found.turns} |"
        )
        sys.stdout.flush()
        for name, value in vars(found).items():
            setattr(total, name, getattr(total, name) + value)
    print(f"| all | {total.interrupts} | {total.late} | {total.wrong} | {total.turns} |")
    print(f"\nthreads before: {threads}, after: {threading.active_count()}")


if __name__ == "__main__":
    main()
