"""Carries out the effects of ranking passes, one or many, synchronously or not.

The logic is written once, as a generator of *jobs*: plain callables that may block. The synchronous
driver calls each job in place; the asynchronous one calls it in a worker thread, so that the event
loop goes on. Everything else (deadlines, merging of many passes, faults, the ledger) is shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from secondpass.effects import Plan, RawScores, Score, Scorer
from secondpass.errors import (
    ConfigurationError,
    DeadlineError,
    MethodError,
    MissingExtraError,
)
from secondpass.scoring import to_list
from secondpass.types import Usage

T = TypeVar("T")
Job: TypeAlias = Callable[[], Any]

_SLICE = 32
"""Documents a call when a deadline is set and the scorer names no ``batch_size``."""


@dataclass(slots=True)
class Ledger:
    """What one pass has cost so far, and how long it may go on.

    Attributes:
        deadline: seconds from the start; None for no end.
    """

    deadline: float | None = None
    started: float = field(default_factory=time.perf_counter)
    calls: int = 0
    rounds: int = 0
    pairs: int = 0

    @property
    def seconds(self) -> float:
        """Wall-clock seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and self.seconds >= self.deadline

    def usage(self) -> Usage:
        """The ledger as a record."""
        return Usage(calls=self.calls, rounds=self.rounds, pairs=self.pairs)


@dataclass(slots=True)
class Pass(Generic[T]):
    """A plan under way, with its ledger."""

    plan: Plan[T]
    ledger: Ledger


def run(passes: Sequence[Pass[T]]) -> list[T]:
    """Run passes side by side, each job in this thread."""
    jobs = _jobs(passes)
    outcome: Any = None
    while True:
        try:
            job = jobs.send(outcome)
        except StopIteration as stop:
            results: list[T] = stop.value
            return results
        outcome = _attempt(job)


async def arun(passes: Sequence[Pass[T]]) -> list[T]:
    """Run passes side by side, each job in a worker thread. Cancellation passes at once."""
    import asyncio  # costs more to import than the rest of secondpass together

    jobs = _jobs(passes)
    outcome: Any = None
    while True:
        try:
            job = jobs.send(outcome)
        except StopIteration as stop:
            results: list[T] = stop.value
            return results
        outcome = await asyncio.to_thread(_attempt, job)


def _attempt(job: Job) -> Any:
    """A job's result, or the fault that it met as a value."""
    try:
        return job()
    except (MethodError, MissingExtraError, ConfigurationError) as error:
        if isinstance(error, MethodError):
            return error
        return MethodError(str(error), getattr(error, "code", "configuration"))
    except Exception as error:
        # A foreign message may quote a passage or a key, so only its kind is told.
        return MethodError(f"the scorer raised {type(error).__name__}", "scorer_raised")


def _jobs(passes: Sequence[Pass[T]]) -> Generator[Job, Any, list[T]]:
    """Advance every plan to its next effect, carry out all of those, and so on to the end."""
    results: dict[int, T] = {}
    waiting: dict[int, Score] = {}

    def advance(number: int, result: RawScores | None) -> None:
        plan = passes[number].plan
        try:
            waiting[number] = next(plan) if result is None else plan.send(result)
        except StopIteration as stop:
            results[number] = stop.value

    for number in range(len(passes)):
        advance(number, None)
    while waiting:
        effects, waiting = waiting, {}
        by_scorer: dict[int, list[int]] = {}
        for number, effect in effects.items():
            by_scorer.setdefault(id(effect.scorer), []).append(number)
        for numbers in by_scorer.values():
            raw = yield from _score(
                effects[numbers[0]].scorer,
                [_Scoring(effects[number], passes[number].ledger) for number in numbers],
            )
            for number, result in zip(numbers, raw, strict=True):
                advance(number, result)
    return [results[number] for number in range(len(passes))]


@dataclass(slots=True)
class _Scoring:
    """A Score effect being carried out."""

    effect: Score
    ledger: Ledger
    raw: RawScores = field(default_factory=lambda: RawScores([]))


@dataclass(slots=True)
class _Piece:
    """A stretch of the texts of one effect: what one call holds of it."""

    scoring: _Scoring
    start: int
    stop: int

    def request(self) -> tuple[str, list[str]]:
        effect = self.scoring.effect
        return effect.query, list(effect.texts[self.start : self.stop])

    def fail(self, error: MethodError) -> None:
        raw = self.scoring.raw
        raw.values.extend([None] * (self.stop - self.start))
        raw.failures.append((self.start, self.stop, error))


def _score(scorer: Scorer, scorings: list[_Scoring]) -> Generator[Job, Any, list[RawScores]]:
    """Score the texts of several passes with one scorer, in as few calls as the deadline allows."""
    for scoring in scorings:
        scoring.ledger.rounds += 1
    for pieces in _calls(scorer, scorings):
        live = []
        for piece in pieces:
            if piece.scoring.ledger.expired:
                piece.fail(DeadlineError("the deadline passed before these were scored"))
            else:
                live.append(piece)
        if len(live) > 1:
            outcome = yield _ask_many(scorer, live)
            if not isinstance(outcome, MethodError):
                _book(live, outcome)
                continue
            # One request may have broken it for all, so each is tried by itself.
        for piece in live:
            outcome = yield _ask_one(scorer, piece)
            _book([piece], [outcome])
    return [scoring.raw for scoring in scorings]


def _calls(scorer: Scorer, scorings: list[_Scoring]) -> list[list[_Piece]]:
    """What each call holds.

    Without a deadline a call holds all texts of a pass, or of all passes where the scorer can take
    many. With one, and a pointwise scorer, it holds as many texts as can be waited for.
    """
    most = None
    if getattr(scorer, "pointwise", True) and any(
        scoring.ledger.deadline is not None for scoring in scorings
    ):
        most = getattr(scorer, "batch_size", None) or _SLICE
    together = len(scorings) > 1 and callable(getattr(scorer, "score_many", None))
    calls: list[list[_Piece]] = []
    room = 0
    for scoring in scorings:
        count = len(scoring.effect.texts)
        step = most or count
        for start in range(0, count, step):
            piece = _Piece(scoring, start, min(start + step, count))
            size = piece.stop - piece.start
            if together and calls and (most is None or size <= room):
                calls[-1].append(piece)
                room -= size
            else:
                calls.append([piece])
                room = (most or 0) - size
    return calls


def _ask_one(scorer: Scorer, piece: _Piece) -> Job:
    query, documents = piece.request()
    return lambda: to_list(scorer.score_pairs(query, documents), len(documents))


def _ask_many(scorer: Any, pieces: list[_Piece]) -> Job:
    requests = [piece.request() for piece in pieces]

    def job() -> list[list[Any]]:
        answers = to_list(scorer.score_many(requests), len(requests))
        return [
            to_list(answer, len(documents))
            for answer, (_, documents) in zip(answers, requests, strict=True)
        ]

    return job


def _book(pieces: list[_Piece], outcomes: Sequence[list[Any] | MethodError]) -> None:
    """Enter the outcome of one call into the ledgers and results of its passes."""
    for piece, outcome in zip(pieces, outcomes, strict=True):
        ledger = piece.scoring.ledger
        ledger.calls += 1
        ledger.pairs += piece.stop - piece.start
        if isinstance(outcome, MethodError):
            piece.fail(outcome)
        else:
            piece.scoring.raw.values.extend(outcome)
