"""Puts questions to language models and other services, side by side and within limits.

This is the whole of what surrounds an answer, for every provider and every strategy, and it is
asynchronous only: a synchronous ranking runs it in the portal's loop
(:mod:`secondpass.concurrency.portal`).

A question is asked again at once when its client has changed how it asks (structured output stepped
down, a parameter dropped) or when its passages were cut because the server found it too long; after
a pause when the fault was a passing one (``Limits.retries``); and once, saying why, when the reply
could not be used (``Limits.repair``). All of that counts in the ledger.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from typing import Any, TypeVar

from secondpass.concurrency.threads import retrieve_exception, with_timeout
from secondpass.effects import Answer, Ask, Completion, Prompt, Question, Turn
from secondpass.errors import (
    DeadlineError,
    LLMError,
    MethodError,
    MissingExtraError,
    NestedCallError,
    ReplyError,
)
from secondpass.limits import Prices
from secondpass.prompts.fencing import as_text
from secondpass.rendering import well_formed
from secondpass.runtime.gate import Gate, Turns
from secondpass.runtime.ledger import Ledger

T = TypeVar("T")

TIMEOUT = 60.0
"""Seconds that one answer may take, where the model says nothing else."""

_ADAPTATIONS = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0  # seconds
_PATIENCE = 30.0
"""A server that wants to be left alone for longer than these seconds is not asked again."""
_CHARGED = frozenset({"content_filter", "bad_response", "response_too_long"})
"""Faults of answers that a provider has made, and charges for, though nobody knows how much."""
_LONGEST_QUOTE = 4000
"""Characters of an unusable reply that are shown to the model which wrote it."""


async def ask(effect: Ask[Any, T], ledger: Ledger, gate: Gate) -> list[Answer[T]]:
    """One answer per question, by the deadline at the latest. Cancellation passes.

    Raises:
        NestedCallError: the service, asked by this gate, called for this itself.
    """
    started = time.perf_counter()
    ledger.rounds += 1
    asked = [_Asked(effect.service, question, ledger, gate.here()) for question in effect.questions]
    tasks = [asyncio.ensure_future(one.answer()) for one in asked]
    for task in tasks:
        task.add_done_callback(retrieve_exception)
    pending = set(tasks)
    try:
        while pending:
            left = ledger.left
            if ledger.waiting and left is not None:
                left = 0.05  # the clock starts with the first question that gets its turn
            elif left == 0:
                break
            _, pending = await asyncio.wait(pending, timeout=left)
    finally:
        for task in pending:
            task.cancel()
    ledger.pairs += sum(one.question.documents for one in asked if one.requests)
    ledger.round_of_questions(time.perf_counter() - started)
    over = DeadlineError("the deadline passed before this was answered")
    return [
        Answer(error=over, troubles=tuple(one.troubles)) if task in pending else task.result()
        for task, one in zip(tasks, asked, strict=True)
    ]


class _Asked:
    """One question on its way to an answer."""

    def __init__(
        self, service: Any, question: Question[Any, Any], ledger: Ledger, gate: Turns
    ) -> None:
        self.service = service
        self.question = question
        self.ledger = ledger
        self.gate = gate
        self.requests = 0
        self.troubles: list[MethodError] = []
        self.prices: Prices | None = getattr(service, "prices", None)
        self.timeout: float | None = getattr(service, "timeout", TIMEOUT)

    async def answer(self) -> Answer[Any]:
        limits = self.ledger.limits
        retries, repairs, adaptations = limits.retries, limits.repair, _ADAPTATIONS
        request = self.question.request
        pauses = 0
        while True:
            try:
                completion = await self._complete(request)
            except LLMError as error:
                if error.adapted and adaptations:
                    adaptations -= 1
                elif error.too_long and adaptations and (shorter := self.question.shrink()):
                    adaptations -= 1
                    self.question, request = shorter, shorter.request
                elif error.retryable and retries:
                    pause = self._pause(error, pauses)
                    if pause is None:
                        return self._failed(error)
                    retries -= 1
                    pauses += 1
                    await asyncio.sleep(pause)
                else:
                    return self._failed(error)
                self.troubles.append(error)
                continue
            except NestedCallError:  # of the gate; _reply() translates that of the service
                raise
            except MethodError as error:
                return self._failed(error)
            try:
                return Answer(self.question.read(completion), None, tuple(self.troubles))
            except ReplyError as error:
                if not repairs or self.question.reminder is None:
                    return self._failed(error)
                repairs -= 1
                self.troubles.append(error)
                request = _once_more(self.question, completion, error)
            except (Exception, asyncio.CancelledError, SystemExit) as error:
                # The reader may be of your own strategy. Nothing is awaited, so this is no real
                # cancellation.
                self.ledger.record_exception(error, "the reader of the reply")
                told = f"reading the reply raised {type(error).__name__}"
                return self._failed(ReplyError(told))

    async def _complete(self, request: Any) -> Completion:
        """Ask once, when it is our turn.

        Raises:
            MethodError: no answer came.
        """
        ledger, estimate = self.ledger, self.question.estimate
        async with self.gate:
            ledger.begin()
            left = ledger.left
            if left == 0:
                raise DeadlineError("the deadline passed before this was asked")
            ledger.reserve(estimate, self.prices)
            self.requests += 1
            times = [time for time in (left, self.timeout) if time is not None]
            try:
                completion = await with_timeout(self._reply(request), min(times, default=None))
                if isinstance(completion, Completion):
                    completion = _checked(completion)
                else:
                    told = f"it returned a {type(completion).__name__}, not a Completion"
                    raise LLMError(told, "bad_response")
            except TimeoutError:
                ledger.give_up(estimate, self.prices)
                if ledger.left == 0:
                    told = "the deadline passed before this was answered"
                    raise DeadlineError(told) from None
                told = f"no answer within {self.timeout:g} s" if self.timeout else "no answer"
                origin = getattr(self.service, "origin", "")
                told = f"{told} {origin}" if isinstance(origin, str) and origin else told
                raise LLMError(told, "timeout", retryable=True) from None
            except asyncio.CancelledError:
                ledger.give_up(estimate, self.prices)
                raise
            except MethodError as error:
                sent = getattr(error, "sent", True)
                if error.code in _CHARGED:
                    ledger.give_up(estimate, self.prices)
                else:
                    ledger.release(estimate, self.prices, sent)
                self.requests -= not sent
                raise
            except MissingExtraError as error:
                ledger.release(estimate, self.prices, sent=False)
                self.requests -= 1
                raise LLMError(str(error), error.code, sent=False) from None
            except Exception as error:
                ledger.give_up(estimate, self.prices)  # it may have been answered before that
                fault = error
            else:
                ledger.settle(estimate, self.prices, completion)
                return completion
        # Outside the except clause, or the foreign error, which may hold a key, would go along.
        translated = self._translated(fault)
        del fault
        raise translated

    def _translated(self, error: Exception) -> LLMError:
        """An exception that the service should not have raised, as one of ours."""
        from secondpass.services.provider_errors import translated

        if getattr(self.service, "own_code", False):
            self.ledger.record_exception(error, "the model")
        return translated(error)

    async def _reply(self, request: Any) -> Any:
        """What the service returns. Run as a task, so that what it raises cannot be mistaken."""
        try:
            return await self.service.complete(request)
        except NestedCallError as error:
            raise LLMError(str(error), error.code) from None

    def _pause(self, error: LLMError, pauses: int) -> float | None:
        """Seconds to wait before asking again; None where it would be too long."""
        # Full jitter: rankings that failed together do not come back together.
        pause = random.uniform(0.5, 1) * min(_FIRST_PAUSE * 2**pauses, _LONGEST_PAUSE)
        if error.retry_after is not None:
            pause = max(pause, error.retry_after)
        left = self.ledger.left
        longest = _PATIENCE if left is None else min(left, _PATIENCE)
        return pause if pause < longest else None

    def _failed(self, error: MethodError) -> Answer[Any]:
        return Answer(error=error, troubles=tuple(self.troubles))


def _checked(completion: Completion) -> Completion:
    """The same, with what is no count of tokens, as a function may tell it, untold."""
    told = completion.input_tokens, completion.output_tokens
    counts = [one if type(one) is int and one >= 0 else None for one in told]
    if counts == list(told) and isinstance(completion.text, str):
        return completion
    if not isinstance(completion.text, str):
        raise LLMError("the reply is no text", "bad_response")
    return replace(completion, input_tokens=counts[0], output_tokens=counts[1])


def _once_more(
    question: Question[Prompt, Any], completion: Completion, error: ReplyError
) -> Prompt:
    """The question again, with the reply that could not be used and the reason.

    The reply may have copied from passages what a fence or a chat template would act on, so it is
    treated as passages are.
    """
    told = f"Your reply cannot be used: {error}. {question.reminder}"
    quoted = as_text(well_formed(completion.text[:_LONGEST_QUOTE]))
    if not quoted.strip():  # some servers refuse an empty turn
        *before, last = question.request.turns
        return replace(question.request, turns=(*before, Turn(last.role, f"{last.text}\n\n{told}")))
    return replace(
        question.request,
        turns=(*question.request.turns, Turn("assistant", quoted), Turn("user", told)),
    )
