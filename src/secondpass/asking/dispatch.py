"""Asks services questions, side by side and within limits.

Every provider and every strategy uses this module. It is asynchronous only: a synchronous ranking
runs it in the portal's loop (:mod:`secondpass.concurrency.portal`).

A question is asked again

- at once, if its service changed the form of its requests (an adaptation), or if its passages were
  shortened because the server found the prompt too long;
- after a pause, if the error was temporary (``Limits.retries``);
- once, with the reason, if the reply could not be used (``Limits.repair``).

Every attempt counts in the ledger. A question whose answer is in the response cache is not asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypeVar

from secondpass.asking.gate import Gate
from secondpass.asking.response_cache import ResponseCache, is_doubtful
from secondpass.asking.scheduler import question_deadline_error
from secondpass.concurrency.left_behind import ALLOWED
from secondpass.concurrency.threads import retrieve_exception, with_timeout
from secondpass.effects import Ask
from secondpass.errors import (
    LLMError,
    MethodError,
    MissingExtraError,
    NestedCallError,
    ReplyError,
    with_article,
)
from secondpass.limits import Prices
from secondpass.prompts.fencing import as_text
from secondpass.questions import Answer, Completion, Prompt, Question, Turn
from secondpass.ranking import observers
from secondpass.ranking.ledger import Ledger
from secondpass.ranking.rendering import well_formed
from secondpass.ranking.scoring import in_range, to_float
from secondpass.services.throttle import THROTTLE, Ticket, throttle_of

T = TypeVar("T")

TIMEOUT = 60.0
"""Seconds per answer for services without a ``timeout``."""

_ADAPTATIONS = 8
"""Each leaves out something else of the request; a server has refused four parameters in turn."""
_CUTS = 3
"""Each halves the passages. Questions of language models allow one."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0  # seconds
_LONGEST_RETRY_AFTER = 30.0  # seconds. A server that asks for a longer pause is not asked again.
_CLOCK_CHECK = 0.05  # seconds between checks whether the clock of a waiting ranking has started
_RAISED_BY_READERS = (Exception, asyncio.CancelledError, BaseExceptionGroup, SystemExit)
_CHARGED = frozenset({"content_filter", "bad_response", "response_too_long", "reply_too_short"})
"""Codes of errors for which providers charge, even if they do not report the usage."""


async def recall_or_ask(effect: Ask[Any, T], ledger: Ledger, gate: Gate) -> list[Answer[T]]:
    """:func:`ask`, without the questions whose answers are stored.

    Stored answers take no slot, no call, no round and no budget. Of equal questions in a round only
    the first is asked. New answers are stored as they arrive, so that an interruption loses none.
    """
    service = effect.service
    cache: ResponseCache | None = ledger.cache
    if cache is None:
        return await ask(effect, ledger, gate)
    values = await cache.find(service, effect.questions, ledger)
    others = [question for index, question in enumerate(effect.questions) if index not in values]
    answers: list[Answer[T]] = []
    if others:
        firsts = cache.first_of_equal(service, others, ledger)
        distinct = [question for index, question in enumerate(others) if firsts[index] == index]
        new_answers = iter(await ask(Ask(service, distinct), ledger, gate))
        for index, first in enumerate(firsts):
            if first == index:
                answers.append(next(new_answers))
                continue
            answers.append(answers[first])
            if answers[first].error is None:
                ledger.cached += 1
        if any(map(is_doubtful, answers)):  # the others may be in range only by chance
            cache.forget(service, others)
        await cache.written(ledger)
    rest = iter(answers)
    all_answers = []
    for index in range(len(effect.questions)):
        all_answers.append(Answer(values[index]) if index in values else next(rest))
    return all_answers


