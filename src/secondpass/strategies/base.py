"""Shared by strategies that ask a language model: batches, issues and the base class.

One passage that a content filter blocks, that breaks the reply or that makes the prompt too long
takes the judgements of its whole batch. The batch is halved, and again what was refused of it, down
to single passages. For one such passage in a batch of n, that is at most 2 * ceil(log2(n)) more
questions, in ceil(log2(n)) more rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, TypeAlias, TypeVar

from secondpass.asking.life_cycle import call_if_present
from secondpass.effects import Ask, Call, Judgement, Plan
from secondpass.errors import LLMError, MethodError, ReplyError
from secondpass.prompts.replies.base import BatchScores
from secondpass.prompts.template import Prompting
from secondpass.questions import LLM, Answer, Question, Service
from secondpass.types import Issue

T = TypeVar("T")


class IssueCollector:
    """Collects the issues of one method. Issues of equal code and message become one."""

    def __init__(self, method: str) -> None:
        self.method = method
        self._positions: dict[tuple[str, str], set[int]] = {}

    def add(self, code: str, message: str, positions: Sequence[int] = ()) -> None:
        """Add an issue that concerns these indices of the task."""
        self._positions.setdefault((code, message), set()).update(positions)

    def add_answer(self, answer: Answer[Any], indices: Sequence[int]) -> None:
        """Add the error of an answer about these indices, and those from which it recovered."""
        self.add_recovered(replace(answer, error=None))
        if answer.error is not None:
            self.add(answer.error.code, error_message(answer.error), indices)

    def add_recovered(self, answer: Answer[Any]) -> None:
        """Add all errors of an answer, as those after which something else was asked."""
        for error in (*answer.troubles, answer.error):
            if error is not None:
                self.add("asked_again", f"{error.code}: {error}")

    def issues(self) -> list[Issue]:
        """The issues, in the order in which they were first added."""
        return [
            Issue(code, message, tuple(sorted(positions)), (), self.method)
            for (code, message), positions in self._positions.items()
        ]


def error_message(error: MethodError) -> str:
    """The message of an error. That of a ReplyError speaks of the reply as "it"."""
    if isinstance(error, ReplyError) or error.code in {"reply_refused", "empty_reply"}:
        return f"the model's reply cannot be used: {error}"
    return str(error)


def ask_each(llm: LLM, makers: Iterable[Callable[[], Question[Any, T]]]) -> Plan[list[Answer[T]]]:
    """Ask questions side by side, as one round.

    A question whose maker raises a MethodError, because its prompt does not fit into the context
    window, has an answer with that error; the others are asked.
    """
    questions: list[Question[Any, T]] = []
    failed: dict[int, Answer[T]] = {}
    for number, make in enumerate(makers):
        try:
            questions.append(make())
        except MethodError as error:
            failed[number] = Answer(error=error)
    if questions and not failed:
        return iter(Ask(llm, questions))
    return _ask_others(llm, questions, failed)


def _ask_others(
    llm: LLM, questions: Sequence[Question[Any, T]], failed: Mapping[int, Answer[T]]
) -> Plan[list[Answer[T]]]:
    """The answers to these questions, among those of the others, by their numbers."""
    answers = (yield from Ask(llm, questions)) if questions else []
    others = iter(answers)
    count = len(failed) + len(questions)
    return [failed[number] if number in failed else next(others) for number in range(count)]


def returned(value: T) -> Plan[T]:
    """A plan without effects that returns a value."""
    return value
    yield


def unanswered(error: MethodError) -> MethodError:
    """The error of a method whose question failed with ``error``, which names the reply."""
    message = error_message(error)
    if isinstance(error, LLMError):
        return error.with_message(message)
    return ReplyError(message, error.code) if isinstance(error, ReplyError) else error


def split_batches(count: int, size: int | None) -> Iterator[range]:
    """Split ``count`` indices into ranges of at most ``size``.

    Their sizes are as equal as possible: models score small remainders differently.
    """
    number = 1 if size is None else -(-count // size)
    for batch in range(number):
        yield range(count * batch // number, count * (batch + 1) // number)


def assumed_scores(count: int, score: float = 0.0) -> BatchScores:
    """The assumed answer of a dry run: equal scores, which keep the order."""
    return BatchScores((score,) * count, ())


def why_missing(*, cut: bool) -> str:
    """Why a reply has nothing about some documents: it was cut, or leaves them out."""
    return "the reply broke off before them" if cut else "the reply leaves them out"


def merge_batches(
    count: int, answers: Mapping[range, Answer[BatchScores]], *, word: str, issues: IssueCollector
) -> Judgement:
    """Merge the scores of all batches of a task, whose answers are by the indices of each.

    ``word`` is the name of a number in issues, such as ``score``.

    Raises:
        MethodError: no batch has an answer, or one has scores on another scale.
    """
    for answer in answers.values():
        if answer.error is None:
            continue
        for error in (answer.error, *answer.troubles):
            if error.code == "score_out_of_range":
                # Scores of other batches may be on the same wrong scale, and in range by chance.
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


class LLMStrategy:
    """Base class of strategies that ask a language model.

    Subclasses set ``kind``, for their name, and ``role`` and ``instruction``, the defaults of their
    prompts.
    """

    kind: ClassVar[str]
    role: ClassVar[str]
    instruction: ClassVar[str]
    takes_instruction: ClassVar[bool] = True

    llm: LLM
    prompt: Prompting

    @property
    def name(self) -> str:
        """The method's name in reports."""
        return f"{self.kind} by {self.llm.name}"

    @cached_property
    def prompting(self) -> Prompting:
        """``prompt``, completed with the defaults."""
        return self.prompt.completed(self.role, self.instruction)

    @property
    def language_models(self) -> list[LLM]:
        """The language model, in a list."""
        return [self.llm]

    def check_installed(self) -> None:
        """Raise a MissingExtraError unless the packages of the language model are installed."""
        call_if_present(self.llm, "check_installed")

    def warm_up(self) -> None:
        """Load what the language model needs for its first call."""
        call_if_present(self.llm, "warm_up")

    def close(self) -> None:
        """Close the language model's connections."""
        call_if_present(self.llm, "close")


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

    ``question`` builds the question about some texts of the task; it may raise a MethodError.
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
            halves += [part[: len(part) // 2], part[len(part) // 2 :]]
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
    if error is None or "score_out_of_range" in {item.code for item in (error, *answer.troubles)}:
        return False  # scores on another scale: none of any question is used
    if isinstance(error, ReplyError):
        return error.repairable and error.code != "bad_response"  # another server's page
    return error.code in _CONTENT or (isinstance(error, LLMError) and error.too_long)
