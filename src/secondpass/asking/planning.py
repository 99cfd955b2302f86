"""Estimates what a ranking would take, from dry runs of its methods.

In a dry run nothing is called: every question is answered by its ``assumed`` value, or left
unanswered without one, and every scorer returns equal scores, so the plan continues as if no call
changed the order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from secondpass.asking.life_cycle import runnable
from secondpass.effects import (
    Answer,
    Ask,
    Judgement,
    Left,
    Method,
    Plan,
    Question,
    RawScores,
    Score,
    Task,
)
from secondpass.errors import BudgetError, DeadlineError, InputError, MethodError
from secondpass.limits import Limits, Prices
from secondpass.prompts.fencing import as_text
from secondpass.questions import cut, estimate_tokens
from secondpass.ranking.cost_plan import CostPlan, ExceededLimit, PlannedStage
from secondpass.ranking.ledger import Ledger, PassCall
from secondpass.ranking.methods import Stage
from secondpass.ranking.scoring import member
from secondpass.ranking.windows import judged_by_windows
from secondpass.settings import describe
from secondpass.types import Candidate, ScoreKind


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
