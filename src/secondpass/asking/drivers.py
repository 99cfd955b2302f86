"""Carries out the commands of the scheduler, synchronously or in an event loop.

What a command does, by driver:

    command                  run                           arun
    ---------------------    --------------------------    --------------------------------
    CallScorer               _score_in_turn                _ascore_in_turn
    CallBatches, CallLists   _collect_until_deadline       _acollect_until_deadline
    StartQuestions           a task of the portal's loop   a task of the running loop
    WaitForAnswers           a queue that tasks fill       asyncio.wait

The four functions for scorers differ in what they keep. Where the scorer runs is the same for both
of a driver:

    the scorer runs          _call_until_deadline          _acall_until_deadline
    ---------------------    --------------------------    --------------------------------
    without a deadline       in the calling thread         in a thread, when a slot is free
    with a deadline          in another thread             in a thread, when a slot is free

A CallScorer has its scores when it ends; if its ranking calls the scorer in turns, as with a
deadline (:mod:`secondpass.concurrency.turns`), it waits for its turn first. In an event
loop it needs no slot then: its thread is started where the turn begins. The results of the others
are collected as they come, so that the deadline leaves what was scored before it.

A call that misses its deadline is abandoned: it continues in its thread to its end, or to the end
of its batch, and what it returns is dropped. The event loop does not wait for it; the process waits
a moment before it exits.
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

from secondpass.asking.calls import Scored, collect, joins_calls, score
from secondpass.asking.gate import LoopGates
from secondpass.asking.partial_scores import CollectedScores, LatestLists
from secondpass.asking.scheduler import (
    CallBatches,
    CalledScores,
    CallLists,
    CallScorer,
    Pass,
    ScorerCall,
    StartQuestions,
    question_deadline_error,
    schedule,
    scoring_deadline_error,
    scoring_time_error,
)
from secondpass.concurrency.admission import Claim
from secondpass.concurrency.left_behind import AbandonedCallsError, GuardedCall, check_abandoned
from secondpass.concurrency.locks import WITH_MAY_SKIP_EXIT, release_left
from secondpass.concurrency.turns import HELD, WIDTH, CallTurn
from secondpass.concurrency.waiting import Signal, received, start
from secondpass.concurrency.workers import CallResult
from secondpass.errors import (
    DeadlineError,
    MethodError,
    NestedCallError,
    OverloadedError,
    reraise_exit,
)
from secondpass.ranking.diagnostics import log_issues
from secondpass.ranking.result import Ranking

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from secondpass.concurrency.portal import Work

T = TypeVar("T")

_SIDE_BY_SIDE = 64
"""Passes that run side by side: enough to fill the batches of scorers, in bounded memory."""

_GRACE = 0.1
"""Seconds after their deadline in which questions end on their own, unless their event loop is
blocked."""

_PATIENCE = 10.0
"""Seconds that a call without a deadline waits for abandoned ones to end."""
_LOOK_AGAIN = 0.05

_SCORER_GATES = LoopGates(WIDTH)
"""Concurrent calls, per event loop, of scorers that compute in their threads. More of them would
only compete for the interpreter."""

_JOINED_GATES = LoopGates(32)
"""Concurrent calls, per event loop, of scorers that join calls. Their threads only wait, and more
calls fill batches."""

_CLAIMING_GATES = LoopGates(256)
"""Concurrent calls, per event loop, of scorers that join calls, with a deadline: the
scorer decides who is next, so that none should wait here."""


def run_all(passes: Iterator[Pass[Ranking]], log_level: str) -> list[Ranking]:
    """Run passes in batches, log their issues and return their rankings in the same order."""
    rankings: list[Ranking] = []
    while batch := list(islice(passes, _SIDE_BY_SIDE)):
        results = run(batch)
        log_issues(results, log_level)
        rankings += results
    return rankings


async def arun_all(passes: Iterator[Pass[Ranking]], log_level: str) -> list[Ranking]:
    """:func:`run_all` for event loops."""
    from secondpass.concurrency.threads import running_loop  # imports asyncio

    running_loop()
    rankings: list[Ranking] = []
    while batch := list(islice(passes, _SIDE_BY_SIDE)):
        results = await arun(batch)
        log_issues(results, log_level)
        rankings += results
    return rankings


def run(passes: Sequence[Pass[T]]) -> list[T]:
    """Run passes side by side and return their results in the same order."""
    commands = schedule(passes)
    started: dict[Any, StartQuestions] = {}
    ended: SimpleQueue[Any] = SimpleQueue()
    outcome: Any = None
    try:
        while True:
            try:
                command = commands.send(outcome)
            except StopIteration as stop:
                results: list[T] = stop.value
                return results
            if isinstance(command, CallScorer):
                outcome = _score_in_turn(command)
            elif isinstance(command, CallBatches | CallLists):
                outcome = _collect_until_deadline(command)
            elif isinstance(command, StartQuestions):
                asking = _questions_in_portal(command, ended)
                started[asking] = command  # before it starts, or an interruption would not end it
                asking.start()
                outcome = None
            else:
                received_works = _received_all(ended, _wait_seconds(started.values()))
                done = [asking for asking in received_works if asking in started]
                outcome = _take_answers(started, done)
    except BaseException:
        if WITH_MAY_SKIP_EXIT and not _is_nested():
            release_left()
        raise
    finally:
        for asking in started:
            asking.cancel()
        commands.close()


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

    commands = schedule(passes)
    started: dict[Any, StartQuestions] = {}
    outcome: Any = None
    try:
        while True:
            try:
                command = commands.send(outcome)
            except StopIteration as stop:
                results: list[T] = stop.value
                return results
            if isinstance(command, CallScorer):
                outcome = await _ascore_in_turn(command)
            elif isinstance(command, CallBatches | CallLists):
                outcome = await _acollect_until_deadline(command)
            elif isinstance(command, StartQuestions):
                from secondpass.asking.dispatch import recall_or_ask

                asking = asyncio.ensure_future(
                    recall_or_ask(command.effect, command.ledger, command.gate)
                )
                asking.add_done_callback(retrieve_exception)
                started[asking] = command
                outcome = None
            else:
                done, _ = await asyncio.wait(
                    started,
                    timeout=_wait_seconds(started.values()),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                outcome = _take_answers(started, done)
    finally:
        for asking in started:
            asking.cancel()
        commands.close()


# ---------------------------------------------------------------------- questions


def _questions_in_portal(command: StartQuestions, ended: SimpleQueue[Any]) -> Work[Any]:
    """Work that asks the questions of a command, and puts itself into the queue at its end.

    Raises:
        NestedCallError: this is the portal's thread, which must not wait for itself.
    """
    from secondpass.asking.dispatch import recall_or_ask
    from secondpass.concurrency.portal import portal

    if portal().is_here:
        raise NestedCallError(
            "rerank was called by a model's own asynchronous function, which it would "
            "block; await arerank there"
        )
    ask = partial(recall_or_ask, command.effect, command.ledger, command.gate)
    return portal().work(ask, ended.put)


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
    for asking in done:
        command = started.pop(asking)
        try:
            answers = asking.result()
        except NestedCallError:
            raise
        except BaseException as error:
            reraise_exit(error)
            message = f"asking raised {type(error).__name__}"
            answers = command.failed(MethodError(message, "llm_raised"))
        answered.append((command.number, answers))
    if not done:
        for asking, command in list(started.items()):
            if command.ledger.question_seconds_left == 0 and not command.ledger.waiting:
                asking.cancel()
                del started[asking]
                late = question_deadline_error(command.ledger, "answered")
                answered.append((command.number, command.failed(late)))
    return answered


# ---------------------------------------------------------------------- scorers, in turn


class _InTurn:
    """A call of a scorer, which takes a turn, or begins at once:

        its ranking takes no turns of the scorer    at once
        it has texts of several rankings            at once; the scorer's cost is learned from it
        it is made within a turn of the scorer      the same, because that turn ends only after it
        otherwise                                   in its turn

    The last ones are those that have to ``take`` their turn.
    """

    def __init__(self, call: CallScorer) -> None:
        self.call = call  # once its turn has begun, with as many texts as the turn has
        self._pairs = call.pairs  # before the call, because the scorer may change the lists
        self._asked = time.monotonic()
        self._began: float | None = None  # None until the scorer is called
        self._turn: CallTurn | None = None  # None until it is taken
        self._turns = None if call.sharing is None else call.sharing.turns
        is_alone = len(call.ledgers) == 1
        self.needs_turn = self._turns is not None and is_alone and self._turns not in HELD.get()

    @property
    def texts(self) -> int:
        """Number of texts with which the scorer is called: those of the turn, or all."""
        return self._pairs if self._turn is None else self._turn.pairs

    def take(self, wake: Callable[[], None], loop: AbstractEventLoop | None = None) -> bool:
        """Ask for its turn, of whose begin or end ``wake`` tells; return whether it has to wait.

        Raises:
            OverloadedError: its ranking is refused.
        """
        sharing, now = self.call.sharing, time.monotonic()
        assert sharing is not None
        new_claim = self.call.ledgers[0].new_claim
        this = weakref.ref(self)
        # Kept before it is taken, or an interruption would not end it.
        self._turn = sharing.turn(new_claim, self._pairs, wake, this, loop=loop, now=now)
        sharing.turns.take(self._turn, now)
        return self._turn.state == "waiting"

    @property
    def has_begun(self) -> bool:
        """Whether its turn has."""
        return self._turn is not None and self._turn.began < math.inf

    @property
    def seconds(self) -> float | None:
        """Seconds until the turn is over at the latest; None for no limit."""
        assert self._turn is not None
        deadline = self._turn.claim.deadline
        return None if deadline == math.inf else max(0.0, deadline - time.monotonic())

    def late(self) -> DeadlineError | None:
        """The error of a call that did not begin, because too little time is left, or none."""
        turn = self._turn
        if turn is None or self.has_begun:
            return None
        return scoring_time_error(self.call.ledgers, turn.claim, "too little time is left")

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
        outcome = context.run(partial(score, self.call, in_task=in_task))
        # Here, because the event loop may be busy: that is no time of the scorer.
        self._turns.end(self._turn, time.monotonic(), scored=isinstance(outcome, list))
        return outcome

    def end(self, outcome: Scored | None) -> None:
        """Count how long it waited and ran, and end its turn; None: an exception ended the call.

        The scorer's cost is learned from a call that has returned scores, and from one of which is
        known only that it takes longer, because the deadline ended the wait for it.
        """
        now = time.monotonic()
        was_called = self._began is not None
        began = now if self._began is None else self._began
        for ledger in self.call.ledgers:
            ledger.add_times(began - self._asked, now - began)
        if isinstance(outcome, DeadlineError) and not was_called:
            outcome.sent = False
        if self._turns is None:
            return
        if self._turn is not None:
            interrupted = was_called and isinstance(outcome, DeadlineError)
            self._turns.end(self._turn, now, interrupted=interrupted)
        elif was_called and isinstance(outcome, list):
            self._turns.learn(self._pairs, now - began)


def _score_in_turn(call: CallScorer) -> CalledScores:
    """Call a scorer, in its turn if it takes turns; a DeadlineError if that takes too long."""
    outcome: Scored | None = None
    turn = _InTurn(call)
    try:
        if turn.needs_turn:
            woken = Signal()
            if turn.take(woken.set):
                woken.wait(turn.seconds)
        outcome = turn.late()
        if outcome is None:
            outcome = _call_until_deadline(call, turn.run)
        return CalledScores(outcome, turn.texts)
    except OverloadedError as error:
        return CalledScores(error, turn.texts)
    finally:
        turn.end(outcome)


async def _ascore_in_turn(call: CallScorer) -> CalledScores:
    """:func:`_score_in_turn` for event loops."""
    outcome: Scored | None = None
    turn = _InTurn(call)
    try:
        work = partial(turn.run, in_task=True)
        if turn.needs_turn:
            outcome = await _acall_in_turn(turn, work)
        else:
            outcome = await _acall_until_deadline(call, work)
        return CalledScores(outcome, turn.texts)
    except OverloadedError as error:
        return CalledScores(error, turn.texts)
    finally:
        turn.end(outcome)


async def _acall_in_turn(turn: _InTurn, work: Callable[[], Scored]) -> Scored:
    """Run ``work`` in a thread when the turn begins; a DeadlineError if that takes too long."""
    import asyncio

    call = _CallInLoop(turn, work)
    begin = weakref.WeakMethod(call.begin)

    def wake() -> None:
        if (begin_call := begin()) is not None:
            begin_call()

    try:
        turn.take(wake, call.loop)
        await asyncio.wait({call.ended}, timeout=turn.call.seconds_left)
        if call.ended.done():
            return call.ended.result().result()
        return turn.late() or scoring_deadline_error(turn.call.ledgers)
    finally:
        call.leave()


class _CallInLoop:
    """A call for which an event loop waits, and whose thread starts as soon as its turn begins.

    The thread in which that happens starts it: the event loop may be busy with many other rankings,
    and the scorer would wait for it.
    """

    def __init__(self, turn: _InTurn, work: Callable[[], Scored]) -> None:
        import asyncio

        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[CallResult[Scored]] = self.loop.create_future()
        self._running = GuardedCall(partial(contextvars.copy_context().run, work), turn.call.scorer)
        self._turn = turn
        self._started = self._left = False

    def begin(self) -> None:
        """Start the thread, or end with the reason why there is none."""
        scorer = self._turn.call.scorer
        try:
            if (late := self._turn.late()) is not None:
                raise late
            check_abandoned(scorer, _most_abandoned(scorer))
            self._started = True  # first, because the caller may leave in another thread
            if self._left:
                self._running.end()
                return
            start(partial(self._run, self._running))
        except MethodError as error:
            outcome = error.with_traceback(None)
            self._run(lambda: outcome)
        except RuntimeError:
            self._started = False
            self._run(_NoThreadError)

    def leave(self) -> None:
        """Nobody waits any more; the call continues if its thread was started."""
        self._left = True
        if self._started:
            self._running.abandon()

    def _run(self, function: Callable[[], Scored]) -> None:
        result = CallResult(function)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._end, result)

    def _end(self, result: CallResult[Scored]) -> None:
        if not self.ended.done():
            self.ended.set_result(result)


# ---------------------------------------------------------------------- scorers, as results come


class _Collection:
    """A call of a scorer whose results are collected as they come."""

    def __init__(self, call: CallBatches | CallLists) -> None:
        self.call = call
        self.claim = call.ledgers[0].new_claim()
        late = scoring_deadline_error(call.ledgers)
        self._collected: CollectedScores | LatestLists
        if isinstance(call, CallBatches):
            ((_, documents),) = call.requests
            self._collected = CollectedScores(len(documents), late)
        else:
            self._collected = LatestLists(call.requests, late)

    def run(self, *, in_task: bool = False) -> None:
        """Call the scorer, and collect until it ends or the results are taken."""
        collect(self.call, self._collected, self.claim, in_task=in_task)

    def extended(self) -> float:
        """At the deadline: the seconds that are added to it because something was scored."""
        if self._collected.has_scores:
            self.call.end_keeping()
            self._collected.end(scoring_deadline_error(self.call.ledgers))
        return self.call.seconds_left or 0.0

    def fail(self, error: MethodError) -> None:
        """The call was not made, or ended at the deadline."""
        self._collected.end(error)

    def take(self) -> Any:
        """The results so far, which also tells the thread to stop, and the times for the ledgers.

        To be called in any case, also if the caller is interrupted or cancelled.
        """
        outcome = self._collected.take()
        now = time.monotonic()
        waited = self.claim.waited(now)
        for ledger in self.call.ledgers:
            ledger.add_times(waited, now - (self.claim.asked + waited))
        return outcome


def _collect_until_deadline(call: CallBatches | CallLists) -> Any:
    """Call a scorer, and return what it has yielded until its deadline."""
    collection = _Collection(call)
    try:
        error = _call_until_deadline(call, collection.run, collection.extended)
        if error is not None:
            collection.fail(error)
    finally:
        outcome = collection.take()
    return outcome


async def _acollect_until_deadline(call: CallBatches | CallLists) -> Any:
    """:func:`_collect_until_deadline` for event loops."""
    collection = _Collection(call)
    work = partial(collection.run, in_task=True)
    try:
        error = await _acall_until_deadline(call, work, collection.extended, collection.claim)
        if error is not None:
            collection.fail(error)
    finally:
        outcome = collection.take()
    return outcome


# ---------------------------------------------------------------------- threads of scorers


class _NoThreadError(MethodError):
    """The system starts no more threads."""

    code = "no_thread"
    sent = False

    def __init__(self) -> None:
        super().__init__("no thread could be started for the scorer")


def _call_until_deadline(
    call: ScorerCall, work: Callable[[], T], extended: Callable[[], float] | None = None
) -> T | MethodError:
    """Run ``work``: here, or with a deadline in another thread; a DeadlineError if it takes longer.

    ``extended`` is called at the deadline and returns the seconds that are added to it. Raises what
    the work raises.
    """
    seconds = call.seconds_left
    if seconds is None:
        return work()
    try:
        check_abandoned(call.scorer, _most_abandoned(call.scorer))
    except AbandonedCallsError as error:
        return error
    running = GuardedCall(work, call.scorer)
    outcomes: SimpleQueue[CallResult[T]] = SimpleQueue()
    context = contextvars.copy_context()
    try:
        start(lambda: outcomes.put(CallResult(partial(context.run, running))))
    except RuntimeError:
        return _NoThreadError()
    try:
        try:
            outcome = received(outcomes, seconds)
        except Empty:
            if extended is None:
                raise
            outcome = received(outcomes, extended())
    except Empty:
        return scoring_deadline_error(call.ledgers)
    finally:
        running.abandon()
    return outcome.result()


async def _acall_until_deadline(
    call: ScorerCall,
    work: Callable[[], T],
    extended: Callable[[], float] | None = None,
    claim: Claim | None = None,
) -> T | MethodError:
    """:func:`_call_until_deadline` for event loops: in a thread, as soon as a slot is free.

    ``work`` raises no exit, which would end the event loop of all rankings.
    """
    import asyncio

    from secondpass.concurrency.threads import in_thread, with_timeout

    async def check_soon(call: ScorerCall) -> None:
        """Let abandoned calls end, which soon notice that, if there is time."""
        until = time.monotonic() + (_PATIENCE if call.seconds_left is None else 0.0)
        while True:
            try:
                return check_abandoned(call.scorer, _most_abandoned(call.scorer))
            except AbandonedCallsError:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(_LOOK_AGAIN)

    async def in_slot() -> T:
        async with _gates_of(call.scorer, claim).in_this_loop().taken():
            await check_soon(call)
            running = GuardedCall(work, call.scorer)
            try:
                return await in_thread(running)
            except RuntimeError:  # the call itself raises nothing
                raise _NoThreadError from None
            except asyncio.CancelledError:
                running.abandon()
                raise

    seconds = call.seconds_left
    try:
        if seconds is None:
            return await in_slot()
        return await with_timeout(in_slot(), seconds, extended)
    except TimeoutError:
        return scoring_deadline_error(call.ledgers)
    except (_NoThreadError, AbandonedCallsError) as error:
        return error


def _gates_of(scorer: object, claim: Claim | None) -> LoopGates:
    """What limits the threads in which an event loop calls this scorer."""
    if not joins_calls(scorer):
        return _SCORER_GATES
    return _JOINED_GATES if claim is None or claim.deadline == math.inf else _CLAIMING_GATES


def _most_abandoned(scorer: object) -> int:
    """Number of abandoned calls of a scorer from which it is not called in a thread."""
    return _JOINED_GATES.width if joins_calls(scorer) else _SCORER_GATES.width
