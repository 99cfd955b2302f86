"""Carries out the commands of the scheduler, synchronously or in an event loop.

The synchronous driver calls scorers in the calling thread, or in a thread of their own while a
deadline runs, and asks questions in the portal's event loop. The asynchronous one calls scorers in
threads and asks questions in its own loop. A scorer call that misses its deadline is left behind:
it runs to its end in its thread, its result is dropped, and neither the event loop nor the process
waits for it.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from secondpass.errors import MethodError, MissingExtraError, NestedCallError
from secondpass.runtime.gate import Gate
from secondpass.runtime.scheduler import (
    CallScorer,
    Pass,
    StartQuestions,
    schedule,
    scoring_deadline_error,
)
from secondpass.scoring import to_list

T = TypeVar("T")

_GRACE = 0.1
"""Seconds that questions get after their deadline to end themselves, as they do unless something
blocks their event loop."""

_EXITS = (KeyboardInterrupt, SystemExit)
_SCORER_GATE = Gate(min(32, (os.cpu_count() or 1) + 4))
"""Scorer calls that an event loop waits for at once. Calls left behind do not count."""


def run(passes: Sequence[Pass[T]]) -> list[T]:
    """Run passes side by side and return their results in the same order."""
    work = schedule(passes)
    started: dict[Any, StartQuestions] = {}
    outcome: Any = None
    try:
        while True:
            try:
                command = work.send(outcome)
            except StopIteration as stop:
                results: list[T] = stop.value
                return results
            if isinstance(command, CallScorer):
                seconds = command.seconds_left
                outcome = _score(command) if seconds is None else _score_within(command, seconds)
            elif isinstance(command, StartQuestions):
                from secondpass.concurrency.portal import portal
                from secondpass.runtime.dispatch import ask

                if portal().is_here:
                    raise NestedCallError(
                        "rerank was called by a model's own asynchronous function, which it would "
                        "block; await arerank there"
                    )
                asking = ask(command.effect, command.ledger, command.gate)
                started[portal().submit(asking)] = command
                outcome = None
            else:
                from concurrent.futures import FIRST_COMPLETED, wait

                done, _ = wait(started, _wait_seconds(started.values()), FIRST_COMPLETED)
                outcome = _take_answers(started, done)
    finally:
        for future in started:
            future.cancel()


async def arun(passes: Sequence[Pass[T]]) -> list[T]:
    """Run passes side by side and return their results in the same order.

    Cancellation takes effect at once.
    """
    import asyncio  # costs more to import than the rest of secondpass together

    from secondpass.concurrency.threads import retrieve_exception, with_timeout

    work = schedule(passes)
    started: dict[Any, StartQuestions] = {}
    outcome: Any = None
    try:
        while True:
            try:
                command = work.send(outcome)
            except StopIteration as stop:
                results: list[T] = stop.value
                return results
            if isinstance(command, CallScorer):
                seconds = command.seconds_left
                call = _score_in_thread(command)
                try:
                    outcome = await (call if seconds is None else with_timeout(call, seconds))
                except TimeoutError:
                    outcome = scoring_deadline_error()
            elif isinstance(command, StartQuestions):
                from secondpass.runtime.dispatch import ask

                asking = ask(command.effect, command.ledger, command.gate)
                task = asyncio.ensure_future(asking)
                task.add_done_callback(retrieve_exception)
                started[task] = command
                outcome = None
            else:
                done, _ = await asyncio.wait(
                    started,
                    timeout=_wait_seconds(started.values()),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                outcome = _take_answers(started, done)
    finally:
        for future in started:
            future.cancel()


# ---------------------------------------------------------------------- questions


def _wait_seconds(started: Collection[StartQuestions]) -> float | None:
    """Seconds until the first of these is overdue; None if none has a running deadline."""
    ledgers = [command.ledger for command in started if not command.ledger.waiting]
    left = [seconds for ledger in ledgers if (seconds := ledger.seconds_left) is not None]
    return min(min(left) + _GRACE, threading.TIMEOUT_MAX) if left else None


def _take_answers(
    started: dict[Any, StartQuestions], done: Collection[Any]
) -> list[tuple[int, list[Any]]]:
    """Remove what is done from ``started``, or what is overdue if nothing is done."""
    answered: list[tuple[int, list[Any]]] = []
    for future in done:
        command = started.pop(future)
        try:
            answers = future.result()
        except NestedCallError:
            raise
        except Exception as error:
            message = f"asking raised {type(error).__name__}"
            answers = command.failed(MethodError(message, "llm_raised"))
        answered.append((command.number, answers))
    if not done:
        for future, command in list(started.items()):
            if command.ledger.seconds_left == 0 and not command.ledger.waiting:
                future.cancel()
                del started[future]
                answered.append((command.number, command.failed(scoring_deadline_error())))
    return answered


# ---------------------------------------------------------------------- scorers


def _score(
    call: CallScorer, reraised: tuple[type[BaseException], ...] = _EXITS
) -> list[list[Any]] | MethodError:
    """The scores of each request, or what the scorer raised as a MethodError."""
    if call.seconds_left == 0:  # it may have waited for a free thread
        return scoring_deadline_error()
    # Counted before the call, because the scorer may change the lists.
    counts = [len(documents) for _, documents in call.requests]
    try:
        if len(call.requests) == 1:
            ((query, documents),) = call.requests
            return [to_list(call.scorer.score_pairs(query, documents), counts[0])]
        results = to_list(call.scorer.score_many(call.requests), len(counts))
        return [to_list(scores, count) for scores, count in zip(results, counts, strict=True)]
    except reraised:
        raise
    except MethodError as error:
        return error
    except MissingExtraError as error:
        return MethodError(str(error), error.code)
    except BaseException as error:  # CancelledError included: the scorer may run its own loop
        for ledger in call.ledgers:
            ledger.record_exception(error, "the scorer")
        # The exception's message may hold a passage or a key, so the report has its class only.
        return MethodError(f"the scorer raised {type(error).__name__}", "scorer_raised")


async def _score_in_thread(call: CallScorer) -> list[list[Any]] | MethodError:
    from secondpass.concurrency.threads import in_thread

    async with _SCORER_GATE.in_this_loop():
        # An exit that is raised in a task would end the event loop for everybody.
        return await in_thread(lambda: _score(call, reraised=()))


def _score_within(call: CallScorer, seconds: float) -> list[list[Any]] | MethodError:
    """Score in a new thread; a DeadlineError if that takes longer."""
    outcome: list[list[list[Any]] | MethodError] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(_score(call))
        except BaseException as error:
            raised.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,), name="secondpass", daemon=True)
    thread.start()
    thread.join(min(seconds, threading.TIMEOUT_MAX))
    if raised:
        raise raised[0]
    return outcome[0] if outcome else scoring_deadline_error()
