"""Estimates what a ranking would take, from dry runs of its methods."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from secondpass.call_options import CallOptions
from secondpass.candidates import CheckedRequest, to_request, to_requests
from secondpass.effects import Judgement, Plan, Task
from secondpass.errors import InputError
from secondpass.limits import Limits
from secondpass.methods import Stage
from secondpass.rendering import Rendering
from secondpass.runtime.dry_run import Expected, SimulatedLedger, merged
from secondpass.settings import describe
from secondpass.strategies.cost_plan import CostPlan, ExceededLimit, PlannedStage
from secondpass.strategies.estimates import Trial, exceeded_limits, planned_stage, trials
from secondpass.strategies.life_cycle import MethodOwner, runnable
from secondpass.types import Candidate, CandidateLike, RequestLike, ScoreKind

T = TypeVar("T", int, float)

_TOKEN = "abc "
"""Text of about one token, at four bytes each."""
_QUERY_TOKENS = 10
_MAX_CANDIDATES = 100_000


class CostPlanner(MethodOwner):
    """Base class of rerankers: estimates what a ranking would take.

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
        instruction: str | None = None,
    ) -> CostPlan:
        """Estimate what a ranking of these candidates would take, without calling anything.

        Calls and rounds are exact if nothing fails and ``when`` skips nothing; requests that an
        API's limit of tokens splits are estimated, as tokens and cost are. Retries, repairs,
        fallbacks and hits of a cache are not included.

        Args:
            candidates: their number; or a sample of them, as for :meth:`rerank`.
            query: of the sample; None assumes one of ten tokens.
            tokens_per_passage: assumed length of a rendered candidate, if ``candidates`` is a
                number.
            seconds_per_call: expected time of an answer; None if it is not known: the plan has no
                time then.
            depth: number of candidates to judge; None uses the setting.
            instruction: what counts as relevant, which is part of every prompt.

        Raises:
            InputError: an argument is of the wrong type or out of range.
        """
        length = _positive("tokens_per_passage", tokens_per_passage, int)
        if seconds_per_call is not None:
            seconds_per_call = _positive("seconds_per_call", seconds_per_call, float)
        counted = isinstance(candidates, int)
        sample = _passages(candidates, length) if isinstance(candidates, int) else candidates
        request = to_request(
            _TOKEN * _QUERY_TOKENS if query is None else query,
            sample,
            text_needed=self.render.needs_text,
        )
        task = self._task(
            request,
            {"depth": depth, "instruction": instruction},
            **({"render": Rendering(), "when": None} if counted else {}),
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
        unlimited = replace(self.limits, deadline=None, calls=None, tokens=None, cost=None)
        free = SimulatedLedger(unlimited, seconds_per_call=seconds_per_call)
        limited = self._ledger(stage, seconds_per_call)
        stages = [
            planned_stage(trial, unlimited.concurrency, seconds_per_call)
            for trial in trials(stage.method, task, free)
        ]
        whole = CostPlan(len(task.texts), tuple(stages)).total
        exceeded = exceeded_limits(whole, limited.left())
        if self.limits != unlimited:
            cut = trials(stage.method, task, limited)
            stages = [_with_left_out(item, trial) for item, trial in zip(stages, cut, strict=True)]
        return tuple(stages), exceeded

    def _ledger(self, stage: Stage, seconds_per_call: float | None = None) -> SimulatedLedger:
        """A ledger for dry runs of a stage."""
        ledger = SimulatedLedger(self.limits, seconds_per_call=seconds_per_call)
        ledger.keep_time(last=stage is self._stages[-1])
        return ledger

    def expected_use(
        self, requests: Iterable[RequestLike], **options: Unpack[CallOptions]
    ) -> list[Expected]:
        """Estimate the use of each model by :meth:`rerank_many`, without calling anything.

        Every call is assumed to succeed, so retries, repairs and fallbacks are not included. Limits
        of calls, tokens and cost apply, a deadline does not. The method is that of the reranker, or
        the first fallback whose packages are installed.

        Args:
            requests: as for :meth:`rerank_many`.
            options: as for :meth:`rerank_many`.

        Raises:
            InputError: a request or an option is wrong.
        """
        uses: list[Expected] = []
        for request in to_requests(requests, text_needed=self.render.needs_text):
            uses += self._expected(request, options)
        return merged(uses)

    def _expected(self, request: CheckedRequest, options: CallOptions) -> list[Expected]:
        """What each model would take within the limits of calls, tokens and cost."""
        task = self._task(request, options)
        if task is None:
            return []
        stage = runnable(self._stages)
        runs = trials(stage.method, task, self._ledger(stage))
        return merged(use for trial in runs for use in trial.run.uses)

    def _task(self, request: CheckedRequest, options: Any, **changes: Any) -> Task | None:
        """The task of the method in a ranking; None if no candidate has a text.

        Args:
            request: the query, its candidates and the context.
            options: of the call.
            changes: further changes of the settings of the pass.

        Raises:
            InputError: an option is wrong.
        """
        raise NotImplementedError


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
