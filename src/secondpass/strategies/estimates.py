"""Estimates what methods would take, by dry runs and bounds, and compares it with the limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from secondpass.effects import Method, Task
from secondpass.limits import Left, Limits
from secondpass.prompts.counting import counted
from secondpass.runtime.dry_run import DryRun, SimulatedLedger, dry_run, total
from secondpass.strategies.base import Bounds, bounds_of
from secondpass.strategies.cost_plan import ExceededLimit, PlannedStage, Range
from secondpass.strategies.windows import count_texts, judged_by_windows


@dataclass(frozen=True, slots=True)
class Trial:
    """A dry run of a method on a task."""

    method: Method
    task: Task
    run: DryRun

    @property
    def optional(self) -> bool:
        """Whether it is possible that the method is not run, as it states by ``optional``."""
        return getattr(self.method, "optional", False)


def trials(method: Method, task: Task, ledger: SimulatedLedger) -> Iterator[Trial]:
    """Dry runs of the methods that a method runs successively, or of the method itself.

    A method that runs others has a member ``parts``, which returns these with their tasks. An
    optional method is not charged to the ledger.
    """
    task = counted(task)
    parts = getattr(method, "parts", None)
    if parts is None:
        if getattr(method, "optional", False):
            ledger = SimulatedLedger(Limits(concurrency=ledger.limits.concurrency))
        yield Trial(method, task, dry_run(judged_by_windows(method, task), ledger))
        return
    inner = parts(task)
    required = [not getattr(item, "optional", False) for item, _ in inner]
    for number, (item, part) in enumerate(inner, 1):
        last = not any(required[number:])
        before = ledger.keep_time(last)
        yield from trials(item, part, ledger)
        ledger.keep_time(last, before)


def planned_stage(trial: Trial, concurrency: int, seconds_per_call: float | None) -> PlannedStage:
    """What the method of a dry run without limits would take."""
    run, count = trial.run, len(trial.task.texts)
    asked = sum(run.rounds)
    expected = total(run.uses)
    bounds = bounds_of(trial.method, count_texts(trial.method, trial.task))
    if bounds is not None and asked > bounds.calls[1]:
        # Bounds depend only on the number of texts, but batches may be split by their tokens.
        bounds = replace(bounds, calls=(asked if bounds.exact else bounds.calls[0], asked))
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
        0 if trial.optional else expected.pairs,
        scaled(expected.input_tokens),
        scaled(expected.output_tokens),
        scaled(expected.cost),
        seconds,
        run.shortened,
        count if problem else 0,
        problem,
    )


def waves_of(bounds: Bounds | None, rounds: Sequence[int], concurrency: int) -> tuple[int, int]:
    """The fewest and the most calls that wait for each other.

    A round of more than ``concurrency`` questions takes several waves.

    Args:
        bounds: of the questions; None if they are not known.
        rounds: number of questions in each round of a dry run.
        concurrency: maximum number of concurrent questions.
    """
    if bounds is None or bounds.exact:
        waves = sum(-(-number // concurrency) for number in rounds)
        return waves, waves
    fewest = max(bounds.rounds[0], -(-bounds.calls[0] // concurrency))
    return fewest, most_waves(bounds, concurrency)


def most_waves(bounds: Bounds, concurrency: int) -> int:
    """An upper bound of :func:`waves_of` for any rounds within the bounds."""
    calls, rounds = bounds.calls[1], bounds.rounds[1]
    # A round of q questions takes ceil(q / c) <= 1 + (q - 1) / c waves.
    return rounds + (calls - rounds) // concurrency


def exceeded_limits(needs: PlannedStage, left: Left) -> tuple[ExceededLimit, ...]:
    """The limits that leave less than may be needed."""
    tokens: Range | None = None
    if needs.input_tokens is not None and needs.output_tokens is not None:
        low, high = zip(needs.input_tokens, needs.output_tokens, strict=True)
        tokens = sum(low), sum(high)
    rows: Iterable[tuple[str, float | None, Range | None]] = (
        ("calls", left.calls, needs.calls),
        ("tokens", left.tokens, tokens),
        ("cost", left.cost, needs.cost),
        ("deadline", left.seconds, needs.seconds),
    )
    return tuple(
        ExceededLimit(name, allowed, needed)
        for name, allowed, needed in rows
        if allowed is not None and needed is not None and needed[1] > allowed
    )
