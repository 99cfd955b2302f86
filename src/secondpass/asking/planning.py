"""Estimates what a ranking would take: its stages, and the limits that they exceed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from secondpass.asking.dry_run import DryRun, SimulatedLedger, Trial, trials
from secondpass.asking.expected_use import Expected, total
from secondpass.asking.life_cycle import runnable
from secondpass.effects import Judgement, Left, Method, Plan, Task
from secondpass.limits import Limits, waves
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
    stages: Sequence[Stage], task: Task | None, limits: Limits, seconds_per_call: float | None
) -> tuple[tuple[PlannedStage, ...], tuple[ExceededLimit, ...]]:
    """What a ranking would take, and the limits that this exceeds; nothing without a task."""
    if task is None:
        return (), ()
    method, limited_ledger = _first_runnable(stages, limits, seconds_per_call)
    unlimited = replace(limits, deadline=None, calls=None, tokens=None, cost=None)
    unlimited_ledger = SimulatedLedger(unlimited, seconds_per_call=seconds_per_call)
    items = [
        _planned_stage(trial, limits.concurrency, seconds_per_call)
        for trial in trials(method, task, unlimited_ledger)
    ]
    whole = CostPlan(len(task.texts), tuple(items)).total
    exceeded = _exceeded_limits(whole, limited_ledger.left())
    if limits != unlimited:
        cut_runs = [trial.run for trial in trials(method, task, limited_ledger)]
        items = [
            replace(item, left_out=_left_out(item, run))
            for item, run in zip(items, cut_runs, strict=True)
        ]
    return tuple(items), exceeded


def expected_uses(stages: Sequence[Stage], task: Task | None, limits: Limits) -> Iterator[Expected]:
    """What each model would take within the limits of calls, tokens and cost."""
    if task is not None:
        method, ledger = _first_runnable(stages, limits)
        for trial in trials(method, task, ledger):
            yield from trial.run.uses


def _first_runnable(
    stages: Sequence[Stage], limits: Limits, seconds_per_call: float | None = None
) -> tuple[Method, SimulatedLedger]:
    """The method that would run, and a ledger for its dry runs."""
    stage = runnable(stages)
    ledger = SimulatedLedger(limits, seconds_per_call=seconds_per_call)
    ledger.keep_time(last=stage is stages[-1])
    return stage.method, ledger


def _planned_stage(trial: Trial, concurrency: int, seconds_per_call: float | None) -> PlannedStage:
    """What the method of a dry run without limits would take."""
    run, name, count = trial.run, trial.method.name, len(trial.task.texts)
    expected = total(run.uses)
    if run.unanswered:  # what the method asks afterwards is not known
        return PlannedStage(
            name, count, calls=None, rounds=None, pairs=expected.pairs, shortened=run.shortened
        )
    seconds: float | None = None
    if seconds_per_call is not None and run.rounds:
        seconds = waves(run.rounds, concurrency) * seconds_per_call
    return PlannedStage(
        name,
        count,
        calls=expected.calls,
        rounds=len(run.rounds),
        pairs=expected.pairs,
        input_tokens=expected.input_tokens,
        output_tokens=expected.output_tokens,
        cost=expected.cost,
        seconds=seconds,
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
        ("deadline", left.seconds, needs.seconds),
    )
    return tuple(
        ExceededLimit(name, allowed, needed)
        for name, allowed, needed in rows
        if allowed is not None and needed is not None and needed > allowed
    )
