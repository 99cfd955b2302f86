"""Carries out the commands of the scheduler, synchronously or in an event loop.

The synchronous driver calls scorers in the calling thread, or in a new thread if there is a
deadline, and asks questions in the portal's event loop. The asynchronous one calls scorers in
threads and asks questions in its own loop. A scorer call that misses its deadline is abandoned: it
continues in its thread to its end, or to the end of its batch, and its result is dropped. What its
earlier batches scored is kept. The event loop does not wait for it; the process waits a moment
before it exits.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import sys
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from secondpass.asking.calls import Scored, collect, score
from secondpass.asking.gate import Gate
from secondpass.asking.partial_scores import BatchScores, LatestLists
from secondpass.asking.scheduler import (
    CallBatches,
    CallLists,
    CallScorer,
    Pass,
    ScorerCall,
    StartQuestions,
    question_deadline_error,
    schedule,
    scoring_deadline_error,
)
from secondpass.concurrency.admission import Claim
from secondpass.concurrency.left_behind import AbandonedCallsError, Call, check_abandoned
from secondpass.concurrency.locks import WITH_MAY_SKIP_EXIT, release_left
from secondpass.concurrency.turns import HELD, WIDTH, Turn
from secondpass.concurrency.waiting import Signal, received, start
from secondpass.concurrency.workers import Outcome
from secondpass.errors import (
    DeadlineError,
    MethodError,
    NestedCallError,
    OverloadedError,
    reraise_exit,
)
from secondpass.ranking.diagnostics import log_issues
from secondpass.ranking.result import Ranking
from secondpass.ranking.scoring import member

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

T = TypeVar("T")

_SIDE_BY_SIDE = 64
"""Passes that run side by side: enough to fill the batches of scorers, in bounded memory."""

_GRACE = 0.1
"""Seconds after their deadline in which questions end on their own, unless their event loop is
blocked."""

_SCORER_GATE = Gate(WIDTH)
"""Concurrent calls, per event loop, of scorers that compute in their threads. More of them would
only compete for the interpreter. It is also the number of abandoned calls of one such scorer from
which that scorer is not called in a thread."""

_JOINED_GATE = Gate(32)
"""The same for scorers that join calls. Their threads only wait, and more of them fill batches."""

_CLAIMING_GATE = Gate(256)
"""The same with a deadline or a target: who is next is decided by the scorer, not by who waits."""


def run_all(passes: Iterator[Pass[Ranking]], log_level: str) -> list[Ranking]:
    """Run passes in batches, log their issues and return their rankings in the same order."""
    rankings: list[Ranking] = []
    while batch := list(islice(passes, _SIDE_BY_SIDE)):
        rankings += run(batch)
        log_issues((ranking.report for ranking in rankings[-len(batch) :]), log_level)
    return rankings


async def arun_all(passes: Iterator[Pass[Ranking]], log_level: str) -> list[Ranking]:
    """:func:`run_all` for event loops."""
    from secondpass.concurrency.threads import running_loop  # imports asyncio

    running_loop()
    rankings: list[Ranking] = []
    while batch := list(islice(passes, _SIDE_BY_SIDE)):
        rankings += await arun(batch)
        log_issues((ranking.report for ranking in rankings[-len(batch) :]), log_level)
    return rankings


def run(passes: Sequence[Pass[T]]) -> list[T]:
    """Run passes side by side and return their results in the same order."""
    work = schedule(passes)
    started: dict[Any, StartQuestions] = {}
    ended: SimpleQueue[Any] = SimpleQueue()
    outcome: Any = None
    try:
        while True:
            try:
                command = work.send(outcome)
            except StopIteration as stop:
                results: list[T] = stop.value
                return results
            if isinstance(command, CallScorer):
                outcome = _score_in_turn(command)
            elif isinstance(command, CallBatches | CallLists):
                outcome = _collect_within(command)
            elif isinstance(command, StartQuestions):
                from secondpass.asking.dispatch import recall_or_ask
                from secondpass.concurrency.portal import portal

                if portal().is_here:
                    raise NestedCallError(
                        "rerank was called by a model's own asynchronous function, which it would "
                        "block; await arerank there"
                    )
                asking = portal().work(
                    partial(recall_or_ask, command.effect, command.ledger, command.gate), ended.put
                )
                started[asking] = command  # before it starts, or an interruption would not end it
                asking.start()
                outcome = None
            else:
                done = _received_all(ended, _wait_seconds(started.values()))
                outcome = _take_answers(started, [work for work in done if work in started])
    except BaseException:
        if WITH_MAY_SKIP_EXIT and not _is_nested():
            release_left()
        raise
    finally:
        for future in started:
            future.cancel()
        work.close()


def _is_nested() -> bool:
    """Whether the ranking that calls this runs within another one of its thread."""
    frame = sys._getframe(1)
    outer = frame.f_back
    while outer is not None and outer.f_code is not frame.f_code:
        outer = outer.f_back
    return outer is not None


async def arun(passes: Sequence[Pass[T]]) -> list[T]:
    """:func:`run` for event loops. Cancellation takes effect at once."""
    import asyncio  # costs more to import than the rest of secondpass together

    from secondpass.concurrency.threads import retrieve_exception

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
                outcome = await _ascore_in_turn(command)
            elif isinstance(command, CallBatches | CallLists):
                outcome = await _collect_in_thread(command)
            elif isinstance(command, StartQuestions):
                from secondpass.asking.dispatch import recall_or_ask

                asking = recall_or_ask(command.effect, command.ledger, command.gate)
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
        work.close()


# ---------------------------------------------------------------------- questions


def _received_all(ended: SimpleQueue[T], seconds: float | None) -> list[T]:
    """What is in the queue, after waiting for the first; nothing if it takes too long."""
    items = []
    with contextlib.suppress(Empty):
        items.append(received(ended, seconds))
        while True:
            items.append(ended.get_nowait())
    return items


def _wait_seconds(started: Collection[StartQuestions]) -> float | None:
    """Seconds until the first of these is overdue; None if none has a running deadline."""
    ledgers = [command.ledger for command in started if not command.ledger.waiting]
    left = [seconds for ledger in ledgers if (seconds := ledger.question_seconds_left) is not None]
    return min(left) + _GRACE if left else None


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
        except BaseException as error:
            reraise_exit(error)
            message = f"asking raised {type(error).__name__}"
            answers = command.failed(MethodError(message, "llm_raised"))
        answered.append((command.number, answers))
    if not done:
        for future, command in list(started.items()):
            if command.ledger.question_seconds_left == 0 and not command.ledger.waiting:
                future.cancel()
                del started[future]
                late = question_deadline_error(command.ledger, "answered")
                answered.append((command.number, command.failed(late)))
    return answered


# ---------------------------------------------------------------------- threads of scorers


class _NoThreadError(MethodError):
    """The system starts no more threads."""

    code = "no_thread"
    sent = False

    def __init__(self) -> None:
        super().__init__("no thread could be started for the scorer")


class _InTurn:
    """A call of a scorer that takes turns; of any other scorer, a call that begins at once.

    A call within a turn of the same scorer begins at once, too: that turn ends only after it.
    """

    def __init__(self, call: CallScorer) -> None:
        self.call = call  # once its turn has begun, with as many texts as the turn has
        self._pairs = call.pairs  # before the call, because the scorer may change the lists
        self._asked = time.monotonic()
        self._began: float | None = None
        self._turn: Turn | None = None
        self._turns = None if call.sharing is None else call.sharing.turns
        is_alone = len(call.ledgers) == 1
        self.shares = self._turns is not None and is_alone and self._turns not in HELD.get()

    def take(self, wake: Callable[[], None], loop: AbstractEventLoop | None = None) -> bool:
        """Ask for its turn, of whose begin or end ``wake`` tells; return whether it has to wait.

        Raises:
            OverloadedError: its ranking is refused.
        """
        sharing, claim, now = self.call.sharing, self.call.ledgers[0].claim, time.monotonic()
        assert sharing is not None
        # Kept before it is taken, or an interruption would not end it.
        self._turn = sharing.turn(claim, self._pairs, wake, weakref.ref(self), loop=loop, now=now)
        sharing.turns.take(self._turn, now)
        return self._turn.state == "waiting"

    @property
    def seconds(self) -> float | None:
        """Seconds until the turn is over at the latest; None for no limit."""
        assert self._turn is not None
        latest = self._turn.claim.latest(self._turn.rank)
        return None if latest == math.inf else max(0.0, latest - time.monotonic())

    def late(self) -> DeadlineError | None:
        """The error of a call whose time is over before it began."""
        if self._turn is not None and self._turn.state != "running":
            return scoring_deadline_error(self.call.ledgers)
        return None

    def run(self, *, in_task: bool = False) -> Scored:
        """Call the scorer in its turn. It may have waited for a thread after the turn began."""
        self._began = time.monotonic()
        if self._turn is None or self._turns is None:
            return score(self.call, in_task=in_task)
        self._turn.began = self._began
        self.call = self.call.with_first(self._turn.pairs)
        # In a context of its own, which an interruption ends, too.
        context = contextvars.copy_context()
        context.run(HELD.set, (*HELD.get(), self._turns))
        return context.run(partial(score, self.call, in_task=in_task))

    def end(self, outcome: Scored | None) -> None:
        now = time.monotonic()
        began = now if self._began is None else self._began
        if self._began is None and isinstance(outcome, DeadlineError):
            outcome.sent = False
        for ledger in self.call.ledgers:
            ledger.add_times(began - self._asked, now - began)
        scored = self._began is not None and isinstance(outcome, list)
        interrupted = self._began is not None and isinstance(outcome, DeadlineError)
        if self._turn is not None and self._turns is not None:
            self._turns.end(self._turn, now, scored=scored, interrupted=interrupted)
        elif scored and self._turns is not None:
            self._turns.learn(self._pairs, now - began)


def _score_in_turn(call: CallScorer) -> Scored:
    outcome: Scored | None = None
    turn = _InTurn(call)
    try:
        if turn.shares:
            woken = Signal()
            if turn.take(woken.set):
                woken.wait(turn.seconds)
        outcome = turn.late()
        if outcome is None:
            outcome = _until_deadline(call, turn.run)
        return outcome
    except OverloadedError as error:
        return error
    finally:
        turn.end(outcome)


def _collection(
    call: CallBatches | CallLists, *, in_task: bool = False
) -> tuple[BatchScores | LatestLists, Claim, Callable[[], None]]:
    """A collector for the results of a call, its claim, and a function that makes the call."""
    collected: BatchScores | LatestLists
    if isinstance(call, CallBatches):
        ((_, documents),) = call.requests
        collected = BatchScores(len(documents), scoring_deadline_error(call.ledgers))
    else:
        collected = LatestLists(call.requests, scoring_deadline_error(call.ledgers))
    claim = call.ledgers[0].claim()
    return collected, claim, lambda: collect(call, collected, claim, in_task=in_task)


def _count_times(call: CallBatches | CallLists, claim: Claim) -> None:
    now = time.monotonic()
    waited = claim.waited(now)
    for ledger in call.ledgers:
        ledger.add_times(waited, now - (claim.asked + waited))


def _collect_within(call: CallBatches | CallLists) -> Any:
    collected, claim, work = _collection(call)
    try:
        error = _until_deadline(call, work, lambda: _more_seconds(call, collected))
        if error is not None:
            collected.end(error)
    finally:
        outcome = collected.take()  # also tells the thread to stop, if this one is interrupted
        _count_times(call, claim)
    return outcome


def _more_seconds(call: CallBatches | CallLists, collected: BatchScores | LatestLists) -> float:
    """Seconds that a call has beyond its time because something was scored."""
    if collected.has_scores:
        call.end_keeping()
        collected.end(scoring_deadline_error(call.ledgers))
    return call.seconds_left or 0.0


def _until_deadline(
    call: ScorerCall, work: Callable[[], T], more_seconds: Callable[[], float] = float
) -> T | MethodError:
    """Run ``work`` here, or until the deadline in a new thread; a DeadlineError if it takes longer.

    ``more_seconds`` is asked at the deadline. Raises what the work raises.
    """
    seconds = call.seconds_left
    if seconds is None:
        return work()
    try:
        check_abandoned(call.scorer, _gate_of(call.scorer).width)
    except AbandonedCallsError as error:
        return error
    running = Call(work, call.scorer)
    outcomes: SimpleQueue[Outcome[T]] = SimpleQueue()
    context = contextvars.copy_context()
    try:
        start(lambda: outcomes.put(Outcome(partial(context.run, running))))
    except RuntimeError:
        return _NoThreadError()
    try:
        try:
            outcome = received(outcomes, seconds)
        except Empty:
            outcome = received(outcomes, more_seconds())
    except Empty:
        return scoring_deadline_error(call.ledgers)
    finally:
        running.abandon()
    return outcome.result()


# An exit that is raised in a task would end the event loop of all rankings, so tasks catch it.


async def _ascore_in_turn(call: CallScorer) -> Scored:
    import asyncio

    outcome: Scored | None = None
    turn = _InTurn(call)
    try:
        if turn.shares:
            loop, woken = asyncio.get_running_loop(), asyncio.Event()

            def wake() -> None:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(woken.set)

            if turn.take(wake, loop):
                # Not wait_for(), which until Python 3.12 may lose a cancellation.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(turn.seconds):
                        await woken.wait()
        outcome = turn.late()
        if outcome is None:
            outcome = await _in_thread(call, partial(turn.run, in_task=True))
        return outcome
    except OverloadedError as error:
        return error
    finally:
        turn.end(outcome)


async def _collect_in_thread(call: CallBatches | CallLists) -> Any:
    collected, claim, work = _collection(call, in_task=True)
    try:
        error = await _in_thread(call, work, lambda: _more_seconds(call, collected), claim)
        if error is not None:
            collected.end(error)
    finally:
        outcome = collected.take()  # also tells the thread to stop, if this task is cancelled
        _count_times(call, claim)
    return outcome


async def _in_thread(
    call: ScorerCall,
    work: Callable[[], T],
    more_seconds: Callable[[], float] = float,
    claim: Claim | None = None,
) -> T | MethodError:
    """:func:`_until_deadline` in a thread, as soon as a slot for such scorers is free."""
    import asyncio

    from secondpass.concurrency.threads import in_thread, with_timeout

    gate = _gate_of(call.scorer)
    width = gate.width
    if gate is _JOINED_GATE and claim is not None and claim.until < math.inf:
        gate = _CLAIMING_GATE

    async def in_slot() -> T:
        async with gate.in_this_loop().taken():
            check_abandoned(call.scorer, width)
            running = Call(work, call.scorer)
            try:
                return await in_thread(running)
            except RuntimeError:  # the call itself raises nothing
                raise _NoThreadError from None
            except asyncio.CancelledError:
                running.abandon()
                raise

    seconds = call.seconds_left
    try:
        return await (
            in_slot() if seconds is None else with_timeout(in_slot(), seconds, more_seconds)
        )
    except TimeoutError:
        return scoring_deadline_error(call.ledgers)
    except (_NoThreadError, AbandonedCallsError) as error:
        return error


def _gate_of(scorer: object) -> Gate:
    return _JOINED_GATE if member(scorer, "joins_calls", False) is True else _SCORER_GATE
