"""Estimates what a ranking would take, from dry runs of its methods.

In a dry run nothing is called: every question is answered by its ``assumed`` value, or left
unanswered without one, and every scorer returns equal scores, so the plan continues as if no call
changed the order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from secondpass.asking.life_cycle import runnable
from secondpass.effects import Ask, Judgement, Left, Method, Plan, Score, Task
from secondpass.errors import BudgetError, DeadlineError, InputError, MethodError
from secondpass.limits import Limits, Prices
from secondpass.questions import Answer, RawScores
from secondpass.ranking.cost_plan import CostPlan, ExceededLimit, PlannedStage
from secondpass.ranking.ledger import Ledger, PassCall
from secondpass.ranking.methods import Stage
from secondpass.ranking.scoring import member
from secondpass.ranking.windows import judged_by_windows
from secondpass.settings import describe
from secondpass.types import Candidate, CandidateLike, ScoreKind


@dataclass(frozen=True, slots=True)
class Expected:
    """What one model is expected to take."""

    model: str  # its name, as in reports
    calls: int = 0  # questions to a service; 0 for a local model
    pairs: int = 0  # query-document pairs that it is asked about, or scores
    input_tokens: float | None = None  # at four bytes per token; None for a local model
    output_tokens: float | None = None  # of replies, without reasoning
    cost: float | None = None  # of these tokens, in the currency of the prices

    def times(self, factor: float) -> Expected:
        """All numbers multiplied by ``factor``; calls and pairs are rounded."""
        estimates = (
            None if number is None else number * factor
            for number in (self.input_tokens, self.output_tokens, self.cost)
        )
        return Expected(
            self.model, round(self.calls * factor), round(self.pairs * factor), *estimates
        )


def merged(uses: Iterable[Expected]) -> list[Expected]:
    """Add up what is expected of each model, in the order of first use."""
    groups: dict[str, list[Expected]] = {}
    for use in uses:
        groups.setdefault(use.model, []).append(use)
    return [total(group, model) for model, group in groups.items()]


def total(uses: Iterable[Expected], model: str = "total") -> Expected:
    """Add up what is expected. The cost is None unless it is known of every model that is asked."""
    uses = list(uses)
    calls, pairs = sum(use.calls for use in uses), sum(use.pairs for use in uses)
    asked = [use for use in uses if use.calls]
    if not asked:
        return Expected(model, calls, pairs)
    costs = [use.cost for use in asked if use.cost is not None]
    return Expected(
        model,
        calls,
        pairs,
        sum(use.input_tokens or 0 for use in asked),
        sum(use.output_tokens or 0 for use in asked),
        sum(costs) if len(costs) == len(asked) else None,
    )


# ---------------------------------------------------------------------- dry runs


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
            result = None
            if isinstance(effect, Score):
                run.scored.append(effect)
                scorer, count = effect.scorer, len(effect.texts)
                name = str(member(scorer, "model_name", None) or type(scorer).__name__)
                run.uses.append(Expected(name, pairs=count))
                result = RawScores([0.0] * count, called=False)
            elif isinstance(effect, Ask):
                result = _answers(effect, ledger, run)
    except StopIteration as stop:
        run.result = stop.value
    except MethodError as error:
        run.error = error
    run.uses = merged(run.uses)
    return run


def _answers(effect: Ask[Any, Any], ledger: SimulatedLedger, run: DryRun) -> list[Answer[Any]]:
    """The simulated answers of one round, ``concurrency`` questions at a time."""
    service, concurrency = effect.service, ledger.limits.concurrency
    prices: Prices | None = getattr(service, "prices", None)
    left, seconds = ledger.question_seconds_left, ledger.seconds_per_call
    late: Answer[Any] = Answer(error=DeadlineError("the deadline would pass before this"))
    answers: list[Answer[Any]] = []
    sent = 0
    for question in effect.questions:
        wave = sent // concurrency
        in_time = left is None or not seconds or (wave + 1) * seconds <= left
        if not (in_time if wave else ledger.has_time_for(service)):
            answers.append(late)
            continue
        estimate = question.estimate
        try:
            ledger.reserve(estimate, prices)
        except BudgetError as error:
            answers.append(Answer(error=error))
            continue
        ledger.charge_estimate(estimate, prices)
        tokens = estimate.input_tokens, estimate.output_tokens
        cost = None if prices is None else prices.of(*tokens)
        run.uses.append(Expected(service.name, 1, question.documents, *tokens, cost))
        run.shortened |= question.shortened
        sent += 1
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
        if left is None or seconds <= left:
            ledger.add_answer(service, seconds)
        took = min(waves([sent], concurrency) * seconds, math.inf if left is None else left)
        ledger.add_question_round(took)
        ledger.elapsed += took
    return answers


def waves(rounds: Sequence[int], concurrency: int) -> int:
    """How many calls wait for each other, if rounds have these numbers of questions."""
    return sum(-(-number // concurrency) for number in rounds)


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


# ---------------------------------------------------------------------- plans


def planned(
    stages: Sequence[Stage], task: Task | None, limits: Limits, seconds_per_call: float | None
) -> tuple[tuple[PlannedStage, ...], tuple[ExceededLimit, ...]]:
    """What a ranking would take, and the limits that this exceeds; nothing without a task."""
    if task is None:
        return (), ()
    method, limited = _first_runnable(stages, limits, seconds_per_call)
    unlimited = replace(limits, deadline=None, calls=None, tokens=None, cost=None)
    free = SimulatedLedger(unlimited, seconds_per_call=seconds_per_call)
    items = [
        planned_stage(trial, limits.concurrency, seconds_per_call)
        for trial in trials(method, task, free)
    ]
    whole = CostPlan(len(task.texts), tuple(items)).total
    exceeded = exceeded_limits(whole, limited.left())
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


def planned_stage(trial: Trial, concurrency: int, seconds_per_call: float | None) -> PlannedStage:
    """What the method of a dry run without limits would take."""
    run, name, count = trial.run, trial.method.name, len(trial.task.texts)
    expected = total(run.uses)
    if run.unanswered:  # what the method asks afterwards is not known
        return PlannedStage(name, count, None, None, expected.pairs, shortened=run.shortened)
    seconds: float | None = None
    if seconds_per_call is not None and run.rounds:
        seconds = waves(run.rounds, concurrency) * seconds_per_call
    return PlannedStage(
        name,
        count,
        expected.calls,
        len(run.rounds),
        expected.pairs,
        expected.input_tokens,
        expected.output_tokens,
        expected.cost,
        seconds,
        run.shortened,
        0 if run.error is None else count,
        "" if run.error is None else str(run.error),
    )


def _left_out(stage: PlannedStage, limited: DryRun) -> int | None:
    """How many candidates the limits leave out; None if that depends on answers."""
    if stage.calls is None:
        return None
    if limited.error is not None:
        return stage.candidates
    judgement: Judgement = limited.result
    return judgement.scores.count(None) - len(judgement.beyond)


def exceeded_limits(needs: PlannedStage, left: Left) -> tuple[ExceededLimit, ...]:
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


def stored_texts(stages: Sequence[Stage], task: Task) -> list[tuple[Any, Sequence[str]]]:
    """Each scorer that stores passages, with the texts that it would score of a task."""
    found: list[tuple[Any, Sequence[str]]] = []
    for method in _each(stage.method for stage in stages):
        run = dry_run(judged_by_windows(method, task), SimulatedLedger(Limits()))
        found += [
            (effect.scorer, effect.texts)
            for effect in run.scored
            if member(effect.scorer, "store", None) is not None
            and callable(member(effect.scorer, "store_passages", None))
        ]
    return found


def _each(methods: Iterable[Method]) -> Iterator[Method]:
    """Methods, and in place of one that runs others those that it runs."""
    for method in methods:
        if parts := getattr(method, "methods", None):
            yield from _each(parts)
        else:
            yield method


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


# ---------------------------------------------------------------------- arguments of plan()

T = TypeVar("T", int, float)

_TOKEN = "abc "  # text of about one token, at four bytes each
ASSUMED_QUERY = _TOKEN * 10
_MAX_CANDIDATES = 100_000


def assumed_passages(count: int, tokens: int) -> list[Candidate]:
    """Candidates of the same length. Raises InputError if the number is out of range."""
    if isinstance(count, bool) or not 0 <= count <= _MAX_CANDIDATES:
        raise InputError(
            f"candidates: give a number from 0 to {_MAX_CANDIDATES:,}, not {describe(count)}"
        )
    return [Candidate(_TOKEN * tokens)] * count


def sampled(
    candidates: int | Iterable[CandidateLike], tokens_per_passage: int
) -> tuple[Iterable[CandidateLike], int | None]:
    """The candidates and None; of a number, as many of this length, and the length."""
    length = positive("tokens_per_passage", tokens_per_passage, int)
    if isinstance(candidates, int):
        return assumed_passages(candidates, length), length
    return candidates, None


def positive(name: str, value: T, kind: type[T]) -> T:
    """The value. Raises InputError if it is not a number above 0."""
    allowed = int if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed) or not 0 < value < math.inf:
        word = "a whole number" if kind is int else "a number"
        raise InputError(f"{name}: give {word} above 0, not {describe(value)}")
    return value
