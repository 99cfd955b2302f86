"""Runs methods without calling anything, to see what they would ask.

Every question is answered by its ``assumed`` value, or left unanswered without one, and every
scorer returns equal scores, so the plan continues as if no call changed the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from secondpass.asking.expected_use import Expected, merged
from secondpass.effects import Ask, Method, Plan, Score, Task
from secondpass.errors import BudgetError, DeadlineError, MethodError
from secondpass.limits import Prices, waves
from secondpass.questions import Answer, RawScores
from secondpass.ranking.ledger import Ledger, PassCall
from secondpass.ranking.scoring import member
from secondpass.ranking.windows import judged_by_windows


@dataclass(slots=True)
class SimulatedLedger(Ledger):
    """A ledger whose clock moves only by the questions that would be asked."""

    seconds_per_call: float | None = None
    """Assumed time of a question; None if it is not known: no time passes."""
    elapsed: float = 0.0

    @property
    def seconds(self) -> float:
        return self.elapsed

    def rounds_left(self, questions: int = 1, *, repairs: bool = False) -> int | None:
        """As that of a ranking, in which nothing has to be repaired."""
        return 0 if repairs else Ledger.rounds_left(self, questions)

    def record_exception(self, error: BaseException, source: str) -> None:
        """Nothing: a plan says what failed, and nobody takes the exception."""


@dataclass(slots=True)
class DryRun:
    """What a plan asked and returned."""

    uses: list[Expected] = field(default_factory=list)  # of each model, in the order of first use
    scored: list[Score] = field(default_factory=list)  # what scorers were asked
    rounds: list[int] = field(default_factory=list)
    """Number of questions of each round that asked any."""
    shortened: bool = False  # whether passages were cut to fit the context window of a model
    unanswered: bool = False
    """Whether a question had no ``assumed`` value: what the plan does after it is not known."""
    result: Any = None
    error: MethodError | None = None


def dry_run(plan: Plan[Any], ledger: SimulatedLedger) -> DryRun:
    """Run a plan to its end without calling anything, within the limits of the ledger.

    The deadline is kept to if the ledger has ``seconds_per_call``.
    """
    run = DryRun()
    result: Any = None
    try:
        while True:
            effect = plan.send(result)
            if isinstance(effect, Score):
                result = _equal_scores(effect, run)
            elif isinstance(effect, Ask):
                result = _answers(effect, ledger, run)
            else:
                result = None
    except StopIteration as stop:
        run.result = stop.value
    except MethodError as error:
        run.error = error
    run.uses = merged(run.uses)
    return run


def _equal_scores(effect: Score, run: DryRun) -> RawScores:
    run.scored.append(effect)
    scorer, count = effect.scorer, len(effect.texts)
    name = str(member(scorer, "model_name", None) or type(scorer).__name__)
    run.uses.append(Expected(name, pairs=count))
    return RawScores([0.0] * count, called=False)


def _answers(effect: Ask[Any, Any], ledger: SimulatedLedger, run: DryRun) -> list[Answer[Any]]:
    """The simulated answers of one round.

    Its questions are sent in waves of ``concurrency``, of which each ends before the next begins.
    """
    service, concurrency = effect.service, ledger.limits.concurrency
    prices: Prices | None = getattr(service, "prices", None)
    seconds, seconds_left = ledger.seconds_per_call, ledger.question_seconds_left
    late: Answer[Any] = Answer(error=DeadlineError("the deadline would pass before this"))
    answers: list[Answer[Any]] = []
    sent = 0
    for question in effect.questions:
        wave = sent // concurrency
        in_time = seconds_left is None or not seconds or (wave + 1) * seconds <= seconds_left
        may_be_sent = ledger.has_time_for(service) if wave == 0 else in_time
        if not may_be_sent:
            answers.append(late)
            continue
        estimate = question.estimate
        try:
            ledger.reserve(estimate, prices)
        except BudgetError as error:
            answers.append(Answer(error=error))
            continue
        ledger.charge_estimate(estimate, prices)
        sent += 1
        tokens = estimate.input_tokens, estimate.output_tokens
        cost = None if prices is None else prices.of(*tokens)
        run.uses.append(Expected(service.name, 1, question.documents, *tokens, cost))
        if question.shortened:
            run.shortened = True
        if not in_time:
            answers.append(late)
        elif question.assumed is not None:
            answers.append(Answer(question.assumed))
        else:
            run.unanswered = True
            answers.append(Answer(error=MethodError("a dry run asks nothing", "dry_run")))
    if sent:
        run.rounds.append(sent)
    if sent and seconds:
        if seconds_left is None or seconds <= seconds_left:
            ledger.add_answer(service, seconds)
        round_seconds = waves([sent], concurrency) * seconds
        if seconds_left is not None:
            round_seconds = min(round_seconds, seconds_left)
        ledger.add_question_round(round_seconds)
        ledger.elapsed += round_seconds
    return answers


class Trial(NamedTuple):
    """A dry run of a method on a task."""

    method: Method
    task: Task
    run: DryRun


def trials(method: Method, task: Task, ledger: SimulatedLedger) -> Iterator[Trial]:
    """Dry runs of the methods that a method runs successively, or of the method itself."""
    task = replace(task, call=PassCall(ledger))
    parts = getattr(method, "parts", None)  # which returns those methods with their tasks
    if parts is None:
        yield Trial(method, task, dry_run(judged_by_windows(method, task), ledger))
        return
    inner = parts(task)
    for number, (item, part) in enumerate(inner, 1):
        with task.call.keeping_time(last=number == len(inner)):
            yield from trials(item, part, ledger)
