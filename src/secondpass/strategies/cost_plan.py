"""What a ranking would take: calls, rounds, tokens, cost and time of each stage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Range: TypeAlias = tuple[float, float]
"""A lower and an upper bound; equal where the number is fixed."""


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """What one method would take: the reranker's, or a stage of its cascade.

    Retries, repairs, fallbacks and hits of a cache are not included, and limits are not applied.

    Attributes:
        method: its name, as in reports.
        candidates: number of candidates that it is given.
        calls: the fewest and the most questions to services, 0 for a local model; None if the
            method states no bounds.
        rounds: the fewest and the most rounds of these questions; None if it states no bounds.
        pairs: query-candidate pairs that it scores or asks about if no answer changes the order.
        input_tokens: estimated at four bytes each, in proportion to ``calls``; None for a local
            model.
        output_tokens: the same for replies, without reasoning.
        cost: of these tokens, in the currency of the prices; None without prices.
        seconds: of the questions; None for a local model, or if the seconds per call are not known.
        shortened: whether passages would be cut to fit the model's context window.
        left_out: number of its candidates that would not be judged, because the limits do not allow
            it, or the prompt does not fit; None if that depends on the answers.
        problem: why it would fail without any limit; empty otherwise.
    """

    method: str
    candidates: int
    calls: tuple[int, int] | None = (0, 0)
    rounds: tuple[int, int] | None = (0, 0)
    pairs: int = 0
    input_tokens: Range | None = None
    output_tokens: Range | None = None
    cost: Range | None = None
    seconds: Range | None = None
    shortened: bool = False
    left_out: int | None = 0
    problem: str = ""

    @property
    def asks(self) -> bool:
        """Whether it asks a service anything."""
        return self.input_tokens is not None


@dataclass(frozen=True, slots=True)
class ExceededLimit:
    """A limit that is lower than what a ranking may need.

    Attributes:
        limit: ``calls``, ``tokens``, ``cost`` or ``deadline``.
        allowed: by the limit.
        needed: without it.
    """

    limit: str
    allowed: float
    needed: Range


@dataclass(frozen=True, slots=True)
class CostPlan:
    """What one ranking would take, estimated without calling anything.

    Attributes:
        candidates: number of candidates.
        stages: what each method would take, in the order in which they run.
        exceeded: the limits that would, or might, stop the ranking before its end.
        tokens_per_passage: assumed length of the candidates; None if a sample was passed.
        seconds_per_call: assumed; None if it is not known.
    """

    candidates: int
    stages: tuple[PlannedStage, ...]
    exceeded: tuple[ExceededLimit, ...] = ()
    tokens_per_passage: int | None = None
    seconds_per_call: float | None = None

    @property
    def total(self) -> PlannedStage:
        """The sum over the stages; None where that of a stage is not known."""
        return total(self.stages, self.candidates)

    @property
    def notes(self) -> list[str]:
        """Further remarks, as sentences: limits, context windows."""
        notes = []
        for item in self.exceeded:
            verb = "needs" if item.needed[0] > item.allowed else "may need"
            notes.append(
                f"limits.{item.limit} is {item.allowed:,.6g}, and the ranking {verb} "
                f"{in_words(item.needed)}"
            )
        for stage in self.stages:
            if stage.problem:
                notes.append(f"{stage.method}: {stage.problem}")
            elif stage.left_out:
                notes.append(
                    f"{stage.method} would leave out {stage.left_out:,} of its "
                    f"{stage.candidates:,} candidates"
                )
            if stage.shortened:
                notes.append(f"{stage.method}: passages would be cut to fit the context window")
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as dicts, lists, strings and numbers, ready for JSON."""
        return {
            "candidates": self.candidates,
            "tokens_per_passage": self.tokens_per_passage,
            "seconds_per_call": self.seconds_per_call,
            "stages": [_record(stage) for stage in self.stages],
            "total": _numbers(self.total),
            "exceeded": [
                {"limit": item.limit, "allowed": item.allowed, "needed": [*item.needed]}
                for item in self.exceeded
            ],
            "notes": self.notes,
        }

    def __repr__(self) -> str:
        whole = self.total
        parts = [f"{_count(whole.calls, 'call')} in {_count(whole.rounds, 'round')}"]
        if whole.asks:
            tokens = in_words(whole.input_tokens), in_words(whole.output_tokens)
            parts.append(f"about {tokens[0]} tokens in and {tokens[1]} out")
        if whole.cost is not None:
            parts.append(f"cost about {in_words(whole.cost, 4)}")
        if whole.seconds is not None:
            parts.append(f"{in_words(whole.seconds, 3)} s")
        methods = ", then ".join(stage.method for stage in self.stages)
        about = f"{methods}, {self.candidates:,} candidates: {', '.join(parts)}".lstrip(", ")
        return f"<CostPlan {'; '.join([about, *self.notes])}>"


def total(stages: Sequence[PlannedStage], candidates: int) -> PlannedStage:
    """Add up what stages would take."""
    asking = [stage for stage in stages if stage.asks]
    return PlannedStage(
        "total",
        candidates,
        _whole(_sum(stage.calls for stage in stages)),
        _whole(_sum(stage.rounds for stage in stages)),
        sum(stage.pairs for stage in stages),
        _sum(stage.input_tokens for stage in asking) if asking else None,
        _sum(stage.output_tokens for stage in asking) if asking else None,
        _sum(stage.cost for stage in asking) if asking else None,
        _sum(stage.seconds for stage in asking) if asking else None,
    )


def in_words(bounds: Range | None, digits: int | None = None) -> str:
    """Write a range: ``9``, or ``6 to 31``.

    Args:
        bounds: None is ``?``.
        digits: significant digits; None rounds up to a whole number.
    """
    if bounds is None:
        return "?"
    low, high = (_number(value, digits) for value in bounds)
    return low if low == high else f"{low} to {high}"


def _count(bounds: Range | None, noun: str) -> str:
    return f"{in_words(bounds)} {noun if bounds == (1, 1) else f'{noun}s'}"


def _number(value: float, digits: int | None) -> str:
    return f"{math.ceil(value):,}" if digits is None else f"{value:.{digits}g}"


def _sum(ranges: Iterable[Range | None]) -> Range | None:
    """The sum of ranges; None if one is not known."""
    low = high = 0.0
    for item in ranges:
        if item is None:
            return None
        low, high = low + item[0], high + item[1]
    return low, high


def _whole(bounds: Range | None) -> tuple[int, int] | None:
    return None if bounds is None else (int(bounds[0]), int(bounds[1]))


def _record(stage: PlannedStage) -> dict[str, Any]:
    return {
        "method": stage.method,
        **_numbers(stage),
        "shortened": stage.shortened,
        "left_out": stage.left_out,
        "problem": stage.problem,
    }


def _numbers(stage: PlannedStage) -> dict[str, Any]:
    def listed(bounds: Range | None) -> list[float] | None:
        return None if bounds is None else [*bounds]

    def rounded(bounds: Range | None) -> list[int] | None:
        return None if bounds is None else [math.ceil(value) for value in bounds]

    return {
        "candidates": stage.candidates,
        "calls": listed(stage.calls),
        "rounds": listed(stage.rounds),
        "pairs": stage.pairs,
        "input_tokens": rounded(stage.input_tokens),
        "output_tokens": rounded(stage.output_tokens),
        "cost": listed(stage.cost),
        "seconds": listed(stage.seconds),
    }
