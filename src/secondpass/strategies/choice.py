"""The strategy that ``auto`` chose for a list, as a method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from secondpass.effects import Judgement, Method, Plan, Task
from secondpass.strategies.base import Bounds, bounds_of
from secondpass.strategies.interim import converted
from secondpass.strategies.parts import part_of
from secondpass.strategies.windows import judged_by_windows
from secondpass.types import Issue, ScoreKind


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen strategy, as a method that ranks the first candidates of a task.

    Attributes:
        method: the strategy.
        count: number of candidates that it judges; the others are unjudged.
        reason: why it was chosen.
    """

    method: Method
    count: int
    reason: str
    score_kind: ClassVar[ScoreKind] = "rank"
    scale: ClassVar[None] = None
    windows: ClassVar[str] = "task"

    @property
    def name(self) -> str:
        """The name of the strategy, marked as chosen by ``auto``."""
        return f"auto: {self.method.name}"

    def bounds(self, count: int) -> Bounds | None:
        """Those of the strategy, for as many candidates as it judges."""
        return bounds_of(self.method, min(count, self.count)) if count > 1 else Bounds()

    def judge(self, task: Task) -> Plan[Judgement]:
        """The effects of the strategy.

        Raises:
            MethodError: it judged nothing.
        """
        count = len(task.texts)
        if count == 1:
            return Judgement([None], beyond=frozenset({0}))
        part = task if self.count >= count else part_of(task, range(self.count))
        extended = partial(self._extended, count)
        plan = judged_by_windows(self.method, part)
        return extended((yield from converted(plan, part, task, extended)))

    def _extended(self, count: int, judgement: Judgement) -> Judgement:
        """The judgement of all candidates, from that of the first ones."""
        judged = {i: score for i, score in enumerate(judgement.scores) if score is not None}
        scores: list[float | None] = [None] * count
        for rank, index in enumerate(sorted(judged, key=judged.__getitem__, reverse=True)):
            scores[index] = (count - rank) / count
        rest = range(self.count, count)
        issues = [*judgement.issues]
        if rest:
            message = "the limits do not allow all candidates to be judged; these are the last"
            issues.append(Issue("limits_too_low", message, tuple(rest), (), self.name))
        spans = judgement.spans
        return replace(
            judgement,
            scores=scores,
            unjudged=judgement.unjudged.union(rest),
            issues=issues,
            spans=None if spans is None else [*spans, *[None] * len(rest)],
        )
