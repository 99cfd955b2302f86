"""Calls of scorers, in any thread: what they return or raise, and what they yield."""

from __future__ import annotations

import contextvars
import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from secondpass.asking.partial_scores import CollectedScores, LatestLists
from secondpass.asking.scheduler import (
    CallBatches,
    CallLists,
    CallScorer,
    ScorerCall,
    scoring_deadline_error,
    scoring_time_error,
)
from secondpass.concurrency.admission import CLAIM, Claim
from secondpass.concurrency.lazy import LOADING
from secondpass.concurrency.left_behind import RUNNING, AbandonedError
from secondpass.concurrency.turns import turns_of
from secondpass.errors import (
    MethodError,
    MissingExtraError,
    reraise_exit,
    with_article,
)
from secondpass.ranking.ledger import Ledger
from secondpass.ranking.observers import scoring
from secondpass.ranking.scoring import member, to_list

Scored: TypeAlias = list[list[Any]] | MethodError

_PART_SECONDS = 1.0
"""So long a scorer may go on, at the end of a part, once nobody waits for it."""


def score(call: CallScorer, *, in_task: bool = False) -> Scored:
    """Return the scores of each request, or the scorer's exception.

    An exit is raised again, unless a task waits for the call. The call is not made if its deadline
    has passed.
    """
    if call.seconds_left == 0:  # it may have waited for a free thread
        late = scoring_deadline_error(call.ledgers)
        late.sent = False
        return late
    with scoring(call.scorer, call.requests, call.operations) as running:
        try:
            outcome: Scored
            if any(ledger.timed for ledger in call.ledgers):
                outcome = _counting_loads(call).run(_scores, call)
            else:
                outcome = _scores(call)
        except BaseException as error:  # CancelledError included: the scorer may run its own loop
            if not in_task:
                reraise_exit(error)
            outcome = _to_method_error(error, call.ledgers)
        return running.ended(outcome)


def _counting_loads(call: ScorerCall) -> contextvars.Context:
    """A context for the scorer, in which the ledgers count the time in which models are loaded.

    An interruption ends it, too.
    """
    context = contextvars.copy_context()
    context.run(LOADING.set, [ledger.new_loading() for ledger in call.ledgers])
    return context


def _scores(call: CallScorer) -> list[list[Any]]:
    running = RUNNING.get()
    timed = any(ledger.timed for ledger in call.ledgers)
    if running is None or timed or not _may_be_divided(call):
        return _scores_of(call, call.requests)
    # In parts, because its caller may leave: then the next one is not begun.
    turns, most = turns_of(call.scorer), call.at_most or 1
    may_grow = _batch_size(call.scorer) is None
    scores: list[list[Any]] = [[] for _ in call.requests]
    left = [(number, *request) for number, request in enumerate(call.requests)]
    while left:
        if running.is_abandoned:
            raise AbandonedError
        part, left = _divided(left, most)
        began = time.monotonic()
        texts = sum(len(documents) for _, _, documents in part)
        found = _scores_of(call, [(query, documents) for _, query, documents in part])
        seconds = time.monotonic() - began
        turns.learn(texts, seconds)
        if seconds < _PART_SECONDS and may_grow:
            most *= 2
        for (number, _, _), values in zip(part, found, strict=True):
            scores[number] += values
    return scores


def _may_be_divided(call: CallScorer) -> bool:
    """Whether a scorer says itself that it scores each text alone.

    Where it says nothing, a call without a deadline is one call: its scores may depend on the list.
    """
    if call.at_most is None or joins_calls(call.scorer):
        return False
    is_pointwise = member(call.scorer, "pointwise", None) is True
    return is_pointwise or _batch_size(call.scorer) is not None


def _batch_size(scorer: object) -> Any:
    return member(scorer, "batch_size", None)


_Numbered: TypeAlias = list[tuple[int, str, list[str]]]


def _divided(requests: _Numbered, most: int) -> tuple[_Numbered, _Numbered]:
    """Requests with the first texts, and those with the others."""
    part: _Numbered = []
    left = deque(requests)
    while left and most > 0:
        number, query, documents = left.popleft()
        part.append((number, query, documents[:most]))
        if rest := documents[most:]:
            left.appendleft((number, query, rest))
        most -= len(documents)
    return part, [*left]


def _scores_of(call: CallScorer, requests: Sequence[tuple[str, list[str]]]) -> list[list[Any]]:
    # Counted before the call, because the scorer may change the lists.
    counts = [len(documents) for _, documents in requests]
    if len(requests) == 1:
        ((query, documents),) = requests
        results = [call.scorer.score_pairs(query, documents, **call.keywords)]
    else:
        results = to_list(call.scorer.score_many(requests, **call.keywords), len(counts))
    return [to_list(scores, count) for scores, count in zip(results, counts, strict=True)]


def joins_calls(scorer: object) -> bool:
    """Whether a scorer joins calls, and stops those that were abandoned."""
    return member(scorer, "joins_calls", False) is True


def collect(
    call: CallBatches | CallLists,
    collected: CollectedScores | LatestLists,
    claim: Claim,
    *,
    in_task: bool = False,
) -> None:
    """Collect what the scorer yields, and what it raises, until it ends or ``collected`` is taken.

    A scorer that joins calls reads the claim.
    """
    if call.seconds_left == 0 or collected.taken:  # it may have waited for a free thread
        return
    seconds = call.scorer_seconds_left
    deadline = None if seconds is None else time.monotonic() + seconds
    reads_claim = joins_calls(call.scorer) and claim.deadline < math.inf
    if not reads_claim:
        claim.first = time.monotonic()
    with scoring(call.scorer, call.requests, call.operations) as running:
        context = _counting_loads(call)
        context.run(CLAIM.set, claim if reads_claim else None)
        try:
            context.run(_collect, call, collected, claim, deadline)
        except BaseException as error:
            if not in_task:
                reraise_exit(error)
            if not isinstance(error, AbandonedError):  # its caller has said why it left
                collected.end(running.ended(_to_method_error(error, call.ledgers)))


def _collect(
    call: CallBatches | CallLists,
    collected: CollectedScores | LatestLists,
    claim: Claim,
    deadline: float | None,
) -> None:
    """Call the scorer until ``deadline``."""
    generate = getattr(call.scorer, call.member)
    results = generate(list(call.requests), deadline, **call.keywords)
    if not _add_all(results, collected, call.member):
        return
    if deadline is None and isinstance(collected, LatestLists):
        collected.end(None)
    else:
        reason = "the scorer found too little time left"
        collected.end(scoring_time_error(call.ledgers, claim, reason))


def _add_all(results: object, collected: CollectedScores | LatestLists, member: str) -> bool:
    """Add what the scorer yields; False if ``collected`` was taken before its end."""
    if not isinstance(results, Iterable):
        message = f"{member} returned {with_article(type(results).__name__)}, not a generator"
        raise MethodError(message, "scores_no_list")
    try:
        return all(map(collected.add, results))
    finally:
        if hasattr(results, "close"):  # as a generator has
            results.close()  # here, because its cleanup belongs to this thread and context


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
