"""What a ranking would take: calls, rounds, tokens and cost of each stage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from secondpass.attributes import unchangeable
from secondpass.settings import counted

N = TypeVar("N", int, float)


@unchangeable
@dataclass(frozen=True, slots=True)
class PlannedStage:
    """What one method would take: the reranker's, or a stage of its cascade.

    The numbers hold if nothing fails and ``when`` skips nothing. Retries, repairs, fallbacks and
    hits of a cache are not included, and limits are not applied.

    Attributes:
        method: its name, as in reports.
        candidates: number of candidates that it is given.
        calls: questions to services, 0 for a local model; an estimate where an API's limit of
            tokens splits requests; None if they depend on the answers
            (:attr:`~secondpass.questions.Question.assumed`).
        rounds: rounds of these questions; None as ``calls``.
        pairs: query-candidate pairs that it scores or asks about; if ``calls`` is None, in the
            questions that do not depend on answers.
        input_tokens: estimated at four bytes each; None for a local model, or if ``calls`` is.
        output_tokens: the same for replies, without reasoning.
        cost: of these tokens, in the currency of the prices; None without prices.
        shortened: whether passages would be cut to fit the model's context window.
        left_out: number of its candidates that would not be judged, because the limits do not allow
            it, or the prompt does not fit; None if that depends on the answers.
        problem: why it would fail without any limit; empty otherwise.
    """

    method: str
    candidates: int
    calls: int | None = 0
    rounds: int | None = 0
    pairs: int = 0
    input_tokens: float | None = None
    output_tokens: float | None = None
    cost: float | None = None
    shortened: bool = False
    left_out: int | None = 0
    problem: str = ""

    @property
    def asks(self) -> bool:
        """Whether it asks a service anything."""
        return self.calls != 0


@unchangeable
@dataclass(frozen=True, slots=True)
class ExceededLimit:
    """A limit that is lower than what a ranking needs.

    Attributes:
        limit: ``calls``, ``tokens`` or ``cost``.
        allowed: by the limit.
        needed: without it.
    """

    limit: str
    allowed: float
    needed: float


@unchangeable
@dataclass(frozen=True, slots=True)
class CostPlan:
    """What one ranking would take, estimated without calling anything.

    Attributes:
        candidates: number of candidates.
        stages: what each method would take, in the order in which they run.
        exceeded: the limits that would stop the ranking before its end.
        tokens_per_passage: assumed length of the candidates; None if a sample was passed.
    """

    candidates: int
    stages: tuple[PlannedStage, ...]
    exceeded: tuple[ExceededLimit, ...] = ()
    tokens_per_passage: int | None = None

    @property
    def total(self) -> PlannedStage:
        """The sum over the stages; None where that of a stage is not known."""
        stages = self.stages
        asking = [stage for stage in stages if stage.asks]
        total = PlannedStage(
            "total",
            self.candidates,
            calls=_sum([stage.calls for stage in stages]),
            rounds=_sum([stage.rounds for stage in stages]),
            pairs=sum(stage.pairs for stage in stages),
        )
        if not asking:
            return total
        return replace(
            total,
            input_tokens=_sum([stage.input_tokens for stage in asking]),
            output_tokens=_sum([stage.output_tokens for stage in asking]),
            cost=_sum([stage.cost for stage in asking]),
        )

    @property
    def notes(self) -> list[str]:
        """Further remarks, as sentences: limits, context windows."""
        notes = []
        for item in self.exceeded:
            notes.append(
                f"limits.{item.limit} is {item.allowed:,.6g}, and the ranking needs "
                f"{in_words(item.needed)}"
            )
        for stage in self.stages:
            if stage.problem:
                notes.append(f"{stage.method}: {stage.problem}")
            elif stage.left_out:
                notes.append(
                    f"{stage.method} would leave out {stage.left_out:,} of its "
                    f"{counted(stage.candidates, 'candidate')}"
                )
            if stage.shortened:
                notes.append(f"{stage.method}: passages would be cut to fit the context window")
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as dicts, lists, strings and numbers, ready for JSON."""
        total = _record(self.total)
        for name in ("method", "shortened", "left_out", "problem"):
            del total[name]
        return {
            "candidates": self.candidates,
            "tokens_per_passage": self.tokens_per_passage,
            "stages": [_record(stage) for stage in self.stages],
            "total": total,
            "exceeded": [asdict(item) for item in self.exceeded],
            "notes": self.notes,
        }

    def __repr__(self) -> str:
        whole = self.total
        parts = [f"{_count(whole.calls, 'call')} in {_count(whole.rounds, 'round')}"]
        if whole.asks:
            tokens_in, tokens_out = in_words(whole.input_tokens), in_words(whole.output_tokens)
            parts.append(f"about {tokens_in} tokens in and {tokens_out} out")
        if whole.cost is not None:
            parts.append(f"cost about {in_words(whole.cost, 4)}")
        about = counted(self.candidates, "candidate")
        if self.stages:
            about = f"{', then '.join(stage.method for stage in self.stages)}, {about}"
        sentences = [f"{about}: {', '.join(parts)}", *self.notes]
        return f"<CostPlan {'; '.join(sentences)}>"


def in_words(number: float | None, digits: int | None = None) -> str:
    """Write a number, ``?`` for None: with so many significant digits, or rounded up."""
    if number is None:
        return "?"
    return f"{math.ceil(number):,}" if digits is None else f"{number:.{digits}g}"


def _count(number: int | None, noun: str) -> str:
    return f"{in_words(number)} {noun if number == 1 else f'{noun}s'}"


def _sum(numbers: Sequence[N | None]) -> N | None:
    """The sum; None if one of the numbers is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _record(stage: PlannedStage) -> dict[str, Any]:
    record = asdict(stage)
    if stage.input_tokens is not None:
        record["input_tokens"] = math.ceil(stage.input_tokens)
    if stage.output_tokens is not None:
        record["output_tokens"] = math.ceil(stage.output_tokens)
    return record
