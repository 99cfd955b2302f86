"""What the workers of a job share: the budget, and how often a block was begun."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from secondpass.adapters.ray.storage import write_whole

MOST_ATTEMPTS = 10
"""How often a block is begun. What kills its worker each time would do so for ever."""

_LONGEST_WAIT = 3600.0
"""Seconds without news from others after which rows are not waited for. What they hold may be lost
with a node, whose worker gets no other place while all places wait for it."""

SPENT = "spent.json"


@dataclass(frozen=True, slots=True)
class Amounts:
    """Tokens and their cost."""

    tokens: float = 0.0
    cost: float = 0.0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.tokens + other.tokens, self.cost + other.cost)

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(self.tokens - other.tokens, self.cost - other.cost)

    def or_more(self, other: Amounts) -> Amounts:
        """The larger number of tokens, and the larger cost."""
        return Amounts(max(self.tokens, other.tokens), max(self.cost, other.cost))


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a job may spend, over all its runs; None where there is no limit."""

    tokens: int | None = None
    cost: float | None = None

    def __bool__(self) -> bool:
        return self.tokens is not None or self.cost is not None

    def allows(self, amounts: Amounts) -> bool:
        """Whether so much may be spent."""
        return (self.tokens is None or amounts.tokens <= self.tokens) and (
            self.cost is None or amounts.cost <= self.cost * (1 + 1e-9)
        )


class Coordinator:
    """An actor of the job, beside its workers.

    What rows may take is held before they are ranked, and what they took is counted afterwards.
    What was held for a worker that was killed counts as spent: nobody knows what it took. The
    folder has the sum of both at any time, so that a driver that is killed forgets none of it.

    Args:
        folder: of the job.
        budget: of the job.
        spent: by earlier runs.
    """

    def __init__(self, folder: str, budget: Budget, spent: Amounts) -> None:
        self._folder, self._budget, self._spent = folder, budget, spent
        self._held: dict[int, Amounts] = {}
        self._attempts: Counter[int] = Counter()
        self._closed = False
        self._changed = asyncio.Condition()

    async def begin(self, block: int) -> tuple[int, bool]:
        """Begin a block: how often it was begun, this time included, and whether it may be."""
        async with self._changed:
            self._attempts[block] += 1
            if lost := self._held.pop(block, None):
                self._spent += lost
                self._save()
                self._changed.notify_all()
            return self._attempts[block], not self._closed

    async def hold(self, block: int, needs: Sequence[Amounts]) -> int:
        """Hold what the next rows may take; the number of rows, from the first, that fit.

        If they do not all fit, the call waits for what others hold, most of which is not spent.
        Once rows did not fit, none do: the budget is used up. So it is after an hour in which the
        others report nothing: their machine may be lost.
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
        """Count what the rows took in place of what is held for them."""
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


def amounts_of(record: Mapping[str, float]) -> Amounts:
    """The amounts that the file in the folder has.

    Raises:
        ValueError, LookupError, TypeError: it has none.
    """
    return Amounts(float(record["tokens"]), float(record["cost"]))
