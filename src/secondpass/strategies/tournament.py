"""Tournament: the model selects the best of each group; these advance and score a point.

Chen, Liu, Zhang, Sun, Ma, Yang, Shi, Mao and Yin, "TourRank: utilizing large language models for
documents ranking with a tournament-inspired strategy", WWW 2025, arXiv 2406.11678. In each stage of
a tournament, candidates are dealt into groups, and the model selects the best of each group. Points
of several tournaments, whose prompts have other orders, are added up.

For n candidates, groups of g and r tournaments: about 2.6 * r * n / g calls in about log2(n) - 1
rounds, since tournaments run side by side; every document is read about 2 * r times. 100
candidates in groups of 20 are 13 * r calls in 5 rounds, as in the paper: 100, 50, 20, 10, 5, 2.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.effects import (
    LLM,
    Answer,
    Completion,
    Interim,
    Judgement,
    Plan,
    Prompt,
    Question,
    Task,
)
from secondpass.llms import LLM_SETTING
from secondpass.prompts.label_lookup import Labels
from secondpass.prompts.labels import LabelKind
from secondpass.prompts.questions import Questions
from secondpass.prompts.replies.permutation import Permutation
from secondpass.prompts.replies.values import Order
from secondpass.prompts.template import Prompting
from secondpass.settings import configurable, nested
from secondpass.strategies.base import (
    Bounds,
    IssueCollector,
    LLMStrategy,
    affordable,
    ask_each,
    unanswered,
)
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge


class Selection(Permutation):
    """An array of the labels of the ``count`` best documents, best first."""

    name = "selection"

    def __init__(self, count: int, labels: LabelKind = "opaque", bare: bool = False) -> None:
        super().__init__(labels, bare)
        self.count = count

    def request(self) -> str:
        array = self._request_array(f"{self.placeholder}, {self.placeholder}", ", best first")
        base = "" if self.first_index is None else f" Indices count from {self.first_index}."
        return (
            f"Reply with ONLY {array}. It has to have exactly {self.count} of the documents, each "
            f"{self.key} once.{base}"
        )

    def schema(self, names: Sequence[str]) -> dict[str, Any] | None:
        schema = super().schema(names)
        if schema is not None:
            schema["properties"][self.member] |= {"minItems": self.count, "maxItems": self.count}
        return schema

    def expected_tokens(self, documents: int) -> int:  # noqa: ARG002
        return super().expected_tokens(self.count)

    def read(self, completion: Completion, labels: Labels) -> Order:
        # Some models order all documents; the first of these are their selection.
        order = super().read(completion, labels)
        return replace(order, places=order.places[: self.count])


@configurable
class Tournament(LLMStrategy):
    """Has a language model select the best of groups of candidates, in stages.

    Args:
        llm: the language model: a mapping with a ``type``, an LLM object, or a function.
        tournaments: number of tournaments, run side by side; a candidate's points are averaged.
        group: candidates per question at most.
        seed: of the order in which the candidates of a group are shown.
        labels: how candidates are named: ``opaque`` (short, and unknown to the authors of
            passages), their ``id``, or numbers from 0 or 1.
        bare: ask for the array itself; no schema is sent then.
        prompt: the words of the prompts.

    The score kind is ``rank``. Candidates with equal points keep their order. A single candidate
    is left as it is.

    If a group is not answered, or its reply selects too few, candidates advance by their original
    order, without a point, and the report says ``degraded``. A candidate that was in no answered
    group gets no score.
    """

    role = "You select the documents that answer a search query best."
    instruction = (
        "Select those of the {count} documents that answer the query best. Compare them with each "
        "other."
    )
    score_kind: ScoreKind = "rank"
    scale = None

    def __init__(
        self,
        llm: Annotated[Any, LLM_SETTING],
        *,
        tournaments: Annotated[int, Ge(1)] = 1,
        group: Annotated[int, Ge(3)] = 20,
        seed: int = 0,
        labels: LabelKind = "opaque",
        bare: bool = False,
        prompt: Annotated[Prompting | None, nested(Prompting, optional=True)] = None,
    ) -> None:
        self.llm: LLM = llm
        self.tournaments = tournaments
        self.group = group
        self.seed = seed
        self.labels: LabelKind = labels
        self.bare = bare
        self.prompt = prompt or Prompting()

    @property
    def name(self) -> str:
        """The method's name in reports."""
        return f"tournament by {self.llm.name}"

    def bounds(self, count: int) -> Bounds:
        """A question for each group, in as many rounds as a tournament has stages."""
        return self._bounds(count).side_by_side(self.tournaments)

    def _bounds(self, count: int) -> Bounds:
        """The bounds of one tournament."""
        stages = schedule(count, self.group) if count > 1 else []
        return Bounds.exactly(sum(groups for groups, _ in stages), len(stages))

    def judge(self, task: Task) -> Plan[Judgement]:
        """An Ask effect for each stage, with a question for each group of every tournament.

        Raises:
            MethodError: no group was answered.
        """
        count = len(task.texts)
        if count == 1:
            return Judgement([None], beyond=frozenset({0}))
        issues = IssueCollector(self.name)
        questions = Questions(task, self.llm, self.prompting, self._selection(1))
        number = yield from affordable(self.tournaments, self._bounds(count).calls[1])
        if number < self.tournaments:
            message = f"the limits allow {number} of {self.tournaments} tournaments"
            issues.add("fewer_runs", message)
        tournaments = [_Tournament(list(range(count))) for _ in range(number)]
        degraded = False
        stages = schedule(count, self.group)
        for stage, (groups, kept) in enumerate(stages, 1):
            dealt = [
                (tournament, group)
                for turn, tournament in enumerate(tournaments)
                for group in deal(tournament.remaining, groups, kept, f"{self.seed} {turn} {stage}")
            ]
            makers = (partial(self._about, questions, group) for _, group in dealt)
            answers = yield from ask_each(self.llm, makers)
            if all(answer.value is None for answer in answers):
                if stage == 1 and answers[0].error is not None:
                    raise unanswered(answers[0].error)
                for (_, group), answer in zip(dealt, answers, strict=True):
                    issues.add_answer(answer, group.shown)
                degraded = True
                break
            for tournament in tournaments:
                tournament.remaining = []
            for (tournament, group), answer in zip(dealt, answers, strict=True):
                degraded |= not tournament.advance(stage, group, answer, issues)
            if stage < len(stages):
                points = [tournament.points for tournament in tournaments]
                yield Interim(task, partial(_judgement, count, points, issues, degraded=degraded))
        points = [tournament.points for tournament in tournaments]
        return _judgement(count, points, issues, degraded=degraded)

    def _about(self, questions: Questions[Order], group: Group) -> Question[Prompt, Order]:
        """The question about a group.

        Raises:
            MethodError: it does not fit into the context window.
        """
        question = questions.replied_in(self._selection(group.places)).about(group.shown)
        return replace(question, assumed=Order(tuple(range(group.places)), 0, 0))

    def _selection(self, count: int) -> Selection:
        return Selection(count, self.labels, self.bare)


