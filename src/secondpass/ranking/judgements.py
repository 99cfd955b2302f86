"""Runs methods, and validates what they return."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from secondpass.effects import Judgement, Method, Plan, Task
from secondpass.errors import MethodError
from secondpass.ranking.scoring import check_kind, member, to_span
from secondpass.types import Issue

INSTRUCTION_NOT_USED = "instruction_not_used"
"""Code of the issue of a method that takes no instruction, in a call that has one."""


def judged(method: Method, task: Task) -> Plan[Judgement]:
    """Run the method and validate its result.

    If the task has an instruction that the method does not take, an issue says so.

    Raises:
        MethodError: the method raised an exception, or its result is not usable.
    """
    cause: BaseException | None
    started = task.call.started(method, len(task.texts))
    try:
        judgement = checked((yield from method.judge(task)), task)
    except MethodError as error:
        failure, cause = error, error.__cause__
    except Exception as error:
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
    raise failure


def checked(judgement: Judgement, task: Task) -> Judgement:
    """Return what a method returned, without scores if it keeps the original order.

    Raises:
        MethodError: the result is not aligned with the texts of the task, or not well formed.
    """
    scores, count = judgement.scores, len(task.texts)
    if judgement.original is not None and not 0 <= judgement.original <= 1:
        raise MethodError(
            "the method's weight of the original order is not within 0 to 1", "original_invalid"
        )
    indices = {*judgement.unjudged, *judgement.beyond}
    indices.update(index for issue in judgement.issues for index in issue.positions)
    if not all(hasattr(type(index), "__index__") and 0 <= index < count for index in indices):
        raise MethodError(
            f"the method returned positions that are not within 0 to {count - 1}",
            "unknown_position",
        )
    if judgement.original == 1:
        return Judgement([None] * count, frozenset(range(count)), judgement.issues, original=1.0)
    if len(scores) != count:
        raise MethodError(
            f"the method returned {len(scores)} scores for {count} texts", "score_count"
        )
    present = [score for score in scores if score is not None]
    if not present and len(judgement.beyond) < count:
        raise MethodError("the method judged nothing", "nothing_judged")
    if not all(type(score) is float and math.isfinite(score) for score in present):
        raise MethodError(
            "the method returned scores that are not finite floats", "score_not_finite"
        )
    if judgement.score_kind is not None:
        check_kind(judgement.score_kind)
    if judgement.stage_scores is not None and len(judgement.stage_scores) != count:
        raise MethodError(
            f"the method returned {len(judgement.stage_scores)} stage scores for {count} texts",
            "stage_score_count",
        )
    _check_parts(judgement, task)
    return judgement


def _check_parts(judgement: Judgement, task: Task) -> None:
    """Check the order scores, spans and spreads that a method returned.

    Raises:
        MethodError: they are not aligned with the texts of the task, or not well formed.
    """
    spans, spreads, count = judgement.spans, judgement.spreads, len(task.texts)
    if (order := judgement.order_scores) is not None:
        known = [score is None for score in judgement.scores] == [score is None for score in order]
        present = [score for score in order if score is not None]
        if not known or not all(type(score) is float and math.isfinite(score) for score in present):
            message = "the method did not return a finite float to order each text with a score by"
            raise MethodError(message, "score_not_finite")
    if spans is not None:
        if len(spans) != count:
            message = f"the method returned {len(spans)} spans for {count} texts"
            raise MethodError(message, "span_invalid")
        for span, text in zip(spans, task.texts, strict=True):
            if span is not None and to_span(span, len(text)) != span:
                message = "a span of the method is not (start, stop) within its text"
                raise MethodError(message, "span_invalid")
    if spreads is not None:
        numbers = [spread for spread in spreads if spread is not None]
        valid = all(type(number) is float and 0 <= number < math.inf for number in numbers)
        if not valid or len(spreads) != count:
            message = "the method did not return a float of at least 0, or None, as each spread"
            raise MethodError(message, "spread_invalid")


def converted(part: Task, whole: Task, convert: Callable[[Judgement], Judgement]) -> Task:
    """A task of a method that runs in a method that judges ``whole``.

    Its interim judgements become those of the whole task.

    Args:
        part: the task of the inner method.
        whole: the task of the outer method.
        convert: converts a judgement of ``part`` into one of ``whole``.
    """
    if whole.call.relay is None:
        return part

    def relay(task: Task, judgement: Callable[[], Judgement]) -> Plan[None]:
        if task is heard:
            yield from whole.call.interim(whole, lambda: convert(checked(judgement(), heard)))

    heard = replace(part, call=whole.call.heard_by(relay))
    return heard
