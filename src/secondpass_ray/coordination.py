"""The coordinator of a job's workers: the budget, and the attempts at each block."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from secondpass_ray.storage import write_whole

MOST_ATTEMPTS = 10
"""Maximum number of attempts at a block; rows that kill their worker would be retried for ever."""

_LONGEST_WAIT = 3600.0
"""Seconds without reports from other workers after which waiting for their budget ends. A lost node
may have held it, and its worker cannot restart while all others wait."""

SPENT = "spent.json"


@dataclass(frozen=True, slots=True)
class Amounts:
    tokens: float = 0.0
    cost: float = 0.0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.tokens + other.tokens, self.cost + other.cost)

    def or_more(self, other: Amounts) -> Amounts:
        """The larger number of tokens, and the larger cost."""
        return Amounts(max(self.tokens, other.tokens), max(self.cost, other.cost))


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of what a job may spend, over all its runs; None: no limit."""

    tokens: int | None = None
    cost: float | None = None

    def __bool__(self) -> bool:
        return self.tokens is not None or self.cost is not None

    def allows(self, amounts: Amounts) -> bool:
        """Whether these amounts are within the limits."""
        return (self.tokens is None or amounts.tokens <= self.tokens) and (
            self.cost is None or amounts.cost <= self.cost * (1 + 1e-9)
        )


class Coordinator:
    """An actor that divides the budget of a job among its workers.

    The maximum use of rows is reserved before they are ranked, and replaced by their actual use
    afterwards. If a worker was killed, its reservation counts as spent, as its use is unknown. The
    folder always has the sum of both, so that it is not lost if the driver is killed. ``spent`` are
    the amounts of earlier runs.
    """

    def __init__(self, folder: str, budget: Budget, spent: Amounts) -> None:
        self._folder, self._budget, self._spent = folder, budget, spent
        self._held: dict[int, Amounts] = {}
        self._attempts: Counter[int] = Counter()
        self._closed = False
        self._changed = asyncio.Condition()

    async def begin(self, block: int) -> tuple[int, bool]:
        """Count an attempt at a block; return its number, from 1, and whether budget is left."""
        async with self._changed:
            self._attempts[block] += 1
            if lost := self._held.pop(block, None):
                self._spent += lost
                self._save()
                self._changed.notify_all()
            return self._attempts[block], not self._closed

    async def hold(self, block: int, needs: Sequence[Amounts]) -> int:
        """Reserve the maximum use of the next rows; return how many of them, from the first, fit.

        If not all fit, the call waits until other workers release reservations, most of which are
        not spent. When rows do not fit, the budget is used up, and further calls return 0; also
        after an hour without a report of the others, whose machine may be lost.
        """
        async with self._changed:
            while True:
                fitting, total = self._fitting(needs)
                if fitting == len(needs) or self._closed or not self._held:
                    break
                try:
                    await asyncio.wait_for(self._changed.wait(), _LONGEST_WAIT)
                except TimeoutError:
                    self._closed = True
                    self._changed.notify_all()
            if self._closed:
                return 0
            self._closed = fitting < len(needs)
            if fitting:
                self._held[block] = total
                self._save()
            if self._closed:
                self._changed.notify_all()
            return fitting

    async def settle(self, block: int, spent: Amounts) -> None:
        """Replace the reservation of rows by their actual use."""
        async with self._changed:
            self._held.pop(block, None)
            self._spent += spent
            self._save()
            self._changed.notify_all()

    def _fitting(self, needs: Sequence[Amounts]) -> tuple[int, Amounts]:
        used = sum(self._held.values(), self._spent)
        total = Amounts()
        for number, need in enumerate(needs):
            if not self._budget.allows(used + total + need):
                return number, total
            total += need
        return len(needs), total

    def _save(self) -> None:
        record = asdict(sum(self._held.values(), self._spent))
        write_whole(self._folder, SPENT, json.dumps(record).encode() + b"\n")
