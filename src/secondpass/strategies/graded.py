"""Graded: candidates are scored in batches, on a stated scale, by stated criteria.

Zhuang, Qin, Hui, Wu, Yan, Wang and Bendersky, "Beyond yes and no: improving zero-shot LLM rankers
via scoring fine-grained relevance labels", NAACL 2024: grades rather than yes or no. There each
document is graded alone; a batch costs fewer calls and lets the model compare.

For n candidates and batches of b: ceil(n / b) calls, side by side in 1 round; every document is
read once. 100 candidates in batches of 20 are 5 calls.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from secondpass.asking.batches import merge_batches, split_batches
from secondpass.effects import Judgement, Plan, Task
from secondpass.errors import ConfigurationError
from secondpass.llms import LLM_SETTING, LLMLike
from secondpass.prompts.labels import LabelKind
from secondpass.prompts.questions import Questions
from secondpass.prompts.replies.base import BatchScores, ReplyFormat
from secondpass.prompts.replies.numbers import Keyed, Pairs, Scores
from secondpass.prompts.template import PROMPTING, Prompting
from secondpass.questions import LLM, Prompt, Question
from secondpass.ranking.issues import IssueCollector
from secondpass.ranking.scoring import equal_scores
from secondpass.settings import built, configurable
from secondpass.strategies.base import LLMStrategy, ask_batches, assumed_scores
from secondpass.strategies.shuffles import Shuffles
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Len


@configurable
class Graded(LLMStrategy):
    """Has a language model grade candidates, a batch per question.

    Args:
        llm: the language model: a mapping with a ``type``, an LLM object, or a function.
        scale: lowest and highest grade.
        batch_size: candidates per question at most; None puts all into one.
        shuffles: number of orders in which the candidates are judged, side by side; the first is
            the input order. Grades are averaged.
        reply: ``keyed`` asks for an object that maps each label to its grade, ``pairs`` for an
            array of objects.
        labels: how candidates are named: ``opaque`` (short, and unknown to the authors of
            passages), their ``id``, or numbers from 0 or 1.
        bare: with ``pairs``, ask for the array itself; no schema is sent then.
        whole: whether grades are whole numbers.
        judge_single: whether to score a single candidate, or to leave it as it is.
        prompt: the words of the prompts.

    The score kind is ``grade``.
    """

    kind = "graded"
    role = "You grade how well documents answer a search query."
    instruction = (
        "Grade each of the {count} documents by how well it answers the query, from {lowest} (not "
        "at all) to {highest} (fully). Judge each by itself; equal grades are allowed."
    )
    score_kind: ScoreKind = "grade"

    def __init__(
        self,
        llm: Annotated[LLMLike, LLM_SETTING],
        *,
        scale: Annotated[Sequence[float], Len(2, 2)] = (0.0, 10.0),
        batch_size: Annotated[int, Ge(1)] | None = 20,
        shuffles: Annotated[int, Ge(1)] = 1,
        reply: Literal["keyed", "pairs"] = "keyed",
        labels: LabelKind = "opaque",
        bare: bool = False,
        whole: bool = False,
        judge_single: bool = True,
        prompt: Annotated[Prompting | Mapping[str, Any] | None, PROMPTING] = None,
    ) -> None:
        low, high = (float(end) for end in scale)
        if not (low < high and math.isfinite(high - low)):
            raise ConfigurationError(
                "scale: give the lowest and the highest grade, a finite distance apart"
            )
        self.llm = cast("LLM", llm)
        self.scale = (low, high)
        self.batch_size = batch_size
        self.shuffles = shuffles
        self.reply = reply
        self.labels = labels
        self.bare = bare
        self.whole = whole
        self.judge_single = judge_single
        self.prompt = built(prompt) or Prompting()
        format_class = Keyed if reply == "keyed" else Pairs
        self._format: ReplyFormat[BatchScores] = format_class(
            Scores(low, high, whole=whole), labels, bare
        )

    @property
    def isolated(self) -> bool:
        """Whether no question shows more than one candidate."""
        return self.batch_size == 1

    def judge(self, task: Task) -> Plan[Judgement]:
        """One Ask effect with a question for each batch of each shuffle; more for refused ones."""
        count = len(task.texts)
        if count == 1 and not self.judge_single:
            return Judgement([None], beyond=frozenset({0}))
        shuffles = Shuffles(self.shuffles, self.scale)
        rounds = [len(list(split_batches(count, self.batch_size)))]
        judgement = yield from shuffles.judge(self.name, self._judge_once, task, rounds)
        equal = equal_scores(task.texts, judgement.scores, self.name)
        return replace(judgement, issues=[*judgement.issues, *equal])

    def _judge_once(self, task: Task) -> Plan[Judgement]:
        questions = Questions(task, self.llm, self.prompting, self._format, scale=self.scale)

        def question(batch: range) -> Question[Prompt, BatchScores]:
            assumed = assumed_scores(len(batch), self.scale[0])
            return replace(questions.about(batch), assumed=assumed)

        issues = IssueCollector(self.name)
        batches = list(split_batches(len(task.texts), self.batch_size))
        answers = yield from ask_batches(task.call, self.llm, question, batches, issues)
        return merge_batches(len(task.texts), answers, word="grade", issues=issues)
