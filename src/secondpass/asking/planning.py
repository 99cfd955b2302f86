"""Estimates what a ranking would take: its stages, and the limits that they exceed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from secondpass.asking.dry_run import DryRun, Trial, dry_ledger, trials
from secondpass.asking.expected_use import Expected, total
from secondpass.asking.life_cycle import runnable
from secondpass.effects import Judgement, Left, Plan, Task
from secondpass.limits import Limits
from secondpass.ranking.cost_plan import CostPlan, ExceededLimit, PlannedStage
from secondpass.ranking.stages import Stage
from secondpass.types import ScoreKind


class Recorder:
    """A method that stores its task, and judges nothing."""

    name = "plan"
    score_kind: ScoreKind = "rank"
    scale = None
    windows = "task"

    def __init__(self) -> None:
        self.task: Task | None = None

    def judge(self, task: Task) -> Plan[Judgement]:
        self.task = task
        count = len(task.texts)
        return Judgement([None] * count, beyond=frozenset(range(count)))
        yield  # a generator without effects


def planned(
    stages: Sequence[Stage], task: Task | None, limits: Limits
) -> tuple[tuple[PlannedStage, ...], tuple[ExceededLimit, ...]]:
    """What a ranking would take, and the limits that this exceeds; nothing without a task."""
    if task is None:
        return (), ()
    method = runnable(stages).method
    unlimited = replace(limits, calls=None, tokens=None, cost=None)
    items = [_planned_stage(trial) for trial in trials(method, task, dry_ledger(unlimited))]
    whole = CostPlan(len(task.texts), tuple(items)).total
    limited = dry_ledger(limits)
    exceeded = _exceeded_limits(whole, limited.left())
    if limits != unlimited:
        cut_runs = [trial.run for trial in trials(method, task, limited)]
        items = [
            replace(item, left_out=_left_out(item, run))
            for item, run in zip(items, cut_runs, strict=True)
        ]
    return tuple(items), exceeded


def expected_uses(stages: Sequence[Stage], task: Task | None, limits: Limits) -> Iterator[Expected]:
    """What each model would take within the limits of calls, tokens and cost."""
    if task is not None:
        for trial in trials(runnable(stages).method, task, dry_ledger(limits)):
            yield from trial.run.uses


def _planned_stage(trial: Trial) -> PlannedStage:
    """What the method of a dry run without limits would take."""
    run, name, count = trial.run, trial.method.name, len(trial.task.texts)
    expected = total(run.uses)
    if run.unanswered:  # what the method asks afterwards is not known
        return PlannedStage(
            name, count, calls=None, rounds=None, pairs=expected.pairs, shortened=run.shortened
        )
    return PlannedStage(
        name,
        count,
        calls=expected.calls,
        rounds=run.rounds,
        pairs=expected.pairs,
        input_tokens=expected.input_tokens,
        output_tokens=expected.output_tokens,
        cost=expected.cost,
        shortened=run.shortened,
        left_out=0 if run.error is None else count,
        problem="" if run.error is None else str(run.error),
    )


def _left_out(stage: PlannedStage, limited: DryRun) -> int | None:
    """How many candidates the limits leave out; None if that depends on answers."""
    if stage.calls is None:
        return None
    if limited.error is not None:
        return stage.candidates
    judgement: Judgement = limited.result
    return judgement.scores.count(None) - len(judgement.beyond)


def _exceeded_limits(needs: PlannedStage, left: Left) -> tuple[ExceededLimit, ...]:
    """The limits of which less is left than is needed; what is not known exceeds none."""
    tokens: float | None = None
    if needs.input_tokens is not None and needs.output_tokens is not None:
        tokens = needs.input_tokens + needs.output_tokens
    rows: Iterable[tuple[str, float | None, float | None]] = (
        ("calls", left.calls, needs.calls),
        ("tokens", left.tokens, tokens),
        ("cost", left.cost, needs.cost),
    )
    return tuple(
        ExceededLimit(name, allowed, needed)
        for name, allowed, needed in rows
        if allowed is not None and needed is not None and needed > allowed
    )
