"""What one ranking has used so far of its limits."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

from secondpass.diagnostics import log_exception
from secondpass.effects import Completion, Estimate
from secondpass.errors import BudgetError
from secondpass.limits import Limits, Prices
from secondpass.types import Usage

_MARGIN = 1.2
"""A round is expected to take this many times the mean of those before it."""


@dataclass(slots=True)
class _Total:
    """Tokens, and money where there are prices."""

    tokens: float = 0.0
    cost: float = 0.0

    def add(self, estimate: Estimate, prices: Prices | None, sign: int = 1) -> None:
        self.tokens += sign * estimate.tokens
        if prices is not None:
            self.cost += sign * prices.of(estimate.input_tokens, estimate.output_tokens)


@dataclass(slots=True)
class Ledger:
    """What one pass has cost so far, and how long it may go on.

    Attributes:
        waiting: whether it has only waited for other passes so far; its clock does not count yet.
        calls: calls of scorers and questions to language models.
        questions: the latter alone.
        rounds: how many calls had to wait for each other.
        error: the first exception that code outside secondpass raised; not one of a provider.
    """

    limits: Limits = field(default_factory=Limits)
    started: float = field(default_factory=time.perf_counter)
    waiting: bool = False
    calls: int = 0
    questions: int = 0
    rounds: int = 0
    pairs: int = 0
    error: BaseException | None = None
    _input_tokens: int | None = None
    _output_tokens: int | None = None
    _cost: float | None = None
    _untold: bool = False
    _unpriced: bool = False
    _spent: _Total = field(default_factory=_Total)
    _reserved: _Total = field(default_factory=_Total)
    _asking_rounds: int = 0
    _asking_seconds: float = 0.0

    def begin(self) -> None:
        """Start the clock anew if the pass has only waited for others so far."""
        if self.waiting:
            self.waiting = False
            self.started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall-clock seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def left(self) -> float | None:
        """Seconds to the deadline, 0 when it has passed; None for no end."""
        deadline = self.limits.deadline
        return None if deadline is None else max(0.0, deadline - self.seconds)

    def record_exception(self, error: BaseException, source: str) -> None:
        """Keep the first exception of code outside secondpass, and log each for diagnosis."""
        if self.error is None:
            self.error = error
        log_exception(error, source)

    # ------------------------------------------------------------------ questions

    def reserve(self, estimate: Estimate, prices: Prices | None) -> None:
        """Enter a question that is about to be asked.

        Raises:
            BudgetError: it would take more than is left.
        """
        limits = self.limits
        if limits.calls is not None and self.questions >= limits.calls:
            raise BudgetError(f"all {limits.calls} calls of this ranking were made")
        tokens = self._spent.tokens + self._reserved.tokens + estimate.tokens
        if limits.tokens is not None and tokens > limits.tokens:
            raise BudgetError(f"the next question would take more than {limits.tokens} tokens")
        if limits.cost is not None and prices is not None:
            price = prices.of(estimate.input_tokens, estimate.output_tokens)
            if self._spent.cost + self._reserved.cost + price > limits.cost:
                raise BudgetError(f"the next question would cost more than {limits.cost:g}")
        self._reserved.add(estimate, prices)
        self.questions += 1
        self.calls += 1

    def release(self, estimate: Estimate, prices: Prices | None, sent: bool = True) -> None:
        """The question failed, and cost nothing; or it was not even sent."""
        self._reserved.add(estimate, prices, -1)
        if not sent:
            self.questions -= 1
            self.calls -= 1

    def give_up(self, estimate: Estimate, prices: Prices | None) -> None:
        """The question cost something, and nobody knows what, so the estimate counts."""
        self._untold = True
        self._reserved.add(estimate, prices, -1)
        self._spent.add(estimate, prices)

    def settle(self, estimate: Estimate, prices: Prices | None, completion: Completion) -> None:
        """The question was answered."""
        self._reserved.add(estimate, prices, -1)
        told = completion.input_tokens, completion.output_tokens
        if None in told:
            self._untold = True
        actual = Estimate(
            estimate.input_tokens if told[0] is None else told[0],
            estimate.output_tokens if told[1] is None else told[1],
        )
        self._spent.add(actual, prices)
        self._input_tokens = (self._input_tokens or 0) + (told[0] or 0)
        self._output_tokens = (self._output_tokens or 0) + (told[1] or 0)
        if prices is None:
            self._unpriced = True
        else:
            cost = prices.of(actual.input_tokens, actual.output_tokens)
            self._cost = (self._cost or 0.0) + cost

    def round_of_questions(self, seconds: float) -> None:
        """Questions were asked side by side, and took so long together."""
        self._asking_rounds += 1
        self._asking_seconds += seconds

    def rounds_left(self) -> int | None:
        """How many more rounds of one question fit in, as far as those before tell."""
        limits = self.limits
        bounds: list[float] = []
        if limits.calls is not None:
            bounds.append(limits.calls - self.questions)
        if self.questions:
            for limit, spent in (
                (limits.tokens, self._spent.tokens),
                (limits.cost, self._spent.cost),
            ):
                if limit is not None and spent:
                    bounds.append((min(limit, sys.maxsize) - spent) / (spent / self.questions))
        if (left := self.left) is not None and self._asking_rounds:
            mean = self._asking_seconds / self._asking_rounds
            bounds.append(left / (mean * _MARGIN) if mean else left)
        return max(0, int(min(*bounds, sys.maxsize))) if bounds else None

    def usage(self) -> Usage:
        """The ledger as a record. Sums that a server has not told all of are None."""
        return Usage(
            calls=self.calls,
            rounds=self.rounds,
            pairs=self.pairs,
            input_tokens=None if self._untold else self._input_tokens,
            output_tokens=None if self._untold else self._output_tokens,
            cost=None if self._untold or self._unpriced else self._cost,
        )