async def ask(effect: Ask[Any, T], ledger: Ledger, gate: Gate) -> list[Answer[T]]:
    """Ask all questions, in the time that the ledger leaves. Cancelling it cancels the questions.

    Raises:
        NestedCallError: the service called the ranking that waits for it.
    """
    started = time.perf_counter()
    ledger.rounds += 1
    ALLOWED.set(ledger.limits.concurrency)  # this is a task of its own
    questions = [
        PendingQuestion(effect.service, question, ledger, gate) for question in effect.questions
    ]
    tasks = [asyncio.ensure_future(question.answer()) for question in questions]
    for task in tasks:
        task.add_done_callback(retrieve_exception)
    pending = set(tasks)
    try:
        while pending:
            seconds = ledger.question_seconds_left
            if ledger.waiting and seconds is not None:
                # _complete() starts the clock, for the first question that gets a slot.
                seconds = _CLOCK_CHECK
            elif seconds == 0:
                break
            _, pending = await asyncio.wait(pending, timeout=seconds)
    finally:
        for task in pending:
            task.cancel()
    sent = [question for question in questions if question.requests]
    for item in sent:
        ledger.pairs += item.question.documents
        ledger.repairs += item.requests.count("repair")
        ledger.retries += item.requests.count("retry")
    ended = time.perf_counter()
    began = min((item.began for item in sent if item.began is not None), default=ended)
    ledger.add_times(began - started, ended - began)
    if sent:
        ledger.add_question_round(ended - started, len(sent))

    answers = []
    for task, question in zip(tasks, questions, strict=True):
        if task in pending:
            answers.append(question.failed(question_deadline_error(ledger, "answered")))
        else:
            answers.append(task.result())
    return answers


RequestKind: TypeAlias = Literal["first", "retry", "repair"]
"""A repair has the reply that could not be used, or is about a part of a refused question."""


