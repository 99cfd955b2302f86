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
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

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
from secondpass.concurrency.admission import CLAIM, Claim
from secondpass.concurrency.left_behind import AbandonedCallsError, Call, check_abandoned
from secondpass.concurrency.turns import HELD, WIDTH, Turn
from secondpass.errors import (
    DeadlineError,
    MethodError,
    MissingExtraError,
    NestedCallError,
    OverloadedError,
    with_article,
)
from secondpass.ranking.diagnostics import log_issues
from secondpass.ranking.ledger import Ledger
from secondpass.ranking.observers import scoring
from secondpass.ranking.result import Ranking
from secondpass.ranking.scoring import member, to_list

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

T = TypeVar("T")

EXITS = (KeyboardInterrupt, SystemExit)
"""Exceptions that a scorer call in the caller's thread passes on."""

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
    rankings: list[Ranking] = []
    while batch := list(islice(passes, _SIDE_BY_SIDE)):
        rankings += await arun(batch)
        log_issues((ranking.report for ranking in rankings[-len(batch) :]), log_level)
    return rankings


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
                asking = recall_or_ask(command.effect, command.ledger, command.gate)
                started[portal().submit(asking)] = command
                outcome = None
            else:
                from concurrent.futures import FIRST_COMPLETED, wait

                done, _ = wait(started, _wait_seconds(started.values()), FIRST_COMPLETED)
                outcome = _take_answers(started, done)
    finally:
        for future in started:
            future.cancel()
        work.close()


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


def _wait_seconds(started: Collection[StartQuestions]) -> float | None:
    """Seconds until the first of these is overdue; None if none has a running deadline."""
    ledgers = [command.ledger for command in started if not command.ledger.waiting]
    left = [seconds for ledger in ledgers if (seconds := ledger.question_seconds_left) is not None]
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


_Scored: TypeAlias = list[list[Any]] | MethodError


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
        sharing, claim = self.call.sharing, self.call.ledgers[0].claim
        assert sharing is not None
        self._turn = sharing.take(claim, self._pairs, wake, loop, time.monotonic())
        return self._turn.state == "waiting"

    @property
    def seconds(self) -> float | None:
        """Seconds until the turn is over at the latest; None for no limit."""
        assert self._turn is not None
        latest = self._turn.claim.latest(self._turn.rank)
        return None if latest == math.inf else max(0.0, latest - time.monotonic())

    def begin(self) -> DeadlineError | None:
        """Begin the call, unless its time is over."""
        if self._turn is not None and self._turns is not None:
            if self._turn.state != "running":
                return scoring_deadline_error(self.call.ledgers)
            HELD.set((*HELD.get(), self._turns))
            self.call = self.call.with_first(self._turn.pairs)
        return None

    def started(self) -> None:
        """Note that the scorer is called now. A call may wait for a thread after its turn began."""
        self._began = time.monotonic()
        if self._turn is not None:
            self._turn.began = self._began

    def end(self, outcome: _Scored | None) -> None:
        now = time.monotonic()
        began = now if self._began is None else self._began
        if self._began is None and isinstance(outcome, DeadlineError):
            outcome.sent = False
        for ledger in self.call.ledgers:
            ledger.add_times(began - self._asked, now - began)
        scored = self._began is not None and isinstance(outcome, list)
        interrupted = self._began is not None and isinstance(outcome, DeadlineError)
        if self._turn is not None and self._turns is not None:
            HELD.set(tuple(held for held in HELD.get() if held is not self._turns))
            self._turns.end(self._turn, now, scored=scored, interrupted=interrupted)
        elif scored and self._turns is not None:
            self._turns.learn(self._pairs, now - began)


def _score_in_turn(call: CallScorer) -> _Scored:
    outcome: _Scored | None = None
    turn = _InTurn(call)
    try:
        if turn.shares:
            woken = threading.Event()
            if turn.take(woken.set):
                seconds = turn.seconds
                woken.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        outcome = turn.begin()
        if outcome is None:
            turn.started()
            outcome = _until_deadline(call, lambda: score(turn.call))
        return outcome
    except OverloadedError as error:
        return error
    finally:
        turn.end(outcome)


def _collection(
    call: CallBatches | CallLists, reraised: tuple[type[BaseException], ...] = EXITS
) -> tuple[BatchScores | LatestLists, Claim, Callable[[], None]]:
    """A collector for the results of a call, its claim, and a function that makes the call."""
    collected: BatchScores | LatestLists
    if isinstance(call, CallBatches):
        ((_, documents),) = call.requests
        collected = BatchScores(len(documents), scoring_deadline_error(call.ledgers))
    else:
        collected = LatestLists(call.requests, scoring_deadline_error(call.ledgers))
    claim = call.ledgers[0].claim()
    return collected, claim, lambda: collect(call, collected, reraised, claim)


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
    outcome: list[T] = []
    raised: list[BaseException] = []

    def run_work() -> None:
        try:
            outcome.append(running())
        except BaseException as error:
            raised.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run_work,), name="secondpass", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return _NoThreadError()
    try:
        thread.join(min(seconds, threading.TIMEOUT_MAX))
        if thread.is_alive():
            thread.join(min(more_seconds(), threading.TIMEOUT_MAX))
    finally:
        running.abandon()
    if raised:
        raise raised[0]
    return outcome[0] if outcome else scoring_deadline_error(call.ledgers)


