"""Second opinions: candidates that a method lifts far are judged again, each alone.

A language model may obey the instructions of a passage in that question, too. So it is asked a
second question about the passage, whose right answer is known: how well it answers an unrelated
query. This is known-answer detection (Liu, Jia, Geng, Jia and Gong, "Formalizing and benchmarking
prompt injection attacks and defenses", USENIX Security 2024) by relevance. It detects instructions
that apply to every query, and not those that apply to some queries only.

At most 2 * depth calls in 2 rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.effects import Judgement, Method, Plan, Span, Task
from secondpass.errors import ConfigurationError, MethodError, Problem
from secondpass.methods import METHOD, beside, beside_as_setting
from secondpass.scoring import range_of, scores_alone
from secondpass.settings import Nested, configurable, definition
from secondpass.strategies.base import Bounds, bounds_of
from secondpass.strategies.interim import silenced
from secondpass.strategies.parts import Notes, asks, part_of
from secondpass.strategies.windows import judged_by_windows
from secondpass.types import Issue

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen

_CONTROL = "How often does a left-handed bassoon need new pads?"


@configurable
@dataclass(frozen=True)
class Confirmation:
    """Judges candidates that a method lifts further than an anchor allows, each alone.

    In a configuration, these settings are in the same mapping as those of its method.

    Attributes:
        method: scores each candidate by itself: a pointwise scorer, ``endpoint``, or ``graded``
            with ``batch_size: 1``.
        floor: the lowest score that confirms a lift, within the method's scale; None is the middle
            of a scale of grades, and 0.5 for probabilities. Required for other scores.
        control: a query that no candidate answers. A language model is asked about it as well; a
            candidate that reaches the floor for this query, too, is not confirmed.
        depth: only candidates among the first ``depth`` of the anchored method are judged.
    """

    method: Annotated[Any, METHOD]
    floor: float | None = None
    control: Annotated[str, MinLen(1)] = _CONTROL
    depth: Annotated[int, Ge(1)] = 20

    def __post_init__(self) -> None:
        method = self.method
        if method.score_kind == "rank" or not scores_alone(method):
            raise ConfigurationError(
                "a confirmation needs a method that scores each candidate by itself, such as "
                f"graded with 'batch_size: 1', not {method.name}"
            )
        if self.floor is None and method.score_kind not in {"grade", "probability"}:
            message = f"is required for scores of kind {method.score_kind!r}"
            raise ConfigurationError([Problem(("floor",), message)])
        low, high = range_of(method.score_kind, method.scale)
        if self.floor is not None and not low <= self.floor <= high:
            message = f"is outside the scale of {method.name}, {low:g} to {high:g}"
            raise ConfigurationError([Problem(("floor",), message)])

    @property
    def threshold(self) -> float:
        """The lowest score that confirms a lift."""
        low, high = self.method.scale or (0.0, 1.0)
        return (low + high) / 2 if self.floor is None else self.floor

    def bounds(self, count: int) -> Bounds | None:
        """Questions about none to ``count`` candidates; None if the method states no bounds."""
        return PossibleConfirmation(self).bounds(min(count, self.depth))

    def as_setting(self, where: str) -> dict[str, Any]:
        """The settings of the method and of the confirmation, in one mapping."""
        return beside_as_setting(self, where)


class PossibleConfirmation:
    """The method of a confirmation, for plans, which assume that it judges the whole task.

    Attributes:
        optional: true, since it may also be asked nothing.
    """

    optional = True

    def __init__(self, confirmation: Confirmation) -> None:
        self._method: Method = confirmation.method
        self.name = f"confirmation: {self._method.name}"
        self.score_kind = self._method.score_kind
        self.scale = self._method.scale
        self.windows = getattr(self._method, "windows", "one")

    def judge(self, task: Task) -> Plan[Judgement]:
        """The effects of the first round."""
        return self._method.judge(task)

    def bounds(self, count: int) -> Bounds | None:
        """From no questions to two rounds; one round if the method asks no language model."""
        bounds = bounds_of(self._method, count)
        if bounds is None:
            return None
        if asks(self._method):
            bounds += bounds
        return Bounds((0, bounds.calls[1]), (0, bounds.rounds[1]))


def _to_confirmation(value: Any) -> Confirmation | None:
    result: Confirmation | None = None if value is None else beside(Confirmation, value)
    return result


CONFIRMATION = Nested(
    _to_confirmation, lambda: {"anyOf": [definition("confirmation"), {"type": "null"}]}
)
"""A parameter whose value is a confirmation, or None."""


def confirmed(
    task: Task, indices: Sequence[int], confirmation: Confirmation, notes: Notes
) -> Plan[set[int]]:
    """Judge candidates alone, and return those whose lift is confirmed.

    Args:
        task: the whole task.
        indices: of the candidates to judge.
        confirmation: the settings.
        notes: the issues are added to these. A candidate without a score is not confirmed, and
            makes the report ``degraded``.
    """
    scores, spans = yield from _scores(task, indices, confirmation, notes)
    reaching = [index for index, score in scores.items() if score >= confirmation.threshold]
    if not reaching or not asks(confirmation.method):
        return set(reaching)
    # Shows the same windows again, without context and instruction, which are about the query.
    control = replace(task, query=confirmation.control, context=None, instruction=None, spans=spans)
    scores, _ = yield from _scores(control, reaching, confirmation, notes)
    suspects = {index for index, score in scores.items() if score >= confirmation.threshold}
    if suspects:
        message = "judged alone, these answer an unrelated query as well: do they instruct models?"
        name = confirmation.method.name
        issue = Issue("instructions_suspected", message, tuple(sorted(suspects)), (), name)
        notes.issues.append(issue)
    return scores.keys() - suspects


def _scores(
    task: Task, indices: Sequence[int], confirmation: Confirmation, notes: Notes
) -> Plan[tuple[dict[int, float], list[Span | None]]]:
    """The scores of the candidates that have one, and the span shown of each, by index."""
    spans: list[Span | None] = [None] * len(task.texts)
    method = confirmation.method
    try:
        judgement = yield from silenced(judged_by_windows(method, part_of(task, indices)))
        if judgement.score_kind not in {None, method.score_kind}:
            message = f"its scores are of kind {judgement.score_kind!r}, the floor is for another"
            raise MethodError(message, "score_out_of_range")
    except MethodError as error:
        message = f"none of these is confirmed: {error.code}: {error}"
        issue = Issue("confirmation_failed", message, tuple(sorted(indices)), (), method.name)
        notes.issues.append(issue)
        notes.degraded = True
        return {}, spans
    notes.add(judgement, indices, method.name)
    scores: dict[int, float] = {}
    for position, index in enumerate(indices):
        score = judgement.scores[position]
        if score is not None:
            scores[index] = score
        if judgement.spans is not None:
            spans[index] = judgement.spans[position]
    notes.degraded |= len(scores) < len(indices)
    return scores, spans