class PendingQuestion:
    """A question that is being asked.

    Attributes:
        requests: what each request was that was sent.
        issues: errors after which the question was asked again.
        began: when the first request was sent; None before.
    """

    def __init__(
        self, service: Any, question: Question[Any, Any], ledger: Ledger, gate: Gate
    ) -> None:
        self.service = service
        self.question = question
        self.ledger = ledger
        self.gate = gate
        self.requests: list[RequestKind] = []
        self.issues: list[MethodError] = []
        self.began: float | None = None
        self.throttle = throttle_of(service)
        self.number: int | None = None  # of its tickets; None before the first one
        self.prices: Prices | None = getattr(service, "prices", None)
        self.timeout: float | None = getattr(service, "timeout", TIMEOUT)

    async def answer(self) -> Answer[Any]:
        """Ask until there is a usable reply or no further attempt is allowed, and store the answer.

        If the passages were shortened, it is not stored: the cache would hide that from reports.
        """
        question, cache = self.question, self.ledger.cache
        answer = await self._answer()
        if cache is not None and answer.error is None and self.question is question:
            cache.keep(self.service, question, answer, self.ledger)
        return answer

    async def _answer(self) -> Answer[Any]:
        limits = self.ledger.limits
        retries, adaptations, cuts = limits.retries, _ADAPTATIONS, _CUTS
        repairs = 0 if self.question.repairs else limits.repair
        request = self.question.request
        pauses = 0
        while True:
            try:
                completion = await self._complete(request)
            except LLMError as error:
                if error.adapted and adaptations:
                    adaptations -= 1
                elif error.too_long and cuts and (shorter := self.question.shrink()):
                    cuts -= 1
                    self.question, request = shorter, shorter.request
                elif error.retryable and pauses < retries:
                    pause = self._pause(error, pauses)
                    if pause is None:
                        return self.failed(error)
                    pauses += 1
                    await asyncio.sleep(pause)
                else:
                    return self.failed(error)
                self.issues.append(error.with_traceback(None))
                continue
            except NestedCallError:  # raised by the slots; _call() translates that of the service
                raise
            except MethodError as error:
                return self.failed(error)
            try:
                return Answer(self.question.read(completion), None, tuple(self.issues))
            except ReplyError as error:
                repairable = error.repairable and self.question.reminder is not None
                if not repairs or not repairable:
                    return self.failed(error)
                repairs -= 1
                self.issues.append(error.with_traceback(None))
                request = repair_prompt(self.question, completion, error)
            except _RAISED_BY_READERS as error:
                # The reader may be the user's. Nothing is awaited, so nothing was cancelled.
                self.ledger.record_exception(error, "the reader of the reply")
                message = f"reading the reply raised {type(error).__name__}"
                return self.failed(ReplyError(message, repairable=False))

    def failed(self, error: MethodError) -> Answer[Any]:
        """The answer to a question that is not asked again."""
        # Without its frames, which hold this question: a cycle would keep the texts alive.
        return Answer(error=error.with_traceback(None), troubles=tuple(self.issues))

    async def _complete(self, request: Any) -> Completion:
        """Send one request when a slot is free and the service may be asked."""
        async with self.gate.taken(self.ledger):
            self.ledger.start_clock()
            with self._ticket() as ticket:
                await self._wait_for(ticket)
                return await self._send(request, ticket)

    async def _send(self, request: Any, ticket: Ticket) -> Completion:
        """Send one request, and charge it to the ledger."""
        ledger, estimate, prices = self.ledger, self.question.estimate, self.prices
        left = ledger.question_seconds_left
        if not ledger.has_time_for(self.service):
            raise question_deadline_error(ledger, "asked")
        began = ledger.seconds
        ledger.reserve(estimate, prices)
        self.requests.append(self._kind_of(request))
        timeouts = [seconds for seconds in (left, self.timeout) if seconds is not None]
        try:
            with observers.request(
                ledger.operations, self.service, request, self.question.documents, self.issues
            ) as running:
                result = await with_timeout(
                    self._call(request, ticket), min(timeouts, default=None)
                )
                completion = running.answered(validated(result))
        except TimeoutError:
            ledger.charge_estimate(estimate, prices)
            raise self._timeout_error() from None
        except asyncio.CancelledError:
            ledger.charge_estimate(estimate, prices)
            raise
        except MethodError as error:
            self._charge_failure(error)
            raise
        except MissingExtraError as error:
            failure = LLMError(str(error), error.code, sent=False)
            self._charge_failure(failure)
            raise failure from None
        except Exception as error:
            ledger.charge_estimate(estimate, prices)  # the server may have answered before
            foreign = error
        else:
            ledger.settle(estimate, prices, completion)
            ledger.add_answer(self.service, ledger.seconds - began)
            return completion
        # Outside the except clause, or the foreign error, which may hold a key, would be attached.
        translated = self._translated(foreign)
        del foreign
        raise translated

    def _charge_failure(self, error: MethodError) -> None:
        """Charge a request that failed what it has cost, as far as that is known."""
        ledger, estimate, prices = self.ledger, self.question.estimate, self.prices
        sent = getattr(error, "sent", True)
        if isinstance(error, LLMError) and error.tokens is not None:
            unused = validated(Completion("", False, *error.tokens))
            ledger.settle(estimate, prices, unused)
        elif error.code in _CHARGED:
            ledger.charge_estimate(estimate, prices)
        else:
            ledger.release(estimate, prices, sent)
        if not sent:
            self.requests.pop()

    def _kind_of(self, request: Any) -> RequestKind:
        """What the next request is."""
        if request is not self.question.request:
            return "repair"
        if self.requests:
            return "retry"
        return "repair" if self.question.repairs else "first"

    async def _call(self, request: Any, ticket: Ticket) -> Any:
        """What the service returns. A NestedCallError of the service becomes an LLMError."""
        sent = time.monotonic()
        self.throttle.use(ticket)
        if self.began is None:
            self.began = time.perf_counter()
        THROTTLE.set(self.throttle)  # this is a task of its own
        try:
            result = await self.service.complete(request)
        except NestedCallError as error:
            raise LLMError(str(error), error.code) from None
        except LLMError as error:
            if error.code == "rate_limited":
                self.throttle.rejected(sent, time.monotonic(), error.retry_after)
            raise
        self.throttle.answered(time.monotonic())
        return result

    def _ticket(self) -> Ticket:
        """A ticket of the service's queue. A question that is asked again keeps its number."""
        now, seconds = time.monotonic(), self.ledger.seconds_to_ask(self.service)
        latest = math.inf if seconds is None else now + seconds
        ticket = self.throttle.enter(now, latest, self.number)
        self.number = ticket.number
        return ticket

    async def _wait_for(self, ticket: Ticket) -> None:
        """Wait until the request may be sent; a DeadlineError, at once, if that is too late."""
        if not self.throttle.pause(ticket, time.monotonic()):
            return
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(changed.set)

        ticket.wake = wake
        while pause := self.throttle.pause(ticket, time.monotonic()):
            if pause == math.inf:
                raise question_deadline_error(self.ledger, "asked")
            # Not wait_for(), which until Python 3.12 may lose a cancellation.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await changed.wait()
            changed.clear()

    def _timeout_error(self) -> MethodError:
        """The error of a request that took too long: for the ranking, or for its service."""
        if self.ledger.question_seconds_left == 0:
            return question_deadline_error(self.ledger, "answered")
        message = f"no answer within {self.timeout:g} s" if self.timeout else "no answer"
        origin = getattr(self.service, "origin", "")
        if isinstance(origin, str) and origin:
            message = f"{message} {origin}"
        return LLMError(message, "timeout", retryable=True)

    def _translated(self, error: Exception) -> LLMError:
        from secondpass.services.provider_errors import to_llm_error

        if getattr(self.service, "own_code", False):
            self.ledger.record_exception(error, "the model")
        return to_llm_error(error)

    def _pause(self, error: LLMError, pauses: int) -> float | None:
        """Seconds to wait before retry number ``pauses``, from 0; None if that is too long."""
        # With jitter, so that rankings that failed together do not retry together.
        pause: float = random.uniform(0.5, 1) * min(_FIRST_PAUSE * 2**pauses, _LONGEST_PAUSE)
        if error.retry_after is not None:
            pause = max(pause, error.retry_after)
        left = self.ledger.question_seconds_left
        if pause >= _LONGEST_RETRY_AFTER or (left is not None and pause >= left):
            return None
        return pause


