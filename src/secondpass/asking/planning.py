"""Estimates what a ranking would take, from dry runs of its methods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from secondpass.asking.dry_run import DryRun, Expected, SimulatedLedger, dry_run, total
from secondpass.asking.life_cycle import runnable
from secondpass.effects import Judgement, Left, Method, Plan, Task
from secondpass.errors import InputError
from secondpass.limits import Limits
from secondpass.prompts.fencing import as_text
from secondpass.questions import cut, estimate_tokens
from secondpass.ranking.cost_plan import CostPlan, ExceededLimit, PlannedStage
from secondpass.ranking.ledger import PassCall
from secondpass.ranking.methods import Stage
from secondpass.ranking.windows import judged_by_windows
from secondpass.settings import describe
from secondpass.types import Candidate, ScoreKind

T = TypeVar("T", int, float)

_TOKEN = "abc "
"""Text of about one token, at four bytes each."""
ASSUMED_QUERY = _TOKEN * 10
_MAX_CANDIDATES = 100_000


def planned(
    stages: Sequence[Stage], task: Task | None, limits: Limits, seconds_per_call: float | None
) -> tuple[tuple[PlannedStage, ...], tuple[ExceededLimit, ...]]:
    """What a ranking would take, and the limits that this exceeds.

    Args:
        stages: the method and its fallbacks; the first whose packages are installed is planned.
        task: of the method; None: nothing is judged.
        limits: of the reranker.
        seconds_per_call: expected time of an answer; None: it is not known.
    """
    if task is None:
        return (), ()
    stage = runnable(stages)
    unlimited = replace(limits, deadline=None, calls=None, tokens=None, cost=None)
    free = SimulatedLedger(unlimited, seconds_per_call=seconds_per_call)
    limited = _ledger(limits, stage, stages, seconds_per_call)
    items = [
        planned_stage(trial, unlimited.concurrency, seconds_per_call)
        for trial in trials(stage.method, task, free)
    ]
    whole = CostPlan(len(task.texts), tuple(items)).total
    exceeded = exceeded_limits(whole, limited.left())
    if limits != unlimited:
        cut = trials(stage.method, task, limited)
        items = [_with_left_out(item, trial) for item, trial in zip(items, cut, strict=True)]
    return tuple(items), exceeded


def expected_uses(stages: Sequence[Stage], task: Task | None, limits: Limits) -> Iterator[Expected]:
    """What each model would take within the limits of calls, tokens and cost."""
    if task is not None:
        stage = runnable(stages)
        for trial in trials(stage.method, task, _ledger(limits, stage, stages)):
            yield from trial.run.uses


def _ledger(
    limits: Limits, stage: Stage, stages: Sequence[Stage], seconds_per_call: float | None = None
) -> SimulatedLedger:
    """A ledger for dry runs of a stage."""
    ledger = SimulatedLedger(limits, seconds_per_call=seconds_per_call)
    ledger.keep_time(last=stage is stages[-1])
    return ledger


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
    task = replace(counted(task), call=PassCall(ledger))
    parts = getattr(method, "parts", None)
    if parts is None:
        yield Trial(method, task, dry_run(judged_by_windows(method, task), ledger))
        return
    inner = parts(task)
    for number, (item, part) in enumerate(inner, 1):
        with task.call.keeping_time(last=number == len(inner)):
            yield from trials(item, part, ledger)


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


class Recorder:
    """A method that stores its task, and judges nothing."""

    name = "plan"
    score_kind: ScoreKind = "rank"
    scale = None
    windows = "task"

    def __init__(self) -> None:
        self.task: Task | None = None

    def judge(self, task: Task) -> Plan[Judgement]:
        """Store the task."""
        self.task = task
        count = len(task.texts)
        return Judgement([None] * count, beyond=frozenset(range(count)))
        yield  # a generator without effects


def _with_left_out(stage: PlannedStage, limited: Trial) -> PlannedStage:
    """A stage with the candidates that the limits leave out."""
    run = limited.run
    left_out: int | None = stage.candidates
    if stage.calls is None:
        left_out = None
    elif run.error is None:
        judgement: Judgement = run.result
        left_out = judgement.scores.count(None) - len(judgement.beyond)
    return replace(stage, left_out=left_out)


def assumed_passages(count: int, tokens: int) -> list[Candidate]:
    """Candidates of the same length.

    Raises:
        InputError: the number is out of range.
    """
    if isinstance(count, bool) or not 0 <= count <= _MAX_CANDIDATES:
        raise InputError(
            f"candidates: give a number from 0 to {_MAX_CANDIDATES:,}, not {describe(count)}"
        )
    return [Candidate(_TOKEN * tokens)] * count


def positive(name: str, value: T, kind: type[T]) -> T:
    """Check a number.

    Raises:
        InputError: it is not one, or not more than 0.
    """
    allowed = int if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed) or not 0 < value < math.inf:
        word = "a whole number" if kind is int else "a number"
        raise InputError(f"{name}: give {word} above 0, not {describe(value)}")
    return value


class TextTokens(dict[tuple[str, int], float]):
    """The estimated tokens of the beginnings of texts, by text and length; each is counted once.

    A context window cuts the same text to many lengths, so the beginnings themselves are not kept.
    """

    def __missing__(self, key: tuple[str, int]) -> float:
        text, length = key
        tokens = self[key] = estimate_tokens(as_text(cut(text, length)))
        return tokens


def counted(task: Task) -> Task:
    """The task for dry runs: questions about it have estimates, but empty prompts.

    All dry runs of the task, and of tasks made from it, share the tokens of its texts.
    """
    return task if task.text_tokens is not None else replace(task, text_tokens=TextTokens())
