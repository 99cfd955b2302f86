"""Estimates of what methods would take: dry runs and bounds, against what limits leave."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from secondpass.effects import LLM, Method, Task
from secondpass.limits import Left, Limits
from secondpass.prompts.fencing import as_text
from secondpass.prompts.template import Prompting
from secondpass.prompts.truncation import estimate_tokens
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
        """Whether the method may be asked nothing, as it states by ``optional``."""
        return getattr(self.method, "optional", False)


def trials(method: Method, task: Task, ledger: SimulatedLedger) -> Iterator[Trial]:
    """Dry runs of the methods that a method runs one after the other, or of the method itself.

    Those that run others have a member ``parts``, which returns these with their tasks. What is
    optional takes nothing from the ledger.
    """
    parts = getattr(method, "parts", None)
    if parts is None:
        if getattr(method, "optional", False):
            ledger = SimulatedLedger(Limits(concurrency=ledger.limits.concurrency))
        yield Trial(method, task, dry_run(judged_by_windows(method, task), ledger))
        return
    inner = parts(task, ledger.left())
    asked = [not getattr(each, "optional", False) for each, _ in inner]
    for number, (each, part) in enumerate(inner, 1):
        last = not any(asked[number:])
        before = ledger.keep_time(last)
        yield from trials(each, part, ledger)
        ledger.keep_time(last, before)


def planned_stage(trial: Trial, concurrency: int, seconds_per_call: float | None) -> PlannedStage:
    """What the method of a dry run without limits would take."""
    run, count = trial.run, len(trial.task.texts)
    asked = sum(run.rounds)
    expected = total(run.uses)
    bounds = bounds_of(trial.method, count_texts(trial.method, trial.task))
    if bounds is not None and asked > bounds.calls[1]:
        # Bounds know the number of texts only; batches may have to be split by their tokens.
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
    fewest = max(bounds.rounds[0], -(-bounds.calls[0] // concurrency))
    return fewest, most_waves(bounds, concurrency)


def most_waves(bounds: Bounds, concurrency: int) -> int:
    """An upper bound of :func:`waves_of` for any rounds within the bounds."""
    calls, rounds = bounds.calls[1], bounds.rounds[1]
    # A round of q questions takes ceil(q / c) <= 1 + (q - 1) / c of it.
    return rounds + (calls - rounds) // concurrency


def exceeded_limits(needs: PlannedStage, left: Left) -> tuple[ExceededLimit, ...]:
    """The limits that leave less than what may be needed."""
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


def most_readable(texts: Sequence[str], llm: LLM, prompting: Prompting, left: Left) -> int:
    """How many texts, from the first, tokens and cost allow to be shown once, at most.

    Args:
        texts: as they are rendered.
        llm: that is asked. If it states its ``context_window``, that is all: they may be cut.
        prompting: which may cut them, too.
        left: what the limits leave.
    """
    if left.tokens is left.cost is None or getattr(llm, "context_window", None) is not None:
        return len(texts)
    prices = getattr(llm, "prices", None)
    longest = math.inf if prompting.passage_tokens is None else prompting.passage_tokens
    tokens = 0.0
    for index, text in enumerate(texts):
        shown = as_text(text[: prompting.passage_characters])
        tokens += min(estimate_tokens(shown), longest)
        cost = None if prices is None else prices.of(tokens, 0)
        if left.tokens is not None and tokens > left.tokens:
            return index
        if left.cost is not None and cost is not None and cost > left.cost:
            return index
    return len(texts)