# ---------------------------------------------------------------------- what services return

_MAX_TOKENS = 10**12
"""A larger count is wrong, and one of hundreds of digits cannot be converted to float."""


def validated(result: Any) -> Completion:
    """The result of a service as a completion, or an LLMError.

    Invalid token counts, units and log probabilities become None.
    """
    if not isinstance(result, Completion):
        message = f"the model returned {with_article(type(result).__name__)}, not a Completion"
        raise LLMError(message, "bad_response")
    if not isinstance(result.text, str):
        kind = with_article(type(result.text).__name__)
        raise LLMError(f"the text of the reply is {kind}, not a string", "bad_response")
    return replace(
        result,
        input_tokens=_count(result.input_tokens),
        output_tokens=_count(result.output_tokens),
        logprobs=_logprobs(result.logprobs),
        units=_units(result.units),
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else None


def _units(value: Any) -> float | None:
    units = None if value is None else to_float(value)
    return units if units is not None and 0 <= units <= _MAX_TOKENS else None


def _logprobs(value: Any) -> tuple[dict[str, float], ...] | None:
    """The log probabilities of every token; None if one is no log probability."""
    if not isinstance(value, list | tuple) or not value:
        return None
    tokens = []
    for alternatives in value:
        if not isinstance(alternatives, Mapping) or not alternatives:
            return None
        token = {}
        for text, reported in alternatives.items():
            number = to_float(reported)
            if not isinstance(text, str) or number is None or number == -math.inf:
                return None
            clipped = in_range(number, (-math.inf, 0.0))
            if clipped is None:
                return None
            token[text] = clipped
        tokens.append(token)
    return tuple(tokens)


_LONGEST_QUOTE = 4000  # characters of an unusable reply that are sent back to the model


def repair_prompt(
    question: Question[Prompt, Any], completion: Completion, error: ReplyError
) -> Prompt:
    """The prompt, followed by the unusable reply and the reason why it cannot be used.

    The reply may quote a passage, so it is escaped like one.
    """
    message = f"Your reply cannot be used: {error}. {question.reminder}"
    quoted = as_text(well_formed(completion.text[:_LONGEST_QUOTE]))
    turns = question.request.turns
    if quoted.strip():
        turns = (*turns, Turn("assistant", quoted), Turn("user", message))
    else:  # some servers refuse an empty turn
        turns = (*turns[:-1], Turn(turns[-1].role, f"{turns[-1].text}\n\n{message}"))
    return replace(question.request, turns=turns)
