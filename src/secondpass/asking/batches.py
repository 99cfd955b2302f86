"""Asks about batches of texts, in halves what is refused, and merges the scores of all batches.

One passage that a content filter blocks, that breaks the reply or that makes the prompt too long
takes the judgements of its whole batch. The batch is halved, and again what was refused of it, down
to single passages. For one such passage in a batch of n, that is at most 2 * ceil(log2(n)) more
questions, in ceil(log2(n)) more rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from secondpass.effects import Call, Judgement, Plan
from secondpass.errors import LLMError, ReplyError
from secondpass.prompts.replies.base import BatchScores
from secondpass.questions import Answer, Question
from secondpass.ranking.issues import IssueCollector, unanswered, why_missing

T = TypeVar("T")


def split_batches(count: int, size: int | None) -> Iterator[range]:
    """Split ``count`` indices into ranges of at most ``size``.

    Their sizes are as equal as possible: models score small remainders differently.
    """
    number = 1 if size is None else math.ceil(count / size)
    for batch in range(number):
        yield range(count * batch // number, count * (batch + 1) // number)


AskParts: TypeAlias = Callable[[Sequence[range], bool], Plan[Mapping[range, Answer[T]]]]
"""Asks about ranges of texts; the second argument says whether that repairs refused questions.

Its result may have smaller ranges, of which each text is in one."""

_CONTENT = frozenset({"content_filter", "empty_reply", "reply_refused", "too_long"})
"""Codes of errors that may be due to what a question shows."""


def ask_in_halves(
    call: Call, ask: AskParts[T], batches: Sequence[range], issues: IssueCollector
) -> Plan[dict[range, Answer[T]]]:
    """Ask about batches; about the halves of those that are refused, as far as limits allow.

    ``limits.repair: 0`` turns that off. While nothing at all is answered, one batch alone is halved
    and followed down to a passage: a service that refuses everything is given up after that.

    ``issues`` gets the errors of questions whose halves were asked instead. The answers are by the
    ranges that were asked about last.
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
        halves = []
        for part in refused:
            issues.add_recovered(answers.pop(part))
            middle = len(part) // 2
            halves += [part[:middle], part[middle:]]
        answers |= yield from ask(halves, True)
    return dict(sorted(answers.items(), key=lambda item: item[0].start))


def repairing(question: Question[Any, T]) -> Question[Any, T]:
    """The question, as one about a part of a refused one: it counts as a repair.

    It is neither repaired itself, nor are its passages shortened.
    """
    return replace(question, repairs=True, shrink=lambda: None)


def _is_refused(answer: Answer[Any]) -> bool:
    """Whether a question has no answer because of what it shows."""
    error = answer.error
    if error is None:
        return False
    if any(item.code == "score_out_of_range" for item in (error, *answer.troubles)):
        return False  # scores on another scale: none of any question is used
    if isinstance(error, ReplyError):
        return error.repairable and error.code != "bad_response"  # another server's page
    return error.code in _CONTENT or (isinstance(error, LLMError) and error.too_long)


def merge_batches(
    count: int, answers: Mapping[range, Answer[BatchScores]], *, word: str, issues: IssueCollector
) -> Judgement:
    """Merge the scores of all batches of a task, whose answers are by the indices of each.

    ``word`` is the name of a number in issues, such as ``score``.

    Raises:
        MethodError: no batch has an answer, or one has scores on another scale.
    """
    for answer in answers.values():
        if answer.error is not None:
            for error in (answer.error, *answer.troubles):
                if error.code == "score_out_of_range":
                    # Scores of other batches may be on that scale, too, and in range by chance.
                    raise error
    scores: list[float | None] = [None] * count
    unjudged: set[int] = set()
    for batch, answer in answers.items():
        issues.add_answer(answer, batch)
        result = answer.value
        if result is None:
            unjudged.update(batch)
            continue
        scores[batch.start : batch.stop] = result.values
        refused = [batch[place] for place in result.refused]
        declined = [batch[place] for place in result.declined]
        known = {*refused, *declined}
        missing = [index for index in batch if scores[index] is None and index not in known]
        unjudged.update(declined)
        if refused:
            issues.add(f"{word}_refused", f"the {word}s of these cannot be used", refused)
        if declined:
            issues.add("declined", "the model declined to judge these", declined)
        if missing:
            issues.add("not_in_reply", why_missing(cut=result.cut), missing)
        if result.unknown:
            issues.add("unknown_label", "the reply has documents that were not shown")
    errors = [answer.error for answer in answers.values() if answer.value is None]
    if len(errors) == len(answers) and errors[0] is not None:
        raise unanswered(errors[0])
    return Judgement(scores, frozenset(unjudged), issues.issues())
