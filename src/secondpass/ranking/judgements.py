"""Runs methods, and checks the judgements that they return."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import get_args

from secondpass.effects import Judgement, Method, Plan, Task
from secondpass.errors import MethodError, reraise_exit
from secondpass.ranking.scoring import DOUBTFUL, check_kind, member, to_pieces, to_span
from secondpass.settings import counted
from secondpass.types import DegradedBy, Issue

INSTRUCTION_NOT_USED = "instruction_not_used"
"""Code of the issue of a method that takes no instruction, in a call that has one."""

_NOT_ENGLISH = "not_english"
"""Code of the issue of a list that is not English, by a method that reads English only."""


def judged(method: Method, task: Task) -> Plan[Judgement]:
    """Run the method and validate its result.

    If the task has an instruction that the method does not take, an issue says so.

    Raises:
        MethodError: the method raised an exception, or its result is not usable.
    """
    started = task.call.started(method, len(task.texts))
    cause: BaseException | None
    try:
        judgement = checked((yield from method.judge(task)), task)
    except MethodError as error:
        # Its frames hold what it is part of: a cycle would keep the texts and the model alive.
        failure, cause = error.with_traceback(None), error.__cause__
    except GeneratorExit:  # the plan is closed
        raise
    except BaseException as error:
        reraise_exit(error)
        # The message of a foreign exception may hold anything.
        failure = MethodError(f"it raised {type(error).__name__}", "method_failed")
        cause = error
    else:
        task.call.ended(started, judgement)
        if task.instruction is None or member(method, "takes_instruction", False) is True:
            return judgement
        message = "the method takes no instruction, so that of this call had no effect"
        issue = Issue(INSTRUCTION_NOT_USED, message, (), (), method.name)
        return replace(judgement, issues=[*judgement.issues, issue])
    if cause is not None:
        task.call.raised(cause, "the method")
    task.call.ended(started, failure)
    try:
        raise failure
    finally:
        del failure, cause  # its traceback holds this frame


def checked(judgement: Judgement, task: Task) -> Judgement:
    """Return what a method returned, without scores if it keeps the original order.

    Raises:
        MethodError: the result is not aligned with the texts of the task, or not well formed.
    """
    count = len(task.texts)
    if judgement.original is not None and not 0 <= judgement.original <= 1:
        message = "the method's weight of the original order is not within 0 to 1"
        raise MethodError(message, "original_invalid")
    _check_positions(judgement, count)
    if judgement.original == 1:
        return Judgement([None] * count, frozenset(range(count)), judgement.issues, original=1.0)
    _check_scores(judgement, count)
    if judgement.score_kind is not None:
        check_kind(judgement.score_kind)
    if judgement.stage_scores is not None and len(judgement.stage_scores) != count:
        returned = counted(len(judgement.stage_scores), "stage score")
        message = f"the method returned {returned} for {counted(count, 'text')}"
        raise MethodError(message, "stage_score_count")
    if not {*judgement.degraded_by} <= {*get_args(DegradedBy)}:
        reasons = ", ".join(get_args(DegradedBy))
        message = f"the method's degraded_by has other values than {reasons}"
        raise MethodError(message, "degraded_by_invalid")
    _check_order_scores(judgement)
    _check_spans(judgement, task)
    _check_pieces(judgement, task)
    return judgement


def _check_positions(judgement: Judgement, count: int) -> None:
    indices = {*judgement.unjudged, *judgement.beyond}
    for issue in judgement.issues:
        indices.update(issue.positions)
    if not all(hasattr(type(index), "__index__") and 0 <= index < count for index in indices):
        message = f"the method returned positions that are not within 0 to {count - 1}"
        raise MethodError(message, "unknown_position")


def _check_scores(judgement: Judgement, count: int) -> None:
    scores = judgement.scores
    if len(scores) != count:
        returned = counted(len(scores), "score")
        message = f"the method returned {returned} for {counted(count, 'text')}"
        raise MethodError(message, "score_count")
    present = [score for score in scores if score is not None]
    if not present and len(judgement.beyond) < count:
        raise MethodError("the method judged nothing", "nothing_judged")
    if not _are_finite(present):
        message = "the method returned scores that are not finite floats"
        raise MethodError(message, "score_not_finite")


def _check_order_scores(judgement: Judgement) -> None:
    """Check that exactly the texts with a score have a finite float to be ordered by."""
    order = judgement.order_scores
    if order is None:
        return
    without_score = [score is None for score in judgement.scores]
    without_order = [score is None for score in order]
    present = [score for score in order if score is not None]
    if without_score != without_order or not _are_finite(present):
        message = "the method did not return a finite float to order each text with a score by"
        raise MethodError(message, "score_not_finite")


def _check_spans(judgement: Judgement, task: Task) -> None:
    spans, count = judgement.spans, len(task.texts)
    if spans is None:
        return
    if len(spans) != count:
        message = f"the method returned {counted(len(spans), 'span')} for {counted(count, 'text')}"
        raise MethodError(message, "span_invalid")
    for span, text in zip(spans, task.texts, strict=True):
        if span is not None and to_span(span, len(text)) != span:
            message = "a span of the method is not (start, stop) within its text"
            raise MethodError(message, "span_invalid")


def _check_pieces(judgement: Judgement, task: Task) -> None:
    pieces = judgement.pieces
    if pieces is None:
        return
    are_valid = len(pieces) == len(task.texts) and all(
        parts is None or to_pieces(parts, len(text)) is not None
        for parts, text in zip(pieces, task.texts, strict=True)
    )
    if not are_valid:
        message = "pieces of the method are not (start, stop, score) in the order of their text"
        raise MethodError(message, "span_invalid")


def _are_finite(scores: Iterable[object]) -> bool:
    return all(type(score) is float and math.isfinite(score) for score in scores)


def reasons_of(judgement: Judgement) -> set[DegradedBy]:
    """Why a ranking by this judgement is ``degraded``; empty if it is not."""
    codes = {issue.code for issue in judgement.issues}
    reasons = {*judgement.degraded_by}
    if judgement.original:
        reasons.add("language" if _NOT_ENGLISH in codes else "original")
    if DOUBTFUL in codes:
        reasons.add("doubtful")
    return reasons


def with_listener(task: Task, receive: Callable[[Callable[[], Judgement]], Plan[None]]) -> Task:
    """A task whose interim judgements ``receive`` gets.

    Judgements of other tasks with the same call, such as those that a method makes of this one, do
    not fit its texts. They are ignored.

    Args:
        task: the task; is not changed.
        receive: called with a function that returns the interim judgement. That function raises a
            MethodError if the judgement is not usable.
    """

    def relay(about: Task, judgement: Callable[[], Judgement]) -> Plan[None]:
        if about is listened_to:
            yield from receive(lambda: checked(judgement(), about))

    listened_to = replace(task, call=task.call.heard_by(relay))
    return listened_to


def converted(part: Task, whole: Task, convert: Callable[[Judgement], Judgement]) -> Task:
    """A task of a method that runs in a method that judges ``whole``.

    Its interim judgements become those of the whole task.

    Args:
        part: the task of the inner method, with the call of the whole task.
        whole: the task of the outer method.
        convert: converts a judgement of ``part`` into one of ``whole``.
    """
    if whole.call.relay is None:
        return part
    return with_listener(
        part, lambda judgement: whole.call.interim(whole, lambda: convert(judgement()))
    )
