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
from secondpass.errors import BudgetError, MethodError
from secondpass.limits import Limits, Prices
from secondpass.questions import Answer, RawScores
from secondpass.ranking.ledger import Ledger, PassCall
from secondpass.ranking.scoring import member
from secondpass.ranking.windows import judged_by_windows


def dry_ledger(limits: Limits) -> Ledger:
    """A ledger for dry runs, in which no time passes and nothing has to be repaired."""
    return Ledger(replace(limits, deadline=None, repair=0))


@dataclass(slots=True)
class DryRun:
    """What a plan asked and returned."""

    uses: list[Expected] = field(default_factory=list)  # of each model, in the order of first use
    scored: list[Score] = field(default_factory=list)  # what scorers were asked
    rounds: int = 0  # that asked any question
    shortened: bool = False  # whether passages were cut to fit the context window of a model
    unanswered: bool = False
    """Whether a question had no ``assumed`` value: what the plan does after it is not known."""
    result: Any = None
    error: MethodError | None = None


def dry_run(plan: Plan[Any], ledger: Ledger) -> DryRun:
    """Run a plan to its end without calling anything, within the limits of a :func:`dry_ledger`."""
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


def _answers(effect: Ask[Any, Any], ledger: Ledger, run: DryRun) -> list[Answer[Any]]:
    """The assumed answers of one round."""
    service = effect.service
    prices: Prices | None = getattr(service, "prices", None)
    answers: list[Answer[Any]] = []
    sent = 0
    for question in effect.questions:
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
        if question.assumed is not None:
            answers.append(Answer(question.assumed))
        else:
            run.unanswered = True
            answers.append(Answer(error=MethodError("a dry run asks nothing", "dry_run")))
    if sent:
        run.rounds += 1
    return answers


class Trial(NamedTuple):
    """A dry run of a method on a task."""

    method: Method
    task: Task
    run: DryRun


def trials(method: Method, task: Task, ledger: Ledger) -> Iterator[Trial]:
    """Dry runs of the methods that a method runs successively, or of the method itself."""
    task = replace(task, call=PassCall(ledger))
    parts = getattr(method, "parts", None)  # which returns those methods with their tasks
    if parts is None:
        yield Trial(method, task, dry_run(judged_by_windows(method, task), ledger))
        return
    for item, part in parts(task):
        yield from trials(item, part, ledger)
