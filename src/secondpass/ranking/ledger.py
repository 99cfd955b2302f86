"""Counts what one ranking has used, enforces its limits, and is what its methods see of both."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from secondpass.concurrency.admission import Claim
from secondpass.concurrency.lazy import LoadingTime
from secondpass.concurrency.turns import Sharing
from secondpass.effects import Call, Judgement, Left, Method
from secondpass.errors import BudgetError, MethodError
from secondpass.limits import Limits, Prices
from secondpass.questions import Completion, Estimate
from secondpass.ranking import observers
from secondpass.ranking.diagnostics import log_exception
from secondpass.ranking.observers import MethodOperation, Operation
from secondpass.types import EngineInfo, Issue, Usage

ROUND_MARGIN = 1.2
"""The next round is expected to take this many times the mean of the rounds so far."""
_KEPT_SHARE = 0.2  # share of the time left that a method leaves to the methods after it
_LEAST_SHARE = 0.5
"""Share of that time without which a method that others ran before asks no questions."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the running method has to leave to the methods after it, and whether it began too late.

    Attributes:
        followed: whether there are methods after it.
        seconds: kept for them.
        until_scored: whether these are kept only until the running method has scored something.
        late: whether the methods before it have left so little to it that it asks no questions.
    """

    followed: bool = False
    seconds: float = 0.0
    until_scored: bool = False
    late: bool = False


@dataclass(slots=True)
class _Total:
    """Tokens, and their cost where there are prices."""

    tokens: float = 0.0
    cost: float = 0.0

    def add(self, estimate: Estimate, prices: Prices | None, sign: int = 1) -> None:
        self.tokens += sign * estimate.tokens
        if prices is not None:
            self.cost += sign * prices.of(estimate.input_tokens, estimate.output_tokens)


@dataclass(slots=True, weakref_slot=True, eq=False)
class Ledger:
    """Counts what a pass has used, and enforces its budgets.

    What is left of ``limits.deadline`` depends on who asks, because a method leaves a part of it to
    those after it (:meth:`keep_time`):

        seconds_left            less what is kept for other methods
        scorer_seconds_left     the same; but all of it where time is kept only until something is
                                scored: for a scorer that has scored something
        question_seconds_left   less what is kept; 0 if the method began too late

    Attributes:
        waiting: whether the pass has only waited for other passes so far; its clock starts with its
            first call.
        calls: calls of scorers plus questions to services.
        questions: questions to services only.
        rounds: calls that had to wait for each other; questions asked side by side are one round.
        waiting_seconds: time until calls of scorers, and the first question of each round, began.
        calling_seconds: time from then until they ended.
        pairs: query-document pairs that were scored or asked about.
        error: the first exception that a scorer, model or ordering of the user raised.
        engines: how local models ran, each once.
        cache: the response cache (:mod:`secondpass.asking.response_cache`); None if there is none.
        cached: questions that the cache answered; they are not in the other counts.
        known: passages whose encoding was kept.
        encoded: passages that were encoded.
        retries: questions that were asked again after an error, perhaps with shorter passages.
        repairs: questions that were asked again because the reply could not be used, and those
            about parts of a refused question.
        issues: of the pass as a whole, each once.
        operations: the ranking and the running methods, the innermost last; empty without an
            observer.
        sharing: what it has of the scorer that is called in parts; None if none is.
        kept: what the running method leaves to others.
        loading: how long its calls of scorers have waited for models that were loaded; None before
            the first call.
    """

    limits: Limits = field(default_factory=Limits)
    started: float = field(default_factory=time.perf_counter)
    waiting: bool = False
    calls: int = 0
    questions: int = 0
    rounds: int = 0
    waiting_seconds: float = 0.0
    calling_seconds: float = 0.0
    pairs: int = 0
    error: BaseException | None = None
    engines: list[EngineInfo] = field(default_factory=list)
    cache: Any = None
    cached: int = 0
    known: int = 0
    encoded: int = 0
    retries: int = 0
    repairs: int = 0
    issues: list[Issue] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    sharing: Sharing | None = None
    kept: Kept = Kept()
    loading: LoadingTime | None = None
    _input_tokens: int | None = None
    _output_tokens: int | None = None
    _cost: float | None = None
    _units: float | None = None
    _unreported: bool = False
    _unpriced: bool = False
    _spent: _Total = field(default_factory=_Total)
    _reserved: _Total = field(default_factory=_Total)
    _question_rounds: int = 0
    _question_seconds: float = 0.0
    _question_waves: int = 0
    _kept_for_next: float = 0.0
    """Seconds that the method that began last had to leave to the next one."""
    _fastest: dict[int, float] = field(default_factory=dict)
    """By id of the service, seconds of its fastest answer."""

    def start_clock(self) -> None:
        """Restart the clock if the pass has only waited for others so far."""
        if self.waiting:
            self.waiting = False
            self.started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall-clock seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def seconds_left(self) -> float | None:
        """Seconds to the deadline, less those kept for the methods after the running one."""
        left = self._seconds_to_deadline
        return None if left is None else max(0.0, left - self.kept.seconds)

    @property
    def timed(self) -> bool:
        """Whether there is a deadline."""
        return self.limits.deadline is not None

    def new_claim(self) -> Claim:
        """What a call of a scorer that begins now claims of it."""
        now = time.monotonic()
        left = self.scorer_seconds_left
        return Claim(math.inf if left is None else now + left, now)

    def new_loading(self) -> LoadingTime:
        """Where a call that begins now counts; an abandoned call goes on with its own."""
        if self.loading is None or self.loading.running is not None:
            self.loading = LoadingTime()
        return self.loading

    def add_times(self, waiting: float, calling: float) -> None:
        """Count the time of a call of a scorer, or of a round of questions."""
        self.waiting_seconds += waiting
        self.calling_seconds += calling

    @property
    def scorer_seconds_left(self) -> float | None:
        """Seconds left for a scorer that has scored something, so that maybe no other follows."""
        return self._seconds_to_deadline if self.kept.until_scored else self.seconds_left

    @property
    def question_seconds_left(self) -> float | None:
        """Seconds left for questions of the running method; 0 if it began too late for these."""
        return 0.0 if self.kept.late else self.seconds_left

    @property
    def _seconds_to_deadline(self) -> float | None:
        deadline = self.limits.deadline
        return None if deadline is None else max(0.0, deadline - self.seconds)

    def keep_time(self, last: bool, *, until_scored: bool = False) -> None:
        """A method begins, which may use four fifths of the time left if others follow it.

        Methods after the one that runs it count, too. The fifth is of all the time left, so nested
        methods do not keep time twice. A method that has less than half of what was kept for it,
        because the one before did not end in time, asks no questions.

        Args:
            last: whether no method follows, except those after the method that runs it.
            until_scored: whether the time is kept only until :meth:`end_keeping`.
        """
        followed = self.kept.followed or not last
        # The clock of a pass that has only waited has not started.
        left = self.limits.deadline if self.waiting else self._seconds_to_deadline
        kept = _KEPT_SHARE * left if followed and left is not None else 0.0
        late = self.kept.late or (left is not None and left < _LEAST_SHARE * self._kept_for_next)
        self.kept = Kept(followed, kept, until_scored, late)
        self._kept_for_next = kept

    def end_keeping(self) -> None:
        """Keep no time for methods that run only if nothing is scored: something was."""
        if self.kept.until_scored:
            self.kept = replace(self.kept, seconds=0.0)

    def add_answer(self, service: object, seconds: float) -> None:
        """Keep the seconds of a service's fastest answer."""
        known = self._fastest.get(id(service), seconds)
        self._fastest[id(service)] = min(known, seconds)

    def has_time_for(self, service: object) -> bool:
        """Whether there is time for a question: that of the service's fastest answer so far."""
        left = self.question_seconds_left
        return left is None or (left > 0 and left >= self._fastest.get(id(service), 0.0))

    def seconds_to_ask(self, service: object) -> float | None:
        """Seconds in which there is time for a question; None without a deadline."""
        left = self.question_seconds_left
        return None if left is None else left - self._fastest.get(id(service), 0.0)

    def record_exception(self, error: BaseException, source: str) -> None:
        """Keep the first exception of the user's code, and log each for diagnosis."""
        if self.error is None:
            self.error = error
        log_exception(error, source)

    def take_error(self) -> BaseException | None:
        """The recorded exception, which is released: frames of its traceback refer to the ledger.

        A caller that keeps it in a local variable keeps itself: its frame is one of them.
        """
        error, self.error = self.error, None
        return error

    def add_engine(self, engine: EngineInfo) -> None:
        """Record how a local model ran."""
        if engine not in self.engines:
            self.engines.append(engine)

    def add_issue(self, code: str, message: str) -> None:
        """Add an issue of the pass, unless it is known."""
        issue = Issue(code, message)
        if issue not in self.issues:
            self.issues.append(issue)

    # ------------------------------------------------------------------ questions

    def reserve(self, estimate: Estimate, prices: Prices | None) -> None:
        """Reserve the estimate of a question; raises a BudgetError if too little is left."""
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
        """Undo the reservation of a question that failed at no cost, or was not ``sent``."""
        self._reserved.add(estimate, prices, -1)
        if not sent:
            self.questions -= 1
            self.calls -= 1

    def charge_estimate(self, estimate: Estimate, prices: Prices | None) -> None:
        """Charge the estimate: the question had a cost, but its usage was not reported."""
        self._unreported = True
        self._reserved.add(estimate, prices, -1)
        self._spent.add(estimate, prices)

    def settle(self, estimate: Estimate, prices: Prices | None, completion: Completion) -> None:
        """Charge the usage that the completion reports; the estimate where it reports none."""
        self._reserved.add(estimate, prices, -1)
        read, written = completion.input_tokens, completion.output_tokens
        if read is None or written is None:
            self._unreported = True
        actual = Estimate(
            estimate.input_tokens if read is None else read,
            estimate.output_tokens if written is None else written,
        )
        self._spent.add(actual, prices)
        self._input_tokens = (self._input_tokens or 0) + (read or 0)
        self._output_tokens = (self._output_tokens or 0) + (written or 0)
        if completion.units is not None:
            self._units = (self._units or 0.0) + completion.units
        if prices is None:
            self._unpriced = True
        else:
            cost = prices.of(actual.input_tokens, actual.output_tokens)
            self._cost = (self._cost or 0.0) + cost

    def add_question_round(self, seconds: float, questions: int = 1) -> None:
        """Count a round of questions and the seconds that it took."""
        self._question_rounds += 1
        self._question_waves += -(-questions // self.limits.concurrency)
        self._question_seconds += seconds

    def left(self) -> Left:
        """What the limits leave for questions."""
        limits = self.limits
        calls = tokens = cost = None
        if limits.calls is not None:
            calls = max(0, limits.calls - self.questions)
        if limits.tokens is not None:
            tokens = max(0.0, _finite(limits.tokens) - self._spent.tokens)
        if limits.cost is not None:
            cost = max(0.0, limits.cost - self._spent.cost)
        seconds = self.question_seconds_left
        if self.waiting and limits.deadline is not None and not self.kept.late:
            # The clock of a pass that has only waited starts with its first call.
            seconds = limits.deadline - self.kept.seconds
        return Left(
            calls,
            tokens,
            cost,
            seconds,
            limits.concurrency,
            self._question_seconds,
            self._question_waves,
        )

    def rounds_left(self, questions: int = 1, *, repairs: bool = False) -> int | None:
        """How many more rounds of ``questions`` the limits allow; None if nothing limits them.

        The estimate is based on the mean tokens, cost and seconds so far. Before the first round
        there are none, so that only ``limits.calls`` limits the rounds.
        """
        limits = self.limits
        if repairs and not limits.repair:
            return 0
        bounds: list[float] = []
        if limits.calls is not None:
            bounds.append((limits.calls - self.questions) // questions)
        for limit, spent in (
            (limits.tokens, self._spent.tokens),
            (limits.cost, self._spent.cost),
        ):
            if limit is not None and spent and self.questions:
                per_question = spent / self.questions
                bounds.append((_finite(limit) - spent) / per_question / questions)
        seconds = self.question_seconds_left
        if seconds is not None and self._question_rounds:
            mean = self._question_seconds / self._question_rounds
            bounds.append(seconds / (mean * ROUND_MARGIN) if mean else seconds)
        if not bounds:
            return None
        return max(0, int(_finite(min(bounds))))

    def usage(self) -> Usage:
        """The totals; tokens and cost are None unless every reply reported its usage."""
        return Usage(
            calls=self.calls,
            rounds=self.rounds,
            pairs=self.pairs,
            retries=self.retries,
            repairs=self.repairs,
            cached=self.cached,
            input_tokens=None if self._unreported else self._input_tokens,
            output_tokens=None if self._unreported else self._output_tokens,
            cost=None if self._unreported or self._unpriced else self._cost,
            units=self._units,
            known=self.known,
            encoded=self.encoded,
        )


def _finite(number: float) -> float:
    """The number, or the largest index if it is larger, such as infinity, which is no integer."""
    return min(number, sys.maxsize)


class PassCall(Call):
    """The handle of the pass, or of the dry run, that has this ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def rounds_left(self, questions: int = 1, *, repairs: bool = False) -> int | None:
        return self._ledger.rounds_left(questions, repairs=repairs)

    def limits_left(self) -> Left:
        return self._ledger.left()

    @contextmanager
    def keeping_time(self, last: bool, *, until_scored: bool = False) -> Iterator[None]:
        before = self._ledger.kept
        self._ledger.keep_time(last, until_scored=until_scored)
        try:
            yield
        finally:
            self._ledger.kept = before

    def started(self, method: Method, texts: int) -> MethodOperation | None:
        """Notify the observers of this ranking, if any, that a method starts."""
        running = self._ledger.operations
        if not running:
            return None
        operation = MethodOperation(name=method.name, parents=(running[-1],), texts=texts)
        running.append(operation)
        observers.start(operation)
        return operation

    def ended(self, started: object, result: Judgement | MethodError) -> None:
        """Notify them that a method has ended, and before it what it ran and closed."""
        running = self._ledger.operations
        if not isinstance(started, MethodOperation) or started not in running:
            return
        while (last := running.pop()) is not started:
            observers.end(last, "cancelled")
        if isinstance(result, MethodError):
            observers.end(started, result.code)
        else:
            started.scored = sum(score is not None for score in result.scores)
            observers.end(started)

    def sharing(
        self, scorer: object, texts: int, batch_size: int | None, most_at_first: int
    ) -> AbstractContextManager[None]:
        if not self._ledger.timed:
            return nullcontext()
        return self._sharing(Sharing(scorer, texts, batch_size, most_at_first))

    @contextmanager
    def _sharing(self, sharing: Sharing) -> Iterator[None]:
        ledger = self._ledger
        before, ledger.sharing = ledger.sharing, sharing
        try:
            yield
        finally:
            sharing.end()
            ledger.sharing = before

    def raised(self, error: BaseException, source: str) -> None:
        self._ledger.record_exception(error, source)

    def ran(self, engine: EngineInfo) -> None:
        self._ledger.add_engine(engine)

    def encoded(self, known: int, encoded: int) -> None:
        self._ledger.known += known
        self._ledger.encoded += encoded