# An exit that is raised in a task would end the event loop of all rankings, so tasks catch it.


async def _ascore_in_turn(call: CallScorer) -> _Scored:
    import asyncio

    outcome: _Scored | None = None
    turn = _InTurn(call)

    def work() -> _Scored:
        turn.started()
        return score(turn.call, reraised=())

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
        outcome = turn.begin()
        if outcome is None:
            outcome = await _in_thread(call, work)
        return outcome
    except OverloadedError as error:
        return error
    finally:
        turn.end(outcome)


async def _collect_in_thread(call: CallBatches | CallLists) -> Any:
    collected, claim, work = _collection(call, reraised=())
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


# ---------------------------------------------------------------------- calls, in any thread


def score(
    call: CallScorer, reraised: tuple[type[BaseException], ...] = EXITS
) -> list[list[Any]] | MethodError:
    """Return the scores of each request, or the scorer's exception, unless it is reraised.

    The call is not made if its deadline has passed.
    """
    if call.seconds_left == 0:  # it may have waited for a free thread
        late = scoring_deadline_error(call.ledgers)
        late.sent = False
        return late
    with scoring(call.scorer, call.requests, call.operations) as running:
        try:
            outcome: _Scored = _scores(call)
        except reraised:
            raise
        except BaseException as error:  # CancelledError included: the scorer may run its own loop
            outcome = _to_method_error(error, call.ledgers)
        return running.ended(outcome)


def _scores(call: CallScorer) -> list[list[Any]]:
    # Counted before the call, because the scorer may change the lists.
    counts = [len(documents) for _, documents in call.requests]
    if len(call.requests) == 1:
        ((query, documents),) = call.requests
        results = [call.scorer.score_pairs(query, documents, **call.keywords)]
    else:
        results = to_list(call.scorer.score_many(call.requests, **call.keywords), len(counts))
    return [to_list(scores, count) for scores, count in zip(results, counts, strict=True)]


def collect(
    call: CallBatches | CallLists,
    collected: BatchScores | LatestLists,
    reraised: tuple[type[BaseException], ...] = EXITS,
    claim: Claim | None = None,
) -> None:
    """Collect what the scorer yields, and what it raises, until it ends or ``collected`` is taken.

    A scorer that joins calls reads the claim. Others end at the target, and are called again for
    those of the first ``min_depth`` documents that they left out.
    """
    if call.seconds_left == 0 or collected.taken:  # it may have waited for a free thread
        return
    seconds = call.scorer_seconds_left
    end = deadline = None if seconds is None else time.monotonic() + seconds
    limited = claim is not None and claim.until < math.inf
    joins = member(call.scorer, "joins_calls", False) is True
    if claim is not None and not (limited and joins):
        claim.first = time.monotonic()
        if claim.target < math.inf:
            deadline = min(claim.target, deadline or math.inf)
    token = CLAIM.set(claim if limited and joins else None)
    with scoring(call.scorer, call.requests, call.operations) as running:
        try:
            generate = getattr(call.scorer, call.member)
            results = generate(list(call.requests), deadline, **call.keywords)
            completed = _add_all(results, collected, call.member)
            if completed and deadline != end and claim is not None:
                completed = _add_first(call, collected, claim.min_depth, end)
            if completed:
                late = DeadlineError("the scorer ended without scoring these")
                collected.end(None if deadline is None else late)
        except reraised:
            raise
        except BaseException as error:
            collected.end(running.ended(_to_method_error(error, call.ledgers)))
        finally:
            CLAIM.reset(token)


def _add_first(
    call: CallBatches | CallLists,
    collected: BatchScores | LatestLists,
    depth: int,
    deadline: float | None,
) -> bool:
    """Score those of the first documents that the target left out; False as :func:`_add_all`."""
    if not isinstance(collected, BatchScores) or not (missing := collected.missing(depth)):
        return True
    ((query, documents),) = call.requests
    collected.only(missing)
    request = query, [documents[index] for index in missing]
    results = getattr(call.scorer, call.member)([request], deadline, **call.keywords)
    return _add_all(results, collected, call.member)


def _add_all(results: object, collected: BatchScores | LatestLists, member: str) -> bool:
    """Add what the scorer yields; False if ``collected`` was taken before its end."""
    if not isinstance(results, Iterable):
        message = f"{member} returned {with_article(type(results).__name__)}, not a generator"
        raise MethodError(message, "scores_no_list")
    close = getattr(results, "close", lambda: None)
    try:
        return all(map(collected.add, results))
    finally:
        close()  # here, because its cleanup belongs to this thread and context


def _to_method_error(error: BaseException, ledgers: Sequence[Ledger]) -> MethodError:
    """An exception of a scorer as an error that a report may contain."""
    if isinstance(error, MethodError):
        return error
    if isinstance(error, MissingExtraError):
        return MethodError(str(error), error.code)
    for ledger in ledgers:
        ledger.record_exception(error, "the scorer")
    # The exception's message may contain a passage or a key.
    return MethodError(f"the scorer raised {type(error).__name__}", "scorer_raised")
