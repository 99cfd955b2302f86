"""Grades: candidates are scored in batches, on a stated scale, by stated criteria.

Zhuang, Qin, Hui, Wu, Yan, Wang and Bendersky, "Beyond yes and no: improving zero-shot LLM rankers
via scoring fine-grained relevance labels", NAACL 2024: grades rather than yes or no. There each
document is graded alone; a batch costs fewer calls and lets the model compare.

For n candidates and batches of b: ceil(n / b) calls, side by side in 1 round; every document is
read once. 100 candidates in batches of 20 are 5 calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.effects import LLM, Answer, Ask, Completion, Judgement, Plan, Task
from secondpass.errors import ConfigurationError
from secondpass.llms import LLM_SETTING
from secondpass.prompts.label_lookup import Labels
from secondpass.prompts.labels import LabelKind
from secondpass.prompts.questions import Form, Questions
from secondpass.prompts.replies.scores import read_grades
from secondpass.prompts.replies.values import BatchScores
from secondpass.prompts.template import Prompting
from secondpass.settings import configurable, nested
from secondpass.strategies.base import LLMStrategy, merge_batches, split_batches
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Len


@configurable
class Graded(LLMStrategy):
    """Has a language model grade candidates, a batch a question.

    Args:
        llm: who grades: a mapping with a ``type``, an LLM object, or a function.
        scale: lowest and highest grade.
        batch_size: candidates a question at most; None puts all into one.
        reply: ``keyed`` asks for an object that maps each label to its grade, ``pairs`` for an
            array of objects.
        labels: what candidates are called: ``opaque`` (short, and nobody who writes a passage can
            know them), their ``id``, or numbers from 0 or 1.
        bare: with ``pairs``, ask for the array itself; no schema is sent then.
        whole: whether grades are whole numbers.
        judge_single: whether to ask about a list of a single candidate, or to leave it as it is.
        prompt: what the model is told and shown.

    The score kind is ``grade``.
    """

    role = "You grade how well documents answer a search query."
    instruction = (
        "Grade each of the {count} documents by how well it answers the query, from {lowest} (not "
        "at all) to {highest} (fully). Judge each by itself; equal grades are allowed."
    )
    score_kind: ScoreKind = "grade"

    def __init__(
        self,
        llm: Annotated[Any, LLM_SETTING],
        *,
        scale: Annotated[Sequence[float], Len(2, 2)] = (0.0, 10.0),
        batch_size: Annotated[int, Ge(1)] | None = 20,
        reply: Literal["keyed", "pairs"] = "keyed",
        labels: LabelKind = "opaque",
        bare: bool = False,
        whole: bool = False,
        judge_single: bool = True,
        prompt: Annotated[Prompting | None, nested(Prompting, optional=True)] = None,
    ) -> None:
        low, high = (float(end) for end in scale)
        if not (low < high and math.isfinite(high - low)):
            raise ConfigurationError(
                "scale: give the lowest and the highest grade, a finite distance apart"
            )
        if bare and reply == "keyed":
            raise ConfigurationError("bare: is for arrays; reply 'keyed' asks for an object")
        self.llm: LLM = llm
        self.scale = (low, high)
        self.batch_size = batch_size
        self.reply = reply
        self.labels = labels
        self.bare = bare
        self.whole = whole
        self.judge_single = judge_single
        self.prompt = prompt or Prompting()

    @property
    def name(self) -> str:
        """For reports."""
        return f"graded by {self.llm.name}"

    def judge(self, task: Task) -> Plan[Judgement]:
        """One Ask effect with a question for each batch.

        Raises:
            MethodError: no batch was answered.
        """
        count = len(task.texts)
        if count == 1 and not self.judge_single:
            return Judgement([None], beyond=frozenset({0}))
        questions = Questions(
            task,
            self.llm,
            self.prompting,
            Form(self.reply, self.labels, self.bare, whole=self.whole, bounds=self.scale),
            read=self._read,
            scale=self.scale,
        )
        stretches = list(split_batches(count, self.batch_size))
        answers: list[Answer[BatchScores]] = yield Ask(
            self.llm, [questions.about(stretch) for stretch in stretches]
        )
        return merge_batches(self.name, count, stretches, answers, word="grade")

    def _read(self, completion: Completion, labels: Labels) -> BatchScores:
        return read_grades(completion, labels, *self.scale, whole=self.whole)
