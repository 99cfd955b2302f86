"""Shared by methods that run other methods: life cycle, parts of a task, and issues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from secondpass.blending import Blend
from secondpass.effects import LLM, Judgement, KeepTime, Method, Plan, Task
from secondpass.errors import MethodError
from secondpass.methods import inner
from secondpass.types import Issue

T = TypeVar("T")


def in_turn(plan: Plan[T], *, last: bool) -> Plan[T]:
    """Run the plan of one of several successive methods.

    It ends after four fifths of the time left, unless it is the last method: here, and
    in any method that runs this one.

    Raises:
        MethodError: the method failed.
    """
    before = yield KeepTime(last)
    try:
        result = yield from plan
    except MethodError:
        yield KeepTime(last, before)
        raise
    yield KeepTime(last, before)
    return result


def part_of(task: Task, indices: Sequence[int]) -> Task:
    """The task about these texts alone, in this order."""

    def chosen(values: Sequence[Any] | None) -> list[Any] | None:
        return None if values is None else [values[index] for index in indices]

    return replace(
        task,
        texts=[task.texts[index] for index in indices],
        candidates=[task.candidates[index] for index in indices],
        windows=chosen(task.windows),
        spans=chosen(task.spans),
    )


@dataclass(slots=True)
class Notes:
    """What successive methods report.

    Attributes:
        issues: of all methods, with indices of the whole task.
        degraded: whether one failed, and another determined the order instead.
    """

    issues: list[Issue] = field(default_factory=list)
    degraded: bool = False

    def add(self, judgement: Judgement, indices: Sequence[int], name: str) -> None:
        """Add what a method reports about a part of the task.

        Args:
            judgement: of the part.
            indices: where its texts are in the task.
            name: of the method, for issues without one.
        """
        for issue in judgement.issues:
            positions = tuple(indices[position] for position in issue.positions)
            self.issues.append(replace(issue, positions=positions, method=issue.method or name))
        self.degraded |= judgement.degraded


def scored_order(judgement: Judgement) -> list[int]:
    """The indices that have a score, best first; ties keep their order.

    If the method gives the original order a weight, scores are blended with it by ``minmax``.
    """
    ordering = judgement.scores if judgement.order_scores is None else judgement.order_scores
    scores = {index: score for index, score in enumerate(ordering) if score is not None}
    if judgement.original:
        blend = Blend(judgement.original, "minmax")
        blended = blend.mix([None] * len(scores), [*scores.values()])
        scores = dict(zip(scores, blended.final, strict=True))
    return sorted(scores, key=scores.__getitem__, reverse=True)


class Composite:
    """Base class of methods that run others. Subclasses have these as ``methods``."""

    methods: Sequence[Method]

    @property
    def language_models(self) -> list[LLM]:
        """The language models of all methods."""
        return [llm for method in self.methods for llm in getattr(method, "language_models", ())]

    def check_installed(self) -> None:
        """Check that the packages of all methods are installed.

        Raises:
            MissingExtraError: one is not.
        """
        self._call_each("check_installed")

    def warm_up(self) -> None:
        """Load the models of all methods.

        Raises:
            ModelLoadError: one cannot be loaded.
        """
        self._call_each("warm_up")

    def close(self) -> None:
        """Release the models and connections of all methods."""
        self._call_each("close")

    def _call_each(self, member: str) -> None:
        """Call an optional member of each method."""
        for method in self.methods:
            function: Callable[[], object] | None = getattr(inner(method), member, None)
            if function is not None:
                function()


def asks(method: Method) -> bool:
    """Whether a method asks a language model, as it states by ``language_models``."""
    return bool(getattr(method, "language_models", ()))
