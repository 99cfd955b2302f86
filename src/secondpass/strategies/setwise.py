"""Setwise: the model names the best of a small set, and a heap finds the first few.

Zhuang, Zhuang, Koopman and Zuccon, "A setwise approach for effective and highly efficient zero-shot
ranking with large language models", SIGIR 2024, arXiv 2310.09497, with heapsort. A set is a
candidate of the heap and its children, c in all. The questions, and with the same answers the
order, are those of the authors' code, with two differences: questions about different parts of the
heap are asked side by side, and none is asked once the first k are known. The others keep their
order.

For n candidates, sets of c and the first k: about n / (c - 1) to 2n / (c - 1) calls to build the
heap, and up to log(n) / log(c - 1) for each of the k - 1 times that the best is removed. 100
candidates with sets of 3 and k = 10 are 59 to 151 calls in 15 to 75 rounds; for the order of a
retriever, typically 110 to 125 calls in 35 rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.effects import LLM, Judgement, Plan, Prompt, Question, RoundsLeft, Task
from secondpass.errors import MethodError
from secondpass.llms import LLM_SETTING, has_logprobs
from secondpass.prompts.labels import LabelKind
from secondpass.prompts.questions import Questions
from secondpass.prompts.replies.base import ReplyFormat
from secondpass.prompts.replies.best import BestLabel, BestLetter
from secondpass.prompts.template import Prompting
from secondpass.settings import configurable, nested
from secondpass.strategies.base import (
    Bounds,
    IssueCollector,
    LLMStrategy,
    ask_each,
    check_logprobs,
    unanswered,
)
from secondpass.strategies.heap import Heap, heap_bounds
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Le

_LIMITS = frozenset({"budget", "deadline"})
"""Codes of errors after which no further question would be sent."""


@configurable
class Setwise(LLMStrategy):
    """Sorts the top of the list by heapsort: a language model names the best of a small set.

    Args:
        llm: the language model: a mapping with a ``type``, an LLM object, or a function.
        set_size: candidates per question at most: a candidate of the heap, and its children.
        best: number of top candidates to find and order.
        by: ``logprobs`` chooses by the log probabilities of the labels, which are single letters
            then; ``reply`` by the label that the model writes; ``auto`` by the log probabilities if
            the model and its server have them.
        labels: how candidates are named, if the choice is read from the reply: ``opaque`` (short,
            and unknown to the authors of passages), their ``id``, or numbers from 0 or 1.
        prompt: the words of the prompts.

    The score kind is ``rank``. Candidates that are not among the best follow in their old order. A
    single candidate is left as it is.

    Where the budget does not allow the questions about all candidates, the last ones are left out.
    If a question is not answered, the original order decides between its candidates, and the report
    says ``degraded`` if more than one of them has a score. Candidates that no chain of answered
    questions joins to the top get none; if no question about the top was answered, nothing is
    scored.
    """

    role = "You choose the document that best answers a search query."
    instruction = (
        "Which of the {count} documents answers the query best? Compare them with each other."
    )
    score_kind: ScoreKind = "rank"
    scale = None

    def __init__(
        self,
        llm: Annotated[Any, LLM_SETTING],
        *,
        set_size: Annotated[int, Ge(3), Le(20)] = 3,
        best: Annotated[int, Ge(1)] = 10,
        by: Literal["auto", "logprobs", "reply"] = "auto",
        labels: LabelKind = "opaque",
        prompt: Annotated[Prompting | None, nested(Prompting, optional=True)] = None,
    ) -> None:
        if by == "logprobs":
            check_logprobs(llm)
        self.llm: LLM = llm
        self.set_size = set_size
        self.best = best
        self.by = by
        self.labels = labels
        self.prompt = prompt or Prompting()
        self._format: ReplyFormat[int] = (
            BestLabel(labels)
            if by == "reply" or not has_logprobs(llm)
            else BestLetter(required=by == "logprobs")
        )

    @property
    def name(self) -> str:
        """The method's name in reports."""
        return f"setwise by {self.llm.name}"

    def judge(self, task: Task) -> Plan[Judgement]:
        """Rounds of questions that build a heap, then remove the best from it ``best`` times.

        Raises:
            MethodError: no question about the top of the heap was answered.
        """
        count = len(task.texts)
        if count == 1:
            return Judgement([None], beyond=frozenset({0}))
        size = yield from self._affordable(count)
        sets = _Sets(self, task)
        heap = Heap(size, self.set_size - 1)
        yield from heap.build(sets.ask)
        best = yield from heap.take(self.best, sets.ask)
        joined = sets.joined()
        if size < count:
            message = f"the limits allow questions about the first {size} candidates only"
            sets.issues.add("budget", message, range(size, count))
        if separate := set(range(size)) - joined:
            message = "no answered questions join these to the top"
            sets.issues.add("windows_not_joined", message, sorted(separate))
        order = [index for index in best if index in joined]
        order += sorted(joined.difference(order))
        scores: list[float | None] = [None] * count
        for rank, index in enumerate(order):
            scores[index] = (count - rank) / count
        unjudged = frozenset(range(count)) - joined
        degraded = sets.left_undecided(joined)
        return Judgement(scores, unjudged, sets.issues.issues(), degraded=degraded)

    def bounds(self, count: int) -> Bounds:
        """The fewest questions if the candidates are in order already.

        The most if each one that sinks does so to the end of the heap.
        """
        return heap_bounds(count, self.set_size - 1, self.best)

    def _affordable(self, count: int) -> Plan[int]:
        """How many of the first candidates the limits allow to be ranked; at least 2."""
        size, fails = 2, count + 1
        middle = count  # without limits, the first check is enough
        while fails - size > 1:
            rounds: int | None = yield RoundsLeft(self.bounds(middle).calls[1])
            if rounds is None or rounds > 0:
                size = middle
            else:
                fails = middle
            middle = (size + fails) // 2
        return size


