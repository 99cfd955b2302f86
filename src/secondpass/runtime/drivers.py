"""Carries out the effects of ranking passes, one or many, synchronously or not.

The logic is written once, as a generator that yields what it needs done. Scoring it needs done as a
*job*, a plain callable that may block: the synchronous driver calls it in place, the asynchronous
one in a thread. Questions to language models it has *started*, goes on with whatever else
can be done, and then *waits* for the first of them: the synchronous driver starts them in the
portal's loop, the asynchronous one in its own. Everything else (deadlines, merging of many passes,
faults, the ledger) is shared.

A job whose ranking has a deadline is waited for no longer than that: in a thread of its own when
synchronous. What is given up on runs to its end there, and its answer is not used. Neither the end
of an event loop nor the end of the process waits for such a thread.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from secondpass.effects import (
    Answer,
    Ask,
    Effect,
    Plan,
    Raised,
    RawScores,
    RoundsLeft,
    Score,
    Scorer,
)
from secondpass.errors import DeadlineError, MethodError, MissingExtraError, NestedCallError
from secondpass.runtime.gate import Gate
from secondpass.runtime.ledger import Ledger
from secondpass.scoring import to_list

T = TypeVar("T")
Outcome: TypeAlias = Any
"""What a job returned, or a MethodError; the answers that a wait brought; None for a start."""

_GRACE = 0.1
"""Seconds after its deadline that questions have to give up by themselves. They do, unless
something blocks their event loop."""

_EXITS = (KeyboardInterrupt, SystemExit)
_THREADS = Gate(min(32, (os.cpu_count() or 1) + 4))
"""Jobs that are waited for at once in an event loop. A job that was given up on does not count."""


@dataclass(slots=True)
class Pass(Generic[T]):
    """A plan under way, with its ledger and the gate that its questions go through."""

    plan: Plan[T]
    ledger: Ledger
    gate: Gate


@dataclass(frozen=True, slots=True)
class _Start:
    """Begin to ask for the pass of this number."""

    number: int
    effect: Ask[Any, Any]
    ledger: Ledger
    gate: Gate

    def failed(self, error: MethodError) -> list[Answer[Any]]:
        return [Answer(error=error)] * len(self.effect.questions)


@dataclass(frozen=True, slots=True)
class _Wait:
    """Wait until something that was started is done.

    Its outcome is a list of (number of the pass, answers).
    """


@dataclass(frozen=True, slots=True)
class _Job:
    """Something that may block, and the ledgers that it works for."""

    call: Callable[[], Any]
    ledgers: Sequence[Ledger]

    @property
    def left(self) -> float | None:
        """Seconds until nobody waits for it any more; None if somebody always will."""
        times = [ledger.left for ledger in self.ledgers]
        return None if None in times else max(time for time in times if time is not None)

    def run(self, passing: tuple[type[BaseException], ...] = _EXITS) -> Outcome:
        """Its result, or what it raised as a MethodError, unless that is one of ``passing``."""
        if self.left == 0:  # it may have waited for a free thread
            return _over()
        try:
            return self.call()
        except passing:
            raise
        except MethodError as error:
            return error
        except MissingExtraError as error:
            return MethodError(str(error), error.code)
        except BaseException as error:  # a CancelledError, too, of an event loop of its own
            for ledger in self.ledgers:
                ledger.record_exception(error, "the scorer")
            # Its message may quote a passage or a key, so the report names only its class.
            return MethodError(f"the scorer raised {type(error).__name__}", "scorer_raised")


def run(passes: Sequence[Pass[T]]) -> list[T]:
    """Run passes side by side, each job in this thread unless a deadline runs."""
    work = _work(passes)
    started: dict[Any, _Start] = {}
    outcome: Outcome = None
    try:
        while True:
            try:
                command = work.send(outcome)
            except StopIteration as stop:
                results: list[T] = stop.value
                return results
            if isinstance(command, _Job):
                left = command.left
                outcome = command.run() if left is None else _within(command, left)
            elif isinstance(command, _Start):
                from secondpass.concurrency.portal import portal
                from secondpass.runtime.dispatch import ask

                if portal().is_here:
                    told = "rerank was called by a model's own asynchronous function"
                    raise NestedCallError(f"{told}, which it would block; await arerank there")
                asking = ask(command.effect, command.ledger, command.gate)
                started[portal().submit(asking)] = command
                outcome = None
            else:
                from concurrent.futures import FIRST_COMPLETED, wait

                done, _ = wait(started, _patience(started.values()), FIRST_COMPLETED)
                outcome = _collected(started, done)
    finally:
        for future in started:
            future.cancel()


async def arun(passes: Sequence[Pass[T]]) -> list[T]:
    """Run passes side by side, each job in a thread. Cancellation passes at once."""
    import asyncio  # costs more to import than the rest of secondpass together

    from secondpass.concurrency.threads import retrieve_exception, with_timeout

    work = _work(passes)
    started: dict[Any, _Start] = {}
    outcome: Outcome = None
    try:
        while True:
            try:
                command = work.send(outcome)
            except StopIteration as stop:
                results: list[T] = stop.value
                return results
            if isinstance(command, _Job):
                left = command.left
                call = _scored(command)
                try:
                    outcome = await (call if left is None else with_timeout(call, left))
                except TimeoutError:
                    outcome = _over()
            elif isinstance(command, _Start):
                from secondpass.runtime.dispatch import ask

                asking = ask(command.effect, command.ledger, command.gate)
                task = asyncio.ensure_future(asking)
                task.add_done_callback(retrieve_exception)
                started[task] = command
                outcome = None
            else:
                done, _ = await asyncio.wait(
                    started,
                    timeout=_patience(started.values()),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                outcome = _collected(started, done)
    finally:
        for future in started:
            future.cancel()


def _patience(started: Collection[_Start]) -> float | None:
    """Seconds after which the first of these ought to have given up by itself."""
    times = [start.ledger.left for start in started if not start.ledger.waiting]
    known = [time for time in times if time is not None]
    return min(min(known) + _GRACE, threading.TIMEOUT_MAX) if known else None


def _collected(started: dict[Any, _Start], done: Collection[Any]) -> list[tuple[int, list[Any]]]:
    """Take out of ``started`` what is done, and what is overdue."""
    outcome: list[tuple[int, list[Any]]] = []
    for future in done:
        start = started.pop(future)
        try:
            outcome.append((start.number, future.result()))
        except NestedCallError:
            raise
        except Exception as error:
            told = f"asking raised {type(error).__name__}"
            outcome.append((start.number, start.failed(MethodError(told, "llm_raised"))))
    if not done:
        for future, start in list(started.items()):
            if start.ledger.left == 0 and not start.ledger.waiting:
                future.cancel()
                del started[future]
                outcome.append((start.number, start.failed(_over())))
    return outcome


async def _scored(job: _Job) -> Outcome:
    """The outcome of a job in a thread, which is left behind if this is cancelled."""
    from secondpass.concurrency.threads import in_thread

    async with _THREADS.here():
        # Raised in a task, an exit would end the loop for everybody.
        return await in_thread(lambda: job.run(passing=()))


def _within(job: _Job, seconds: float) -> Outcome:
    """The outcome of a job, or a DeadlineError if it takes longer."""
    outcome: list[Outcome] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(job.run())
        except BaseException as error:
            raised.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,), name="secondpass", daemon=True)
    thread.start()
    thread.join(min(seconds, threading.TIMEOUT_MAX))
    if raised:
        raise raised[0]
    return outcome[0] if outcome else _over()


def _over() -> DeadlineError:
    return DeadlineError("the deadline passed before these were scored")


_Command: TypeAlias = _Job | _Start | _Wait


def _work(passes: Sequence[Pass[T]]) -> Generator[_Command, Outcome, list[T]]:
    """Advance every plan to its next effect, carry out all of those, and so on to the end."""
    results: dict[int, T] = {}
    scoring: dict[int, Score] = {}
    asking: dict[int, Ask[Any, Any]] = {}
    under_way = 0

    def advance(number: int, result: Any) -> None:
        plan, ledger = passes[number].plan, passes[number].ledger
        try:
            effect: Effect = next(plan) if result is None else plan.send(result)
            while not isinstance(effect, Score | Ask):
                if isinstance(effect, RoundsLeft):
                    effect = plan.send(ledger.rounds_left())
                elif isinstance(effect, Raised):
                    ledger.record_exception(effect.error, effect.source)
                    effect = next(plan)
                else:
                    told = f"the method yielded a {type(effect).__name__}, which is no effect"
                    effect = plan.throw(MethodError(told, "unknown_effect"))
        except StopIteration as stop:
            results[number] = stop.value
        else:
            if isinstance(effect, Score):
                scoring[number] = effect
            else:
                asking[number] = effect

    for number, one in enumerate(passes):
        one.ledger.waiting = len(passes) > 1
        advance(number, None)
    while scoring or asking or under_way:
        while asking:
            number = min(asking)
            one = passes[number]
            yield _Start(number, asking.pop(number), one.ledger, one.gate)
            under_way += 1
        if not scoring:
            answered = yield _Wait()
            under_way -= len(answered)
            for number, answers in answered:
                advance(number, answers)
            continue
        effects, scoring = scoring, {}
        groups: dict[tuple[str, int], list[int]] = {}
        for number, effect in effects.items():
            merges = callable(getattr(effect.scorer, "score_many", None))
            # A pass that shares no call goes on as soon as its own is done.
            key = ("scorer", id(effect.scorer)) if merges else ("pass", number)
            groups.setdefault(key, []).append(number)
        for numbers in groups.values():
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

    def count_call(self) -> None:
        ledger = self.scoring.ledger
        ledger.calls += 1
        ledger.pairs += self.stop - self.start

    def book(self, outcome: list[Any] | MethodError) -> None:
        raw = self.scoring.raw
        if isinstance(outcome, MethodError):
            raw.values.extend([None] * (self.stop - self.start))
            raw.failures.append((self.start, self.stop, outcome))
        else:
            raw.values.extend(outcome)


def _score(scorer: Scorer, scorings: list[_Scoring]) -> Generator[_Job, Outcome, list[RawScores]]:
    """Score the texts of several passes with one scorer, in as few calls as deadlines allow."""
    for scoring in scorings:
        scoring.ledger.rounds += 1
    for pieces in _calls(scorings):
        live = []
        for piece in pieces:
            piece.scoring.ledger.begin()
            if piece.scoring.ledger.left == 0:
                piece.book(_over())
            else:
                live.append(piece)
        if len(live) > 1:
            answers = yield _ask_many(scorer, live)
            for piece in live:
                piece.count_call()
            if not isinstance(answers, MethodError):
                for piece, answer in zip(live, answers, strict=True):
                    piece.book(answer)
                continue
            # One request may have broken it for all, so each is tried by itself.
            told = MethodError(f"scoring several queries at once failed: {answers}", "batch_failed")
            for piece in live:
                piece.scoring.raw.troubles.append(told)
        for piece in live:
            answer = yield _ask_one(scorer, piece)
            piece.count_call()
            piece.book(answer)
    return [scoring.raw for scoring in scorings]


def _calls(scorings: list[_Scoring]) -> list[list[_Piece]]:
    """What each call holds: all texts; while a deadline runs, no more than the effect allows."""
    timed = any(scoring.ledger.limits.deadline is not None for scoring in scorings)
    most = scorings[0].effect.at_most if timed else None
    calls: list[list[_Piece]] = []
    room = 0
    for scoring in scorings:
        count = len(scoring.effect.texts)
        step = most or count
        for start in range(0, count, step):
            piece = _Piece(scoring, start, min(start + step, count))
            size = piece.stop - piece.start
            if len(scorings) > 1 and calls and (most is None or size <= room):
                calls[-1].append(piece)
                room -= size
            else:
                calls.append([piece])
                room = (most or 0) - size
    return calls


def _ask_one(scorer: Scorer, piece: _Piece) -> _Job:
    query, documents = piece.request()
    return _Job(
        lambda: to_list(scorer.score_pairs(query, documents), len(documents)),
        [piece.scoring.ledger],
    )


def _ask_many(scorer: Any, pieces: list[_Piece]) -> _Job:
    requests = [piece.request() for piece in pieces]

    def call() -> list[list[Any]]:
        answers = to_list(scorer.score_many(requests), len(requests))
        return [
            to_list(answer, len(documents))
            for answer, (_, documents) in zip(answers, requests, strict=True)
        ]

    return _Job(call, [piece.scoring.ledger for piece in pieces])