def schedule(count: int, size: int) -> list[tuple[int, int]]:
    """The stages of a tournament: number of groups, and how many candidates advance.

    Half of the candidates advance, until at most two are left. If half is more than ``size``, but
    less than 1.5 times it, only ``size`` advance, since one group is enough for these. After the
    first stage, groups have half the size, unless one group of ``size`` holds all candidates.
    """
    stages: list[tuple[int, int]] = []
    while count > 2 or not stages:
        kept = count // 2
        if size < kept < 1.5 * size:
            kept = size
        largest = size if not stages or count <= size else max(3, size // 2)
        stages.append((-(-count // largest), kept))
        count = kept
    return stages


@dataclass(frozen=True, slots=True)
class Group:
    """Candidates of one question.

    Attributes:
        shown: their indices, in the order of the prompt.
        places: how many of them advance, 1 or more.
    """

    shown: list[int]
    places: int


def deal(indices: Sequence[int], number: int, kept: int, seed: str) -> list[Group]:
    """Deal candidates into groups of nearly equal size, of which ``kept`` advance in all.

    Each group gets candidates from all parts of the order, so that the best meet in a late stage.
    Within a group they are shuffled.
    """
    groups = []
    for place in range(number):
        shown = list(indices[place::number])
        random.Random(f"{seed} {place}").shuffle(shown)
        groups.append(Group(shown, kept // number + (place < kept % number)))
    return groups


@dataclass(slots=True)
class _Tournament:
    """The state of one tournament.

    Attributes:
        remaining: the candidates that have not lost, in their original order.
        points: for each candidate that was in an answered group, the last stage in which it was
            selected, or 0. An unanswered group costs no point if the candidate wins a later one.
    """

    remaining: list[int]
    points: dict[int, int] = field(default_factory=dict)

    def advance(
        self, stage: int, group: Group, answer: Answer[Order], issues: IssueCollector
    ) -> bool:
        """Let the best of a group advance.

        Returns:
            Whether the model selected all that advance.
        """
        issues.add_answer(answer, group.shown)
        selected: list[int] = []
        if answer.value is not None:
            issues.add_labels(answer.value)
            selected = [group.shown[place] for place in answer.value.places]
            self.points |= {index: self.points.get(index, 0) for index in group.shown}
            self.points |= dict.fromkeys(selected, stage)
        others = sorted(set(group.shown) - set(selected))[: group.places - len(selected)]
        if answer.value is not None and others:
            message = "the reply selects too few; these advance by their original order"
            issues.add("not_in_reply", message, others)
        self.remaining = sorted([*self.remaining, *selected, *others])
        return not others


def _judgement(
    count: int, points: Sequence[dict[int, int]], issues: IssueCollector, *, degraded: bool
) -> Judgement:
    """Scores by the mean points over the tournaments in which a candidate was judged."""
    means = {
        index: fmean(of_candidate)
        for index in range(count)
        if (of_candidate := [item[index] for item in points if index in item])
    }
    scores: list[float | None] = [None] * count
    for rank, index in enumerate(sorted(means, key=lambda index: (-means[index], index))):
        scores[index] = (count - rank) / count
    unjudged = frozenset(range(count)).difference(means)
    return Judgement(scores, unjudged, issues.issues(), degraded=degraded)
