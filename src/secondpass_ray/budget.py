"""What the workers of a job share: the budget of all its runs, and the attempts at each batch."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any

from secondpass import ConfigurationError, InputError, Problem, Reranker, Usage
from secondpass.formats.requests import InputRequest
from secondpass.settings import changed
from secondpass_ray.storage import write_whole

SPENT = "_spent.json"

MOST_ATTEMPTS = 10
"""Maximum number of attempts at a batch; rows that kill their worker would be retried for ever."""

_LONGEST_WAIT = 3600.0
"""Seconds without reports from other workers after which waiting for their budget ends. A lost node
may have held it, and its worker cannot restart while all others wait."""

_PLANNED = ("depth", "instruction")
"""Call options that affect the use of a ranking."""


@dataclass(frozen=True, slots=True)
class Amounts:
    tokens: float = 0.0
    cost: float = 0.0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.tokens + other.tokens, self.cost + other.cost)

    def __mul__(self, rows: int) -> Amounts:
        return Amounts(self.tokens * rows, self.cost * rows)

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


class Keeper:
    """An actor that divides the budget of a job among its workers.

    The maximum use of rows is reserved before they are ranked, and replaced by their actual use
    afterwards. If a worker was killed, its reservation counts as spent, as its use is unknown. The
    folder always has the sum of both, so that it is not lost if the driver is killed. ``spent`` are
    the amounts of earlier runs. Without a budget, it only counts the attempts at batches.
    """

    def __init__(self, folder: str, budget: Budget, spent: Amounts) -> None:
        self._folder, self._budget, self._spent = folder, budget, spent
        self._held: dict[str, Amounts] = {}
        self._attempts: Counter[str] = Counter()
        self._closed = False
        self._changed = asyncio.Condition()

    async def hold(self, batch: str, rows: int, need: Amounts) -> int:
        """Reserve the maximum use, each ``need``, of rows; return how many of them fit.

        If not all fit, the call waits until other workers release reservations, most of which are
        not spent. When rows do not fit, the budget is used up, and further calls return 0; also
        after an hour without a report of the others, whose machine may be lost.

        Raises:
            InputError: the worker of these rows was killed too often.
        """
        self._attempts[batch] += 1
        if self._attempts[batch] > MOST_ATTEMPTS:
            problem = f"the worker of this and the next rows was killed {MOST_ATTEMPTS} times"
            hint = "perhaps they need more memory than there is: set --batch or --workers lower"
            raise InputError(f"{batch}: {problem}; {hint}")
        async with self._changed:
            if lost := self._held.pop(batch, None):  # of a worker that was killed
                self._spent += lost
            while True:
                fitting = self._fitting(rows, need)
                if fitting == rows or self._closed or not self._held:
                    break
                try:
                    await asyncio.wait_for(self._changed.wait(), _LONGEST_WAIT)
                except TimeoutError:
                    self._closed = True
            if self._closed:
                fitting = 0
            self._closed |= fitting < rows
            if fitting:
                self._held[batch] = need * fitting
            self._report()
            return fitting

    async def settle(self, batch: str, spent: Amounts) -> None:
        """Replace the reservation of rows by their actual use."""
        async with self._changed:
            self._held.pop(batch, None)
            self._spent += spent
            self._report()

    def _fitting(self, rows: int, need: Amounts) -> int:
        used = sum(self._held.values(), self._spent)
        while rows and not self._budget.allows(used + need * rows):
            rows -= 1
        return rows

    def _report(self) -> None:
        if not self._budget:
            return
        self._changed.notify_all()
        record = asdict(sum(self._held.values(), self._spent))
        write_whole(self._folder, SPENT, json.dumps(record).encode() + b"\n")


class Spending:
    """Limits a reranker to the budget that was reserved for its rows.

    The maximum use of a row is that of its plan, including repairs, or the limits of the
    configuration, if they are lower. It is the limit of its ranking, so that retries and fallbacks
    cannot exceed it.
    """

    def __init__(self, reranker: Reranker, options: Mapping[str, Any]) -> None:
        self._reranker, self._options = reranker, options

    def need(self, requests: Sequence[InputRequest]) -> Amounts:
        """The maximum use of each of these requests: that of the largest."""
        return reduce(Amounts.or_more, map(self._planned, requests), Amounts())

    def limited(self, need: Amounts) -> Reranker:
        """The reranker with the maximum use of each of its rankings as the limit."""
        limits = self._reranker.limits
        # A sum of the ranking may differ from that of its plan in the last digit.
        tokens, cost = int(need.tokens), need.cost * (1 + 1e-9)
        limits = changed(limits, tokens=tokens or limits.tokens, cost=cost or limits.cost)
        return self._reranker.changed(limits=limits)

    def spent(self, usages: Sequence[Usage], need: Amounts) -> Amounts:
        """The use of rankings; if a service did not report its usage, the maximum ``need``."""
        total = Amounts()
        for usage in usages:
            tokens = cost = 0.0
            if usage.input_tokens is not None or usage.output_tokens is not None:
                tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
                cost = need.cost if usage.cost is None else usage.cost
            elif usage.calls:
                tokens, cost = need.tokens, need.cost
            total += Amounts(tokens, cost)
        return total

    def _planned(self, request: InputRequest) -> Amounts:
        options = {**self._options, **request.options}
        limits = self._reranker.limits
        chosen: dict[str, Any] = {name: options.get(name) for name in _PLANNED}
        plan = self._reranker.plan(request.candidates, query=request.query, **chosen)
        if any(stage.calls is None for stage in plan.stages):  # then check_budget wants a limit
            return Amounts(limits.tokens or 0, limits.cost or 0)
        times = 1 + limits.repair
        tokens = cost = 0.0
        for stage in plan.stages:
            tokens += ((stage.input_tokens or 0.0) + (stage.output_tokens or 0.0)) * times
            cost += (stage.cost or 0.0) * times
        return Amounts(
            math.ceil(tokens if limits.tokens is None else min(tokens, limits.tokens)),
            cost if limits.cost is None else min(cost, limits.cost),
        )


def check_budget(reranker: Reranker, budget: Budget) -> None:
    """Check that the use of a row can be planned or is limited, so that a budget is guaranteed."""
    if not budget:
        return
    limits = reranker.limits
    stated = all(stage.calls is not None for stage in reranker.plan(10).stages)
    for name, total, limit in (
        ("tokens", budget.tokens, limits.tokens),
        ("cost", budget.cost, limits.cost),
    ):
        if total is not None and limit is None and not stated:
            message = "is needed for a budget: the method does not say how much a ranking may take"
            raise ConfigurationError([Problem(("limits", name), message)])


def within_budget(config: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
    """A configuration whose limits are the budget, unless it sets limits itself.

    A limit of the cost makes loading fail without prices.
    """
    given = {"tokens": budget.tokens, "cost": budget.cost}
    limits = {name: limit for name, limit in given.items() if limit is not None}
    return (
        {**config, "limits": {**limits, **(config.get("limits") or {})}} if limits else {**config}
    )
