"""Plans what a ranking would take, from the bounds of its methods and a dry run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from secondpass.candidates import CheckedRequest, to_request
from secondpass.effects import Judgement, Method, Plan, Task
from secondpass.errors import InputError
from secondpass.limits import Limits
from secondpass.methods import Stage
from secondpass.rendering import Rendering
from secondpass.runtime.dry_run import DryRun, Expected, SimulatedLedger, dry_run, merged, total
from secondpass.settings import describe
from secondpass.strategies.base import Bounds, bounds_of
from secondpass.strategies.cost_plan import CostPlan, ExceededLimit, PlannedStage, Range
from secondpass.strategies.life_cycle import MethodOwner, runnable
from secondpass.strategies.windows import count_texts, judged_by_windows
from secondpass.types import Candidate, CandidateLike, ScoreKind

T = TypeVar("T", int, float)

_TOKEN = "abc "
"""Text of about one token, at four bytes each."""
_QUERY_TOKENS = 10
_MAX_CANDIDATES = 100_000


class CostPlanner(MethodOwner):
    """Base class of rerankers: plans what a ranking would take.

    Subclasses implement :meth:`_task`, and set ``_stages`` and ``limits``.
    """

    _stages: tuple[Stage, ...]
    limits: Limits
    render: Rendering

    def plan(
        self,
        candidates: int | Iterable[CandidateLike],
        *,
        query: str | None = None,
        tokens_per_passage: int = 100,
        seconds_per_call: float | None = None,
        depth: int | None = None,
        top_k: int | None = None,
    ) -> CostPlan:
        """Tell what ranking so many candidates would take, without calling anything.

        Calls and rounds are exact where they are fixed, else a lower and an upper bound. Tokens and
        cost are estimated. Retries, repairs, fallbacks and hits of a cache are not included.

        Args:
            candidates: their number; or a sample of them, as for :meth:`rerank`.
            query: of the sample; None assumes one of ten tokens.
            tokens_per_passage: assumed length of what the method is shown of a candidate, for a
                number of candidates.
            seconds_per_call: how long the model takes to answer a question, if it is known. Without
                it the plan has no time.
            depth: number of candidates to judge, if not that of the settings.
            top_k: number of items to return, if not that of the settings.

        Raises:
            InputError: an argument is of the wrong type or out of range.
        """
        length = _positive("tokens_per_passage", tokens_per_passage, int)
        if seconds_per_call is not None:
            seconds_per_call = _positive("seconds_per_call", seconds_per_call, float)
        counted = isinstance(candidates, int)
        given = _passages(candidates, length) if isinstance(candidates, int) else candidates
        request = to_request(
            _TOKEN * _QUERY_TOKENS if query is None else query,
            given,
            text_needed=self.render.needs_text,
        )
        task = self._task(
            request,
            {"depth": depth, "top_k": top_k},
            **({"render": Rendering()} if counted else {}),
        )
        stages: tuple[PlannedStage, ...] = ()
        exceeded: tuple[ExceededLimit, ...] = ()
        if task is not None:
            stages, exceeded = self._planned(task, seconds_per_call)
        return CostPlan(
            len(request[1]), stages, exceeded, length if counted else None, seconds_per_call
        )

    def _planned(
        self, task: Task, seconds_per_call: float | None
    ) -> tuple[tuple[PlannedStage, ...], tuple[ExceededLimit, ...]]:
        """What the stages would take, and the limits that this exceeds."""
        stage = runnable(self._stages)

        def ledger(limits: Limits) -> SimulatedLedger:
            simulated = SimulatedLedger(limits, seconds_per_call=seconds_per_call)
            simulated.keep_time(for_fallback=stage is not self._stages[-1])
            return simulated

        unlimited = replace(self.limits, deadline=None, calls=None, tokens=None, cost=None)
        stages = [
            planned_stage(trial, unlimited.concurrency, seconds_per_call)
            for trial in trials(stage.method, task, ledger(unlimited))
        ]
        whole = CostPlan(len(task.texts), tuple(stages)).total
        limited = ledger(self.limits)
        exceeded = exceeded_limits(whole, self.limits, limited.question_seconds_left)
        if self.limits != unlimited:
            cut = trials(stage.method, task, limited)
            stages = [_with_left_out(item, trial) for item, trial in zip(stages, cut, strict=True)]
        return tuple(stages), exceeded

    def _expected(self, request: CheckedRequest, options: Any) -> list[Expected]:
        """What each model would take within the limits of calls, tokens and cost."""
        task = self._task(request, options)
        if task is None:
            return []
        method = runnable(self._stages).method
        ledger = SimulatedLedger(self.limits)
        return merged(use for trial in trials(method, task, ledger) for use in trial.run.uses)

    def _task(self, request: CheckedRequest, options: Any, **changes: Any) -> Task | None:
        """The task that a ranking would give its method; None if it would give it none.

        Args:
            request: what is to be ranked.
            options: of the call.
            changes: further changes of the settings of the pass.

        Raises:
            InputError: an option is wrong.
        """
        raise NotImplementedError


class Recorder:
    """A method that keeps the task that it is given, and judges nothing."""

    name = "plan"
    score_kind: ScoreKind = "rank"
    scale = None
    windows = "task"

    def __init__(self) -> None:
        self.task: Task | None = None

    def judge(self, task: Task) -> Plan[Judgement]:
        """Keep the task."""
        self.task = task
        count = len(task.texts)
        return Judgement([None] * count, beyond=frozenset(range(count)))
        yield  # a generator without effects


@dataclass(frozen=True, slots=True)
class Trial:
    """A dry run of a method on a task."""

    method: Method
    task: Task
    run: DryRun


def trials(method: Method, task: Task, ledger: SimulatedLedger) -> Iterator[Trial]:
    """Dry runs of the methods that a method runs one after the other, or of the method itself.

    Those that run others have a member ``parts(task)``, which returns these with their tasks.
    """
    parts = getattr(method, "parts", None)
    if parts is None:
        yield Trial(method, task, dry_run(judged_by_windows(method, task), ledger))
        return
    for inner, part in parts(task):
        yield from trials(inner, part, ledger)


def planned_stage(trial: Trial, concurrency: int, seconds_per_call: float | None) -> PlannedStage:
    """What the method of a dry run without limits would take."""
    run, count = trial.run, len(trial.task.texts)
    asked = sum(run.rounds)
    expected = total(run.uses)
    bounds = bounds_of(trial.method, count_texts(trial.method, trial.task))
    lowest, highest = (asked, asked) if bounds is None or not asked else bounds.calls

    def scaled(value: float | None) -> Range | None:
        if value is None or not asked:
            return None
        return value * lowest / asked, value * highest / asked

    seconds: Range | None = None
    if seconds_per_call is not None and asked:
        waves = waves_of(bounds, run.rounds, concurrency)
        seconds = waves[0] * seconds_per_call, waves[1] * seconds_per_call
    problem = "" if run.error is None or run.error.code == "dry_run" else str(run.error)
    return PlannedStage(
        trial.method.name,
        count,
        None if bounds is None else bounds.calls,
        None if bounds is None else bounds.rounds,
        expected.pairs,
        scaled(expected.input_tokens),
        scaled(expected.output_tokens),
        scaled(expected.cost),
        seconds,
        run.shortened,
        count if problem else 0,
        getattr(trial.method, "reason", ""),
        problem,
    )


def waves_of(bounds: Bounds | None, rounds: Sequence[int], concurrency: int) -> tuple[int, int]:
    """How often the time of one call passes: a round of more questions takes several times that.

    Args:
        bounds: of the questions; None if they are not known.
        rounds: number of questions in each round of a dry run.
        concurrency: number of questions at a time.
    """
    if bounds is None or bounds.exact:
        waves = sum(-(-number // concurrency) for number in rounds)
        return waves, waves
    (lowest, highest), (first, last) = bounds.calls, bounds.rounds
    # A round of q questions takes ceil(q / c) <= 1 + (q - 1) / c of it.
    return max(first, -(-lowest // concurrency)), last + (highest - last) // concurrency


def exceeded_limits(
    needs: PlannedStage, limits: Limits, seconds: float | None
) -> tuple[ExceededLimit, ...]:
    """The limits that are lower than what may be needed.

    Args:
        needs: what the ranking would take without limits.
        limits: of the ranking.
        seconds: what the deadline leaves to questions; None without one.
    """
    tokens: Range | None = None
    if needs.input_tokens is not None and needs.output_tokens is not None:
        low, high = zip(needs.input_tokens, needs.output_tokens, strict=True)
        tokens = sum(low), sum(high)
    rows: Iterable[tuple[str, float | None, Range | None]] = (
        ("calls", limits.calls, needs.calls),
        ("tokens", limits.tokens, tokens),
        ("cost", limits.cost, needs.cost),
        ("deadline", seconds, needs.seconds),
    )
    return tuple(
        ExceededLimit(name, allowed, needed)
        for name, allowed, needed in rows
        if allowed is not None and needed is not None and needed[1] > allowed
    )


def _with_left_out(stage: PlannedStage, limited: Trial) -> PlannedStage:
    """A stage with the candidates that the limits leave out."""
    run = limited.run
    left_out: int | None = stage.candidates
    if run.error is not None and run.error.code == "dry_run":
        left_out = None
    elif run.error is None:
        judgement: Judgement = run.result
        left_out = judgement.scores.count(None) - len(judgement.beyond)
    return replace(stage, left_out=left_out)


def _passages(count: int, tokens: int) -> list[Candidate]:
    """Candidates of the same length.

    Raises:
        InputError: the number is out of range.
    """
    if isinstance(count, bool) or not 0 <= count <= _MAX_CANDIDATES:
        raise InputError(
            f"candidates: give a number from 0 to {_MAX_CANDIDATES:,}, not {describe(count)}"
        )
    return [Candidate(_TOKEN * tokens)] * count


def _positive(name: str, value: T, kind: type[T]) -> T:
    """Check a number.

    Raises:
        InputError: it is not one, or not more than 0.
    """
    allowed = int if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed) or not 0 < value < math.inf:
        word = "a whole number" if kind is int else "a number"
        raise InputError(f"{name}: give {word} above 0, not {describe(value)}")
    return value
