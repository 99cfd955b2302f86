"""Estimates what methods would take, by dry runs, and compares it with the limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from secondpass.effects import Method, Task
from secondpass.limits import Left
from secondpass.prompts.counting import counted
from secondpass.runtime.dry_run import DryRun, SimulatedLedger, dry_run, total
from secondpass.strategies.cost_plan import ExceededLimit, PlannedStage
from secondpass.strategies.windows import judged_by_windows


@dataclass(frozen=True, slots=True)
class Trial:
    """A dry run of a method on a task."""

    method: Method
    task: Task
    run: DryRun


def trials(method: Method, task: Task, ledger: SimulatedLedger) -> Iterator[Trial]:
    """Dry runs of the methods that a method runs successively, or of the method itself.

    A method that runs others has a member ``parts``, which returns these with their tasks.
    """
    task = counted(task)
    parts = getattr(method, "parts", None)
    if parts is None:
        yield Trial(method, task, dry_run(judged_by_windows(method, task), ledger))
        return
    inner = parts(task)
    for number, (item, part) in enumerate(inner, 1):
        last = number == len(inner)
        before = ledger.keep_time(last)
        yield from trials(item, part, ledger)
        ledger.keep_time(last, before)


def planned_stage(trial: Trial, concurrency: int, seconds_per_call: float | None) -> PlannedStage:
    """What the method of a dry run without limits would take.

    If a question has no assumed answer, it is not known what the method asks after it.
    """
    run, count = trial.run, len(trial.task.texts)
    expected = total(run.uses)
    if run.unanswered:
        return PlannedStage(
            trial.method.name, count, None, None, expected.pairs, shortened=run.shortened
        )
    seconds: float | None = None
    if seconds_per_call is not None and run.rounds:
        seconds = waves(run.rounds, concurrency) * seconds_per_call
    problem = "" if run.error is None else str(run.error)
    return PlannedStage(
        trial.method.name,
        count,
        expected.calls,
        len(run.rounds),
        expected.pairs,
        expected.input_tokens,
        expected.output_tokens,
        expected.cost,
        seconds,
        run.shortened,
        count if problem else 0,
        problem,
    )


def waves(rounds: Sequence[int], concurrency: int) -> int:
    """How many calls wait for each other.

    A round of more than ``concurrency`` questions takes several waves.

    Args:
        rounds: number of questions in each round.
        concurrency: maximum number of concurrent questions.
    """
    return sum(-(-number // concurrency) for number in rounds)


def exceeded_limits(needs: PlannedStage, left: Left) -> tuple[ExceededLimit, ...]:
    """The limits that leave less than is needed."""
    tokens: float | None = None
    if needs.input_tokens is not None and needs.output_tokens is not None:
        tokens = needs.input_tokens + needs.output_tokens
    rows: Iterable[tuple[str, float | None, float | None]] = (
        ("calls", left.calls, needs.calls),
        ("tokens", left.tokens, tokens),
        ("cost", left.cost, needs.cost),
        ("deadline", left.seconds, needs.seconds),
    )
    return tuple(
        ExceededLimit(name, allowed, needed)
        for name, allowed, needed in rows
        if allowed is not None and needed is not None and needed > allowed
    )
