"""Runs a plan without calling anything, to estimate what it would take.

Every question is answered by its ``assumed`` value, or left unanswered without one, and every
scorer returns equal scores, so the plan continues as if no call changed the order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from secondpass.effects import Answer, Ask, Plan, Question, RawScores, Score
from secondpass.errors import BudgetError, DeadlineError, MethodError
from secondpass.limits import Prices
from secondpass.ranking.ledger import Ledger
from secondpass.ranking.scoring import member


@dataclass(frozen=True, slots=True)
class Expected:
    """What one model is expected to take.

    Attributes:
        model: its name, as in reports.
        calls: questions to a service; 0 for a local model.
        pairs: query-document pairs that it is asked about, or scores.
        input_tokens: estimated, at four bytes per token; None for a local model.
        output_tokens: the same for replies, without reasoning.
        cost: of these tokens, in the currency of the prices; None without prices.
    """

    model: str
    calls: int = 0
    pairs: int = 0
    input_tokens: float | None = None
    output_tokens: float | None = None
    cost: float | None = None

    def times(self, factor: float) -> Expected:
        """All numbers multiplied by ``factor``; calls and pairs are rounded."""
        tokens_in, tokens_out, cost = (
            None if number is None else number * factor
            for number in (self.input_tokens, self.output_tokens, self.cost)
        )
        calls, pairs = round(self.calls * factor), round(self.pairs * factor)
        return Expected(self.model, calls, pairs, tokens_in, tokens_out, cost)


@dataclass(slots=True)
class SimulatedLedger(Ledger):
    """A ledger whose clock moves only by the questions that would be asked.

    Attributes:
        seconds_per_call: assumed time of a question; None if it is not known: no time passes.
        elapsed: simulated seconds so far.
    """

    seconds_per_call: float | None = None
    elapsed: float = 0.0

    @property
    def seconds(self) -> float:
        """Simulated seconds since the start."""
        return self.elapsed

    def rounds_left(self, questions: int = 1, *, repairs: bool = False) -> int | None:
        """As that of a ranking, in which nothing has to be repaired."""
        return 0 if repairs else Ledger.rounds_left(self, questions)

    def record_exception(self, error: BaseException, source: str) -> None:
        """Nothing: a plan says what failed, and nobody takes the exception."""


@dataclass(slots=True)
class DryRun:
    """What a plan asked and returned.

    Attributes:
        uses: what each model is expected to take, in the order of first use.
        rounds: number of questions of each round that asked any.
        shortened: whether passages were cut to fit the context window of a model.
        unanswered: whether a question had no ``assumed`` value, so that it is not known what the
            plan does after it.
        result: what the plan returned; None if it failed.
        error: why it failed.
    """

    uses: list[Expected] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    shortened: bool = False
    unanswered: bool = False
    result: Any = None
    error: MethodError | None = None


def dry_run(plan: Plan[Any], ledger: SimulatedLedger) -> DryRun:
    """Run a plan to its end without calling anything.

    Args:
        plan: what a ranking pass or a method yields.
        ledger: enforces the limits of calls, tokens and cost, and the deadline if it has
            ``seconds_per_call``.
    """
    run = DryRun()
    result: Any = None
    while True:
        try:
            effect = plan.send(result)
        except StopIteration as stop:
            run.result = stop.value
            break
        except MethodError as error:
            run.error = error
            break
        result = _result(effect, ledger, run)
    run.uses = merged(run.uses)
    return run


def _result(effect: object, ledger: SimulatedLedger, run: DryRun) -> Any:
    """The simulated result of an effect."""
    if isinstance(effect, Score):
        count = len(effect.texts)
        name = str(member(effect.scorer, "model_name", None) or type(effect.scorer).__name__)
        run.uses.append(Expected(name, pairs=count))
        return RawScores([0.0] * count, called=False)
    return _answers(effect, ledger, run) if isinstance(effect, Ask) else None


def merged(uses: Iterable[Expected]) -> list[Expected]:
    """Add up what is expected of each model, in the order of first use."""
    groups: dict[str, list[Expected]] = {}
    for use in uses:
        groups.setdefault(use.model, []).append(use)
    return [total(group, model) for model, group in groups.items()]


def total(uses: Iterable[Expected], model: str = "total") -> Expected:
    """Add up what is expected of several models.

    The cost is None unless it is known of every model that is asked.
    """
    uses = list(uses)
    with_calls = [use for use in uses if use.calls]
    costs = [use.cost for use in with_calls if use.cost is not None]
    return Expected(
        model,
        sum(use.calls for use in with_calls),
        sum(use.pairs for use in uses),
        sum(use.input_tokens or 0 for use in with_calls) if with_calls else None,
        sum(use.output_tokens or 0 for use in with_calls) if with_calls else None,
        sum(costs) if with_calls and len(costs) == len(with_calls) else None,
    )


def _answers(effect: Ask[Any, Any], ledger: SimulatedLedger, run: DryRun) -> list[Answer[Any]]:
    """The simulated answers of one round, ``concurrency`` questions at a time."""
    left, seconds = ledger.question_seconds_left, ledger.seconds_per_call
    answers: list[Answer[Any]] = []
    sent = 0
    for question in effect.questions:
        wave = sent // ledger.limits.concurrency
        if wave and seconds and left is not None:
            has_time = (wave + 1) * seconds <= left
        else:
            has_time = ledger.has_time_for(effect.service)
        if not has_time:
            answers.append(Answer(error=DeadlineError("the deadline would pass before this")))
            continue
        try:
            _book(effect.service, question, ledger, run)
        except BudgetError as error:
            answers.append(Answer(error=error))
            continue
        sent += 1
        if left is not None and seconds and (wave + 1) * seconds > left:
            answers.append(Answer(error=DeadlineError("the deadline would pass before this")))
        elif question.assumed is not None:
            answers.append(Answer(question.assumed))
        else:
            run.unanswered = True
            answers.append(Answer(error=MethodError("a dry run asks nothing", "dry_run")))
    if sent:
        run.rounds.append(sent)
    if sent and seconds:
        took = -(-sent // ledger.limits.concurrency) * seconds
        if left is None or seconds <= left:
            ledger.add_answer(effect.service, seconds)
        took = took if left is None else min(took, left)
        ledger.add_question_round(took)
        ledger.elapsed += took
    return answers


def _book(service: Any, question: Question[Any, Any], ledger: SimulatedLedger, run: DryRun) -> None:
    """Charge the estimate of a question.

    Raises:
        BudgetError: a limit does not allow it.
    """
    prices: Prices | None = getattr(service, "prices", None)
    estimate = question.estimate
    ledger.reserve(estimate, prices)
    ledger.charge_estimate(estimate, prices)
    tokens = estimate.input_tokens, estimate.output_tokens
    cost = None if prices is None else prices.of(*tokens)
    run.uses.append(Expected(service.name, 1, question.documents, *tokens, cost))
    run.shortened |= question.shortened
