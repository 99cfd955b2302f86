"""Cascades: each stage judges the best of the stage before it.

Matveeva, Burges, Burkard, Laucius and Wong, "High accuracy retrieval with multiple nested ranker",
SIGIR 2006; Nogueira, Yang, Cho and Lin, "Multi-stage document ranking with BERT", 2019.

Calls, rounds and documents read are the sums of the stages'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.effects import LLM, Judgement, Plan, Task
from secondpass.errors import ConfigurationError, MethodError
from secondpass.methods import METHOD, beside, beside_as_setting, inner, judged
from secondpass.settings import Nested, configurable, definition
from secondpass.types import Issue, ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen


@configurable
@dataclass(frozen=True)
class CascadeStage:
    """One stage. In a configuration its depth stands beside the settings of its method.

    Attributes:
        method: a scorer or another method.
        depth: how many it judges: the best so far; None judges all.
    """

    method: Annotated[Any, METHOD]
    depth: Annotated[int, Ge(1)] | None = None

    def as_setting(self, where: str) -> dict[str, Any]:
        """The method's settings with the depth beside them."""
        return beside_as_setting(self, where)


_STAGE = Nested(lambda value: beside(CascadeStage, value), lambda: definition("cascade_stage"))


@configurable
class Cascade:
    """A chain of methods, cheap and wide first, dear and narrow last.

    Candidates that reached a later stage stand before those that did not, whatever their scores;
    among those of one stage its scores decide. Each keeps the score of every stage that judged it
    (``stage_scores``); the score kind is ``rank``.

    A stage that leaves a single candidate alone changes nothing, and needs no call. A stage that
    fails is passed over: the next one takes the best of the order as it
    stands, and the report says ``degraded``.

    Args:
        stages: two or more, each with a depth no larger than that of the one before.
    """

    score_kind: ScoreKind = "rank"
    scale = None

    def __init__(self, stages: Annotated[Sequence[Annotated[Any, _STAGE]], MinLen(2)]) -> None:
        self.stages: tuple[CascadeStage, ...] = tuple(stages)
        widest: int | None = None
        for number, stage in enumerate(self.stages):
            if widest is not None and (stage.depth is None or stage.depth > widest):
                raise ConfigurationError(
                    f"stages[{number}].depth: must be {widest} at most, as many as reach this stage"
                )
            widest = stage.depth if stage.depth is not None else widest

    @property
    def name(self) -> str:
        """For reports."""
        return ", then ".join(stage.method.name for stage in self.stages)

    @property
    def language_models(self) -> list[LLM]:
        """Those that the stages ask."""
        return [
            llm for stage in self.stages for llm in getattr(stage.method, "language_models", ())
        ]

    def judge(self, task: Task) -> Plan[Judgement]:
        """The effects of the stages, one stage after the other.

        Raises:
            MethodError: no stage judged anything.
        """
        state = _State(list(range(len(task.texts))))
        errors: list[MethodError] = []
        for stage in self.stages:
            entered = state.order[: stage.depth]
            part = replace(
                task,
                texts=[task.texts[index] for index in entered],
                candidates=[task.candidates[index] for index in entered],
            )
            try:
                judgement = yield from judged(stage.method, part)
            except MethodError as error:
                errors.append(error)
                state.failed(stage.method.name, error, entered)
            else:
                state.enter(stage.method.name, judgement, entered)
        if len(errors) == len(self.stages):
            raise errors[0]
        widest = self.stages[0].depth
        beyond = range(len(task.texts))[widest:] if widest is not None else ()
        return state.judgement(frozenset(beyond))

    def check_installed(self) -> None:
        """See whether every stage has the packages that it needs.

        Raises:
            MissingExtraError: one has not.
        """
        self._each("check_installed")

    def warm_up(self) -> None:
        """Load the models of all stages.

        Raises:
            ModelLoadError: one cannot be loaded.
        """
        self._each("warm_up")

    def close(self) -> None:
        """Let go of what all stages have loaded."""
        self._each("close")

    def _each(self, name: str) -> None:
        for stage in self.stages:
            act = getattr(inner(stage.method), name, None)
            if act is not None:
                act()


@dataclass(slots=True)
class _State:
    """The order so far, and what is known of each index of the task."""

    order: list[int]
    scores: dict[int, tuple[float, ...]] = field(default_factory=dict)
    unjudged: set[int] = field(default_factory=set)
    left_alone: set[int] = field(default_factory=set)
    issues: list[Issue] = field(default_factory=list)
    degraded: bool = False

    def failed(self, name: str, error: MethodError, entered: Sequence[int]) -> None:
        told = f"this stage judged nothing: {error}"
        self.issues.append(Issue(error.code, told, tuple(sorted(entered)), (), name))
        self.unjudged.update(entered)
        self.degraded = True

    def enter(self, name: str, judgement: Judgement, entered: Sequence[int]) -> None:
        """Put those that the stage scored first, by its scores, and the rest as it was."""
        for issue in judgement.issues:
            at = tuple(entered[index] for index in issue.positions)
            self.issues.append(
                Issue(issue.code, issue.message, at, issue.ids, issue.method or name)
            )
        scored = {
            entered[index]: score
            for index, score in enumerate(judgement.scores)
            if score is not None
        }
        beyond = {entered[index] for index in judgement.beyond}
        missed = [index for index in entered if index not in scored and index not in beyond]
        self.degraded |= judgement.degraded
        # Missed here but scored before: the earlier stage gives its place.
        self.degraded |= any(index in self.scores for index in missed)
        self.unjudged.update(entered[index] for index in judgement.unjudged)
        self.left_alone |= beyond
        for index, score in scored.items():
            self.scores[index] = (*self.scores.get(index, ()), score)
        first = sorted(scored, key=scored.__getitem__, reverse=True)
        self.order = first + [index for index in self.order if index not in scored]

    def judgement(self, beyond: frozenset[int]) -> Judgement:
        count = len(self.order)
        ranked = [index for index in self.order if index in self.scores]
        scores: list[float | None] = [None] * count
        for rank, index in enumerate(ranked):
            scores[index] = (count - rank) / count
        unjudged = frozenset(self.unjudged - self.scores.keys())
        beyond |= self.left_alone - unjudged
        return Judgement(
            scores,
            unjudged,
            self.issues,
            [self.scores.get(index, ()) for index in range(count)],
            beyond - self.scores.keys(),
            self.degraded,
        )
