"""Cascades: each stage reranks the best of the stage before it.

Matveeva, Burges, Burkard, Laucius and Wong, "High accuracy retrieval with multiple nested ranker",
SIGIR 2006; Nogueira, Yang, Cho and Lin, "Multi-stage document ranking with BERT", 2019.

Calls, rounds and documents read are the sums over the stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.asking.life_cycle import call_if_present, close_all
from secondpass.effects import Judgement, Method, Plan, Task
from secondpass.errors import ConfigurationError, MethodError
from secondpass.questions import LLM, Span
from secondpass.ranking.blending import Blend
from secondpass.ranking.methods import (
    INSTRUCTION_NOT_USED,
    METHOD,
    beside,
    beside_as_setting,
    converted,
    inner,
    reasons_of,
)
from secondpass.ranking.outcome import failed, merged
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

    def __init__(self, stages: Annotated[Sequence[Annotated[Any, _STAGE]], MinLen(2)]) -> None:
        self.stages: tuple[CascadeStage, ...] = tuple(stages)
        self.methods = [stage.method for stage in self.stages]
        widest: int | None = None
        for number, stage in enumerate(self.stages):
            if widest is not None and (stage.depth is None or stage.depth > widest):
                raise ConfigurationError(
                    f"stages[{number}].depth: must be {widest} at most, as many as reach this stage"
                )
            widest = stage.depth if stage.depth is not None else widest

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
        """The effects of the stages, in turn; raises the error of the first if all stages fail."""
        widest = self.stages[0].depth
        beyond = range(len(task.texts))[widest:] if widest is not None else ()
        state = _State(list(range(len(task.texts))), frozenset(beyond))
        state.add_spans(range(len(task.texts)), task.spans)
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
        if len(errors) == len(self.stages):
            raise errors[0]
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
    """The order of all indices of the task so far, best first, and the results behind it."""

    order: list[int]
    tail: frozenset[int] = frozenset()  # those beyond the depth of the first stage
    scores: dict[int, tuple[float, ...]] = field(default_factory=dict)
    unjudged: set[int] = field(default_factory=set)
    beyond: set[int] = field(default_factory=set)
    issues: list[Issue] = field(default_factory=list)  # with indices of the whole task
    degraded_by: set[DegradedBy] = field(default_factory=set)
    spans: dict[int, Span] = field(default_factory=dict)
    spreads: dict[int, float] = field(default_factory=dict)
    kept: bool = False
    instructed: bool = False  # a stage that scored candidates took the instruction of the call

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
        pairs = () if spans is None else zip(indices, spans, strict=True)
        self.spans |= {index: span for index, span in pairs if span is not None}

    def add_error(self, name: str, error: MethodError, indices: Sequence[int]) -> None:
        message = f"this stage scored nothing: {error}"
        self.issues.append(Issue(error.code, message, tuple(sorted(indices)), (), name))
        self.unjudged.update(indices)
        self.degraded_by.add("stage")

    def apply(self, name: str, judgement: Judgement, indices: Sequence[int]) -> None:
        """Put what a stage was given first, by its scores; the rest keeps its order.

        Those that failed calls left unjudged are merged with the scored ones.
        """
        for issue in judgement.issues:
            positions = tuple(indices[position] for position in issue.positions)
            self.issues.append(replace(issue, positions=positions, method=issue.method or name))
        scored = {
            indices[position]: score
            for position, score in enumerate(judgement.scores)
            if score is not None
        }
        own: dict[int, tuple[float, ...]] = {index: (score,) for index, score in scored.items()}
        if judgement.stage_scores is not None:
            own = dict(zip(indices, judgement.stage_scores, strict=True))
        beyond = {indices[position] for position in judgement.beyond}
        missed = [index for index in indices if index not in scored and index not in beyond]
        self.degraded_by |= reasons_of(judgement)
        self.kept |= judgement.original == 1
        codes = {issue.code for issue in judgement.issues}
        self.instructed |= bool(scored) and INSTRUCTION_NOT_USED not in codes
        if any(index in self.scores for index in missed):
            self.degraded_by.add("stage")  # an earlier stage decides the places of these
        self.unjudged.update(indices[position] for position in judgement.unjudged)
        unknown = {indices[position] for position in failed(judgement.unjudged, judgement.issues)}
        self.beyond |= beyond
        for index in scored:
            self.scores[index] = (*self.scores.get(index, ()), *own[index])
        self.add_spans(indices, judgement.spans)
        if judgement.spreads is not None:
            pairs = zip(indices, judgement.spreads, strict=True)
            self.spreads |= {index: spread for index, spread in pairs if spread is not None}
        best = [indices[position] for position in scored_order(judgement)]
        ranked = scored.keys() | unknown if scored else set()
        first = merged(best, [index for index in indices if index in ranked])
        self.order = first + [index for index in self.order if index not in ranked]

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
            [self.scores.get(index, ()) for index in range(count)],
            beyond - self.scores.keys(),
            self.degraded_by,
            spans=[self.spans.get(index) for index in range(count)] if self.spans else None,
            spreads=[self.spreads.get(index) for index in range(count)] if self.spreads else None,
        )