class _Sets:
    """Asks which candidate of a set is the best, and records which candidates answers compare.

    Attributes:
        issues: of the method.
        error: of the first unanswered question; None if all were answered.
    """

    def __init__(self, strategy: Setwise, task: Task) -> None:
        self.issues = IssueCollector(strategy.name)
        self.error: MethodError | None = None
        self._llm = strategy.llm
        self._questions = Questions(task, strategy.llm, strategy.prompting, strategy._format)
        self._answered: list[set[int]] = []
        self._unanswered: list[set[int]] = []
        self._top: set[int] = set()
        self._limit_reached = False

    def ask(self, sets: Mapping[int, Sequence[int]]) -> Plan[list[int | None]]:
        """Ask about all sets in one round; about none once a limit was reached.

        Args:
            sets: indices of the task, by the place in the heap of the first of them.

        Returns:
            The place of the best within each set; None without an answer.
        """
        if self._limit_reached:
            self._unanswered += map(set, sets.values())
            return [None] * len(sets)
        makers = (partial(self._about, indices) for indices in sets.values())
        answers = yield from ask_each(self._llm, makers)
        for (place, indices), answer in zip(sets.items(), answers, strict=True):
            self.issues.add_answer(answer, indices)
            if answer.error is not None:
                self.error = self.error or answer.error
                self._limit_reached = self._limit_reached or answer.error.code in _LIMITS
                self._unanswered.append(set(indices))
                continue
            self._answered.append(set(indices))
            if place == 0:
                self._top.update(indices)
        return [answer.value for answer in answers]

    def _about(self, indices: Sequence[int]) -> Question[Prompt, int]:
        """The question about a set.

        Raises:
            MethodError: it does not fit into the context window.
        """
        return replace(self._questions.about(indices), assumed=indices.index(min(indices)))

    def left_undecided(self, scored: set[int]) -> bool:
        """Whether the original order decided between candidates that have a score."""
        return any(len(scored & indices) > 1 for indices in self._unanswered)

    def joined(self) -> set[int]:
        """The candidates that answered questions join to the top of the heap.

        Raises:
            MethodError: no question about the top was answered.
        """
        if not self._top and self.error is not None:
            raise unanswered(self.error)
        joined, separate = set(self._top), self._answered
        while touching := [indices for indices in separate if not joined.isdisjoint(indices)]:
            separate = [indices for indices in separate if joined.isdisjoint(indices)]
            joined.update(*touching)
        return joined
