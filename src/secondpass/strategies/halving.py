"""Asks about batches, and about the halves of one that was refused because of its content.

One passage that a content filter blocks, that breaks the reply or that makes the prompt too long
takes the judgements of its whole batch. The batch is halved, and again what was refused of it, down
to single passages. For one such passage in a batch of n, that is at most 2 * ceil(log2(n)) more
questions, in ceil(log2(n)) more rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

from secondpass.effects import Answer, Call, Plan, Question, Service
from secondpass.errors import LLMError, MethodError, ReplyError
from secondpass.strategies.base import IssueCollector, ask_each

T = TypeVar("T")

AskParts: TypeAlias = Callable[[Sequence[range], bool], Plan[Mapping[range, Answer[T]]]]
"""Asks about ranges of texts; the second argument says whether that repairs refused questions.

Its result may have smaller ranges, of which each text is in one."""

_CONTENT = frozenset({"content_filter", "empty_reply", "reply_refused", "too_long"})
"""Codes of errors that may be due to what a question shows."""


def ask_batches(
    call: Call,
    service: Service[Any],
    question: Callable[[range], Question[Any, T]],
    batches: Sequence[range],
    issues: IssueCollector,
) -> Plan[dict[range, Answer[T]]]:
    """Ask a question about each batch, and about the halves of those that are refused.

    Args:
        call: that of the task.
        service: what is asked.
        question: builds the question about some texts of the task; may raise MethodError.
        batches: their indices.
        issues: gets the errors of questions whose halves were asked instead.
    """

    def ask(parts: Sequence[range], repairs: bool) -> Plan[Mapping[range, Answer[T]]]:
        def made(part: range) -> Question[Any, T]:
            return repairing(question(part)) if repairs else question(part)

        answers = yield from ask_each(service, [partial(made, part) for part in parts])
        return dict(zip(parts, answers, strict=True))

    return ask_in_halves(call, ask, batches, issues)


def ask_in_halves(
    call: Call, ask: AskParts[T], batches: Sequence[range], issues: IssueCollector
) -> Plan[dict[range, Answer[T]]]:
    """Ask about batches; about the halves of those that are refused, as far as limits allow.

    ``limits.repair: 0`` turns that off. While nothing at all is answered, one batch alone is halved
    and followed down to a passage: a service that refuses everything is given up after that.

    Args:
        call: that of the task.
        ask: asks about some texts of the task.
        batches: indices of texts.
        issues: gets the errors of questions whose halves were asked instead.

    Returns:
        The answers, by the ranges that were asked about last.
    """
    answers = dict((yield from ask(batches, False)))
    followed = False  # whether one batch was halved down to a passage, and nothing answered
    while refused := [part for part in answers if len(part) > 1 and _is_refused(answers[part])]:
        if all(answer.value is None for answer in answers.values()):
            if followed:
                break
            refused = [min(refused, key=len)]
            followed = len(refused[0]) == 2
        if call.rounds_left(2, repairs=True) == 0:
            break
        halves = [half for part in refused for half in _halves(part)]
        for part in refused:
            issues.add_recovered(answers.pop(part))
        answers |= yield from ask(halves, True)
    return dict(sorted(answers.items(), key=lambda item: item[0].start))


def repairing(question: Question[Any, T]) -> Question[Any, T]:
    """The question, as one about a part of a refused one: it counts as a repair.

    It is neither repaired itself, nor are its passages shortened.
    """
    return replace(question, repairs=True, shrink=lambda: None)


def _halves(part: range) -> tuple[range, range]:
    middle = len(part) // 2
    return part[:middle], part[middle:]


def _is_refused(answer: Answer[Any]) -> bool:
    """Whether a question has no answer because of what it shows."""
    error = answer.error
    if error is None or _on_another_scale(error, *answer.troubles):
        return False
    if isinstance(error, ReplyError):
        return error.repairable and error.code != "bad_response"  # another server's page
    return error.code in _CONTENT or (isinstance(error, LLMError) and error.too_long)


def _on_another_scale(*errors: MethodError) -> bool:
    """Whether a reply had scores on another scale, so that none of any question is used."""
    return any(error.code == "score_out_of_range" for error in errors)
