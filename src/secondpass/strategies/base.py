"""What every strategy that asks a language model does with the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

from secondpass.effects import LLM, Answer, Judgement
from secondpass.errors import MethodError
from secondpass.prompts.readers import Grades
from secondpass.prompts.template import Prompting
from secondpass.types import Issue


class Notes:
    """Collects the issues of a judgement; equal ones become one."""

    def __init__(self, method: str) -> None:
        self.method = method
        self._found: dict[tuple[str, str], set[int]] = {}

    def add(self, code: str, message: str, positions: Sequence[int] = ()) -> None:
        """Something happened that concerns these indices of the task."""
        self._found.setdefault((code, message), set()).update(positions)

    def of_answer(self, answer: Answer[Any], indices: Sequence[int]) -> None:
        """What the driver met on the way to an answer about these indices."""
        for trouble in answer.troubles:
            self.add("asked_again", f"{trouble.code}: {trouble}")
        if answer.error is not None:
            self.add(answer.error.code, told(answer.error), indices)

    def issues(self) -> list[Issue]:
        """What was collected."""
        return [
            Issue(code, message, tuple(sorted(at)), (), self.method)
            for (code, message), at in self._found.items()
        ]


def told(error: MethodError) -> str:
    """The message of an error; readers speak of the reply as it."""
    if error.code in {"reply_refused", "empty_reply"}:
        return f"the model's reply cannot be used: {error}"
    return str(error)


def graded(
    name: str,
    count: int,
    stretches: Sequence[range],
    answers: Sequence[Answer[Grades]],
    *,
    word: str,
    notes: Notes | None = None,
) -> Judgement:
    """The judgement that answers about stretches of the task make together.

    Args:
        name: of the method.
        count: texts of the task.
        stretches: which of them each answer is about.
        answers: aligned with ``stretches``.
        word: what the numbers are called.
        notes: what happened before.

    Raises:
        MethodError: there is no answer, or one has scores on another scale.
    """
    for answer in answers:
        if answer.error is None:
            continue
        for error in (answer.error, *answer.troubles):
            if error.code == "score_out_of_range":
                # Other batches of the model may be on that scale too, within the range by chance.
                raise error
    notes = notes or Notes(name)
    scores: list[float | None] = [None] * count
    unjudged: set[int] = set()
    for stretch, answer in zip(stretches, answers, strict=True):
        notes.of_answer(answer, stretch)
        grades = answer.value
        if grades is None:
            unjudged.update(stretch)
            continue
        scores[stretch.start : stretch.stop] = grades.values
        refused = [stretch[at] for at in grades.refused]
        declined = [stretch[at] for at in grades.declined]
        known = {*refused, *declined}
        missing = [index for index in stretch if scores[index] is None and index not in known]
        unjudged.update(declined)
        if refused:
            notes.add(f"{word}_refused", f"the {word}s of these cannot be used", refused)
        if declined:
            notes.add("declined", "the model declined to judge these", declined)
        if missing:
            why = "the reply broke off before them" if grades.cut else "the reply leaves them out"
            notes.add("not_in_reply", why, missing)
        if grades.unknown:
            notes.add("unknown_label", "the reply has documents that were not shown")
    if all(answer.value is None for answer in answers) and answers[0].error is not None:
        raise answers[0].error
    return Judgement(scores, frozenset(unjudged), notes.issues())


def batches(count: int, size: int | None) -> Iterator[range]:
    """Stretches of so many indices, of sizes as equal as can be: small rests are judged badly."""
    number = 1 if size is None else -(-count // size)
    for at in range(number):
        yield range(count * at // number, count * (at + 1) // number)


class Asking:
    """A method that asks a language model.

    A kind of it sets ``role`` and ``instruction``, which the model is told unless ``prompt`` tells
    it something else.
    """

    role: ClassVar[str]
    instruction: ClassVar[str]

    llm: LLM
    prompt: Prompting

    @cached_property
    def wording(self) -> Prompting:
        """``prompt``, with the usual words where it has none."""
        return self.prompt.completed(self.role, self.instruction)

    @property
    def language_models(self) -> list[LLM]:
        """Those that are asked."""
        return [self.llm]

    def check_installed(self) -> None:
        """See whether what the language model needs is there.

        Raises:
            MissingExtraError: it is not.
        """
        self._of_the_model("check_installed")

    def warm_up(self) -> None:
        """Load what the language model needs."""
        self._of_the_model("warm_up")

    def close(self) -> None:
        """Close its connections."""
        self._of_the_model("close")

    def _of_the_model(self, name: str) -> None:
        act = getattr(self.llm, name, None)
        if act is not None:
            act()
