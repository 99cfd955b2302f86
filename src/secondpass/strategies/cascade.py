"""Cascades: each stage reranks the best of the stage before it.

Matveeva, Burges, Burkard, Laucius and Wong, "High accuracy retrieval with multiple nested ranker",
SIGIR 2006; Nogueira, Yang, Cho and Lin, "Multi-stage document ranking with BERT", 2019.

Calls, rounds and documents read are the sums over the stages.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from secondpass.asking.life_cycle import call_if_present, close_all
from secondpass.effects import Judgement, Method, Plan, Task
from secondpass.errors import ConfigurationError, MethodError
from secondpass.questions import LLM, Scorer, Span
from secondpass.ranking.blending import Blend
from secondpass.ranking.judgements import INSTRUCTION_NOT_USED, converted, reasons_of
from secondpass.ranking.methods import METHOD, inner
from secondpass.ranking.partial_results import failed, merged
from secondpass.ranking.stages import beside, beside_as_setting
from secondpass.ranking.windows import judged_by_windows
from secondpass.settings import Nested, configurable, definition
from secondpass.types import DegradedBy, Issue, ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen


@configurable
@dataclass(frozen=True)
class CascadeStage:
    """One stage. In a configuration, ``depth`` is in the same mapping as its method's settings.

    Attributes:
        method: a scorer or another method.
        depth: number of candidates it scores, the best so far; None scores all.
    """

    method: Annotated[Any, METHOD]
    depth: Annotated[int, Ge(1)] | None = None

    def as_setting(self, where: str) -> dict[str, Any]:
        return beside_as_setting(self, where)


_StageLike: TypeAlias = CascadeStage | Scorer | Method | Mapping[str, Any] | str

_STAGE = Nested(lambda value: beside(CascadeStage, value), lambda: definition("cascade_stage"))


@configurable
class Cascade:
    """A chain of methods, cheap and wide first, expensive and narrow last.

    Candidates that reached a later stage are placed before those that did not, regardless of their
    scores; within a stage its scores decide. Each candidate keeps the scores of all its stages
    (``stage_scores``); the score kind is ``rank``.

    With a single candidate, a stage whose method does not score it changes nothing, and needs no
    call. A stage that fails is skipped: the next one takes the best of the order so far, and the
    report is ``degraded`` by ``stage``. It is also ``degraded`` if a stage keeps its input order or
    gives it a weight. With a weight, its scores are blended by ``minmax`` with ``1 / rank`` in its
    input order. If no stage scores anything and one keeps its input order, the cascade keeps the
    original order.

    Every stage that takes an instruction gets that of the call. The report lists those that take
    none only if no stage that scored candidates takes one.

    Args:
        stages: two or more stages; no depth may be larger than the depth of the stage before.
    """

    score_kind: ScoreKind = "rank"
    scale = None
    windows = "task"  # each stage gets those that it can use
    takes_instruction = True  # stages that take none report it

    def __init__(
        self,
        stages: Annotated[Sequence[Annotated[_StageLike, _STAGE]], MinLen(2)],
    ) -> None:
        self.stages = cast("tuple[CascadeStage, ...]", tuple(stages))
        self.methods = [stage.method for stage in self.stages]
        widest: int | None = None
        for number, stage in enumerate(self.stages):
            if widest is not None and (stage.depth is None or stage.depth > widest):
                raise ConfigurationError(
                    f"stages[{number}].depth: must be {widest} at most, as many as reach this stage"
                )
            if stage.depth is not None:
                widest = stage.depth

    @property
    def name(self) -> str:
        return ", then ".join(stage.method.name for stage in self.stages)

    @property
    def language_models(self) -> list[LLM]:
        return [llm for method in self.methods for llm in getattr(method, "language_models", ())]

    def check_installed(self) -> None:
        self._call_each("check_installed")

    def warm_up(self) -> None:
        self._call_each("warm_up")

    def close(self) -> None:
        close_all(map(inner, self.methods))

    def _call_each(self, member: str) -> None:
        for method in self.methods:
            call_if_present(inner(method), member)

    def judge(self, task: Task) -> Plan[Judgement]:
        """The effects of the stages, in turn; the first error if no stage judged anything."""
        indices_of_all = range(len(task.texts))
        widest = self.stages[0].depth
        tail = indices_of_all[widest:] if widest is not None else ()
        state = _State([*indices_of_all], frozenset(tail))
        state.add_spans(indices_of_all, task.spans)
        errors: list[MethodError] = []
        for number, stage in enumerate(self.stages, 1):
            indices = state.order[: stage.depth]
            name = stage.method.name
            try:
                so_far = partial(state.interim, name, indices)
                part = converted(state.part(task, indices), task, so_far)
                with task.call.keeping_time(last=number == len(self.stages)):
                    judgement = yield from judged_by_windows(stage.method, part)
            except MethodError as error:
                errors.append(error)
                state.add_error(name, error, indices)
            else:
                state.apply(name, judgement, indices)
                scored = any(score is not None for score in judgement.scores)
                if scored and number < len(self.stages):
                    yield from task.call.interim(task, state.judgement)
        if errors and not (state.scores or state.kept):
            raise errors[0]  # another stage may have had nothing to do, as with one candidate
        return state.judgement()

    def parts(self, task: Task) -> list[tuple[Method, Task]]:
        """The methods of the stages, each with its task if none changes the order."""
        state = _State(list(range(len(task.texts))))
        return [
            (stage.method, state.part(task, state.order[: stage.depth])) for stage in self.stages
        ]


def scored_order(judgement: Judgement) -> list[int]:
    """The indices that have a score, best first; ties keep their order.

    If the method gives the original order a weight, scores are blended with it by ``minmax``.
    """
    ordering = judgement.scores if judgement.order_scores is None else judgement.order_scores
    scores = {index: score for index, score in enumerate(ordering) if score is not None}
    if not judgement.original:
        return sorted(scores, key=scores.__getitem__, reverse=True)
    blend = Blend(judgement.original, "minmax")
    blended = blend.mix([None] * len(scores), [*scores.values()])
    indices = [*scores]
    return [indices[place] for place in blended.order]


@dataclass(slots=True)
class _State:
    """The order of all indices of the task so far, best first, and the results behind it.

    Attributes:
        tail: indices beyond the depth of the first stage.
        scores: the scores of all stages so far, first stage first, by index.
        unjudged, beyond: indices that a stage left unjudged, or does not judge.
        issues: with indices of the whole task.
        kept: whether a stage kept its input order.
        instructed: whether a stage that scored candidates took the instruction of the call.
    """

    order: list[int]
    tail: frozenset[int] = frozenset()
    scores: dict[int, tuple[float, ...]] = field(default_factory=dict)
    unjudged: set[int] = field(default_factory=set)
    beyond: set[int] = field(default_factory=set)
    issues: list[Issue] = field(default_factory=list)
    degraded_by: set[DegradedBy] = field(default_factory=set)
    spans: dict[int, Span] = field(default_factory=dict)
    kept: bool = False
    instructed: bool = False

    def part(self, task: Task, indices: Sequence[int]) -> Task:
        """The task of a stage: these texts, in this order."""
        return replace(
            task,
            texts=[task.texts[index] for index in indices],
            candidates=[task.candidates[index] for index in indices],
            windows=task.windows and [task.windows[index] for index in indices],
            spans=[self.spans.get(index) for index in indices] if self.spans else None,
        )

    def add_spans(self, indices: Sequence[int], spans: Sequence[Span | None] | None) -> None:
        """Set the best spans of texts; these replace those of earlier stages."""
        if spans is None:
            return
        for index, span in zip(indices, spans, strict=True):
            if span is not None:
                self.spans[index] = span

    def add_error(self, name: str, error: MethodError, indices: Sequence[int]) -> None:
        message = f"this stage scored nothing: {error}"
        self.issues.append(Issue(error.code, message, tuple(sorted(indices)), (), name))
        self.unjudged.update(indices)
        self.degraded_by.add("stage")

    def apply(self, name: str, judgement: Judgement, indices: Sequence[int]) -> None:
        """Put what a stage was given first, by its scores; the rest keeps its order.

        Those that failed calls left unjudged are merged with the scored ones.

        Args:
            name: of the stage's method.
            judgement: of the stage.
            indices: those of the whole task that the stage was given, in its order.
        """
        scored = {
            index
            for index, score in zip(indices, judgement.scores, strict=True)
            if score is not None
        }
        self._add_issues(name, judgement, indices)
        self._add_reasons(judgement, indices, scored)
        self._add_scores(judgement, indices)
        self.unjudged.update(indices[place] for place in judgement.unjudged)
        self.beyond.update(indices[place] for place in judgement.beyond)
        if not scored:
            return
        best = [indices[place] for place in scored_order(judgement)]
        without_answer = {indices[place] for place in failed(judgement.unjudged, judgement.issues)}
        moved = scored | without_answer
        first = merged(best, [index for index in indices if index in moved])
        self.order = first + [index for index in self.order if index not in moved]

    def _add_issues(self, name: str, judgement: Judgement, indices: Sequence[int]) -> None:
        for issue in judgement.issues:
            positions = tuple(indices[place] for place in issue.positions)
            self.issues.append(replace(issue, positions=positions, method=issue.method or name))

    def _add_reasons(
        self, judgement: Judgement, indices: Sequence[int], scored: Collection[int]
    ) -> None:
        """Note why the cascade is degraded, and what a stage made of order and instruction."""
        self.degraded_by |= reasons_of(judgement)
        beyond = {indices[place] for place in judgement.beyond}
        missed = [index for index in indices if index not in scored and index not in beyond]
        if any(index in self.scores for index in missed):
            self.degraded_by.add("stage")  # an earlier stage decides the places of these
        if judgement.original == 1:
            self.kept = True
        took_instruction = all(issue.code != INSTRUCTION_NOT_USED for issue in judgement.issues)
        if scored and took_instruction:
            self.instructed = True

    def _add_scores(self, judgement: Judgement, indices: Sequence[int]) -> None:
        """Add the scores of a stage to those of earlier ones, and set its spans."""
        for place, (index, score) in enumerate(zip(indices, judgement.scores, strict=True)):
            if score is None:
                continue
            # A stage that is a cascade itself has several.
            own = (score,) if judgement.stage_scores is None else judgement.stage_scores[place]
            self.scores[index] = (*self.scores.get(index, ()), *own)
        self.add_spans(indices, judgement.spans)

    def interim(self, name: str, indices: Sequence[int], judgement: Judgement) -> Judgement:
        """The judgement of the cascade if its stage ended with this one. Changes nothing."""
        state = deepcopy(self)
        state.apply(name, judgement, indices)
        return state.judgement()

    def judgement(self) -> Judgement:
        """The judgement of the cascade if it ended here."""
        count = len(self.order)
        ranked = [index for index in self.order if index in self.scores]
        scores: list[float | None] = [None] * count
        for rank, index in enumerate(ranked):
            scores[index] = (count - rank) / count
        unjudged = frozenset(self.unjudged - self.scores.keys())
        beyond = self.tail | (self.beyond - unjudged)
        # One stage that takes the instruction is enough: earlier ones are meant to be cheap.
        issues = [
            issue
            for issue in self.issues
            if issue.code != INSTRUCTION_NOT_USED or not self.instructed
        ]
        if not ranked and self.kept:
            return Judgement(scores, issues=issues, original=1.0)
        return Judgement(
            scores,
            unjudged,
            issues,
            stage_scores=[self.scores.get(index, ()) for index in range(count)],
            beyond=beyond - self.scores.keys(),
            degraded_by=self.degraded_by,
            spans=[self.spans.get(index) for index in range(count)] if self.spans else None,
        )
