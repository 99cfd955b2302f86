"""Shared by strategies that ask a language model: the base class, and questions side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from secondpass.asking.batches import ask_in_halves, repairing
from secondpass.asking.life_cycle import call_if_present
from secondpass.effects import Ask, Call, Plan
from secondpass.errors import MethodError
from secondpass.llms import EXAMPLE
from secondpass.prompts.replies.base import BatchScores
from secondpass.prompts.template import Prompting
from secondpass.questions import LLM, Answer, Question, Service
from secondpass.ranking.issues import IssueCollector

T = TypeVar("T")


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
    answers: Sequence[Answer[T]] = (yield Ask(llm, questions)) if questions else []
    others = iter(answers)
    count = len(failed) + len(questions)
    return [failed[number] if number in failed else next(others) for number in range(count)]


def returned(value: T) -> Plan[T]:
    """A plan without effects that returns a value."""
    return value
    yield


def assumed_scores(count: int, score: float = 0.0) -> BatchScores:
    """The assumed answer of a dry run: equal scores, which keep the order."""
    return BatchScores((score,) * count, ())


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

    _EXAMPLES = MappingProxyType({"llm": EXAMPLE})

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
