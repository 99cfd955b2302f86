"""Shared by strategies in which a language model orders groups of candidates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

from secondpass.effects import Judgement, Plan, Task
from secondpass.errors import MethodError
from secondpass.limits import Prices
from secondpass.prompts.labels import LabelKind
from secondpass.prompts.questions import Questions
from secondpass.prompts.replies.base import Order, ReplyFormat
from secondpass.prompts.replies.numbers import Keyed, Pairs, Ranks
from secondpass.prompts.replies.permutation import Permutation, Ranked
from secondpass.prompts.template import Prompting
from secondpass.questions import LLM, Answer, Prompt, Question
from secondpass.ranking.issues import IssueCollector, why_missing
from secondpass.strategies.base import LLMStrategy, ask_each, returned
from secondpass.strategies.shuffles import Shuffles
from secondpass.types import DegradedBy, ScoreKind

OrderReply: TypeAlias = Literal["keyed", "pairs", "permutation", "ranked"]
"""The format of an order: the rank of each label, as an object or as an array of objects; an array
of labels, best first; or ``[2] > [1] > [3]``, as models trained for listwise reranking reply."""

_FORMATS: Mapping[str, Callable[[LabelKind, bool], ReplyFormat[Order]]] = {
    "keyed": partial(Keyed, Ranks()),
    "pairs": partial(Pairs, Ranks()),
    "permutation": Permutation,
    "ranked": Ranked,
}


@dataclass(frozen=True, slots=True)
class OrderedGroup:
    """The order of a group by a reply, as indices of the task."""

    ordered: list[int]  # best first
    missing: list[int]  # those that the reply leaves out, or whose rank cannot be used


class OrderStrategy(LLMStrategy):
    """Base class of strategies that ask for the order of groups of candidates."""

    role = "You order documents by how well they answer a search query."
    instruction = (
        "Order all {count} documents by how well they answer the query, the best first. Compare "
        "them with each other; leave none out."
    )
    score_kind: ScoreKind = "rank"
    scale = None
    shuffles: int = 1

    def __init__(
        self, llm: LLM, reply: OrderReply, labels: LabelKind, bare: bool, prompt: Prompting | None
    ) -> None:
        self.llm = llm
        self.reply = reply
        self.labels = labels
        self.bare = bare
        self.prompt = prompt or Prompting()
        self._format = _FORMATS[reply](labels, bare)

    def judge(self, task: Task) -> Plan[Judgement]:
        """The effects of :meth:`_order`, for each shuffle; none for a single candidate."""
        if len(task.texts) == 1:
            return returned(Judgement([None], beyond=frozenset({0})))
        shuffles = Shuffles(self.shuffles)
        rounds = self._rounds(len(task.texts))
        return shuffles.judge(self.name, self._judge_once, task, rounds)

    def _judge_once(self, task: Task) -> Plan[Judgement]:
        return self._order(task, Groups(self, task))

    def _order(self, task: Task, groups: Groups) -> Plan[Judgement]:
        raise NotImplementedError

    def _rounds(self, count: int) -> list[int]:
        """Number of questions of each round about one order of two candidates or more."""
        raise NotImplementedError


class Groups:
    """Asks for the orders of groups of one task, and collects the issues of the answers."""

    def __init__(self, strategy: OrderStrategy, task: Task) -> None:
        self.issues = IssueCollector(strategy.name)
        self._llm = strategy.llm
        self._questions = Questions(task, strategy.llm, strategy.prompting, strategy._format)

    def ask(self, *groups: Sequence[int]) -> Plan[list[Answer[Order]]]:
        """Ask about all groups side by side, as one round."""
        return ask_each(self._llm, (partial(self._about, group) for group in groups))

    def expense(self, groups: Iterable[Sequence[int]]) -> tuple[float, float]:
        """Estimated tokens and cost of the questions about groups; the cost is 0 without prices."""
        prices: Prices | None = getattr(self._llm, "prices", None)
        tokens = cost = 0.0
        for group in groups:
            try:
                estimate = self._about(group).estimate
            except MethodError:  # it does not fit into the context window, so it is not asked
                continue
            tokens += estimate.tokens
            if prices is not None:
                cost += prices.of(estimate.input_tokens, estimate.output_tokens)
        return tokens, cost

    def _about(self, group: Sequence[int]) -> Question[Prompt, Order]:
        """The question about a group; raises a MethodError if the context window is too small."""
        return replace(self._questions.about(group), assumed=Order(tuple(range(len(group))), 0, 0))

    def read(self, answer: Answer[Order], group: Sequence[int]) -> OrderedGroup | None:
        """The order of a group, by the answer to the question about it; None without an answer."""
        issues = self.issues
        issues.add_answer(answer, group)
        result = answer.value
        if result is None:
            return None
        ordered = [group[place] for place in result.places]
        refused = [group[place] for place in result.refused]
        known = set(ordered)
        missing = [index for index in group if index not in known]
        left_out = sorted(set(missing) - set(refused))
        if refused:
            issues.add("rank_refused", "the model's ranks of these cannot be used", refused)
        if left_out:
            issues.add("not_in_reply", why_missing(cut=result.cut), left_out)
        if result.doubled:
            issues.add("doubled_label", "the reply has documents twice; the first place counts")
        if result.unknown:
            issues.add("unknown_label", "the reply has documents that were not shown")
        return OrderedGroup(ordered, missing)

    def judgement(
        self,
        count: int,
        order: Sequence[int],
        unjudged: frozenset[int] = frozenset(),
        *,
        degraded_by: Collection[DegradedBy] = (),
    ) -> Judgement:
        """Scores of the kind ``rank`` for these of ``count`` texts, best first."""
        scores: list[float | None] = [None] * count
        for rank, index in enumerate(order):
            scores[index] = (count - rank) / count
        return Judgement(scores, unjudged, self.issues.issues(), degraded_by=degraded_by)
