"""Anchors: a bound on how many places a method lifts a candidate above another order.

A passage can contain instructions to a language model that reads it ("rank this first"). Retrievers
and cross-encoders follow no instructions; the order of one of them is the anchor. The result is the
order nearest to the method's in which no candidate is more than ``lift`` places above its place in
the anchor's order (:func:`bounded_order`), unless a second opinion confirms it
(:mod:`secondpass.strategies.confirmation`).

Calls and rounds are those of the method, of the anchor's method, and with a confirmation at most
2 * depth calls in 2 rounds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.effects import Judgement, Method, Plan, Task
from secondpass.errors import ConfigurationError, MethodError, Problem
from secondpass.methods import METHOD, Stage
from secondpass.runtime.judgements import INSTRUCTION_NOT_USED
from secondpass.settings import Nested, configurable
from secondpass.strategies.base import Bounds, bounds_of
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.confirmation import CONFIRMATION, PossibleConfirmation, confirmed
from secondpass.strategies.interim import converted, silenced
from secondpass.strategies.lifts import Bound, bounded_order
from secondpass.strategies.parts import Composite, Notes, asks, in_turn, part_of, scored_order
from secondpass.strategies.windows import judged_by_windows
from secondpass.types import Issue, ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge

_OPTIONAL_METHOD = Nested(
    lambda value: None if value is None else METHOD.build(value),
    lambda: {"anyOf": [METHOD.schema(), {"type": "null"}]},
)


@configurable
@dataclass(frozen=True)
class Anchor:
    """A bound on how far language models lift a candidate.

    Attributes:
        lift: places at most that a candidate is lifted above its place in the anchor's order.
        method: gives the anchor's order: a scorer or another method. None is the input order: the
            retriever's, or in a cascade that of the stages before.
        confirm: judges each candidate that is lifted further alone; those that it confirms are not
            bounded. None confirms none.
    """

    lift: Annotated[int, Ge(0)]
    method: Annotated[Any, _OPTIONAL_METHOD] = None
    confirm: Annotated[Any, CONFIRMATION] = None


def anchored(anchor: Anchor | None, *stages: Stage) -> tuple[Stage, ...]:
    """The stages of a reranker, with an anchor.

    It bounds the method and the fallbacks that ask a language model. In a cascade, it bounds the
    stages from the first to the last that asks one, as a whole. If neither the method nor a stage
    of it asks one, it bounds the method, or its last stage.

    Raises:
        ConfigurationError: a stage has a blend; or a floor on scores that the anchor replaces, or
            probabilities of these.
    """
    if anchor is None:
        return stages
    result = []
    for number, stage in enumerate(stages):
        if number and not asks(stage.method):
            result.append(stage)
            continue
        reason = "its scores are ranks"
        wrong = ["floor", "probabilities"] if stage.method.score_kind != "rank" else []
        if stage.blend is not None:
            wrong, reason = ["blend"], "it would move candidates after their lift was bounded"
        for setting in wrong:
            if getattr(stage, setting) is not None:
                place = (setting,) if number == 0 else ("fallback", number - 1, setting)
                message = f"cannot be combined with an anchor: {reason}"
                raise ConfigurationError([Problem(place, message)])
        result.append(replace(stage, method=_bounded(anchor, stage.method)))
    return tuple(result)


def _bounded(anchor: Anchor, method: Method) -> Method:
    if not isinstance(method, Cascade):
        return Anchored(method, anchor)
    stages, last = method.stages, len(method.stages) - 1
    asking = [number for number, stage in enumerate(stages) if asks(stage.method)] or [last]
    first, end = asking[0], asking[-1] + 1
    if end - first == 1:
        bounded = _bounded(anchor, stages[first].method)
    else:  # the order before the second stage is a language model's already, so it is no anchor
        bounded = Anchored(Cascade(stages[first:end]), anchor)
    whole = replace(stages[first], method=bounded)
    if len(rest := [*stages[:first], whole, *stages[end:]]) == 1:
        return bounded
    return Cascade(rest)


class Anchored(Composite):
    """A method whose order is bounded by an anchor.

    The score kind is ``rank``; ``stage_scores`` has the scores of the method. The bound holds for
    all candidates that the method judges. What is missing from its result follows in the anchor's
    order, with a score as well, and the report says ``degraded``.

    If the anchor's method fails, the incoming order takes its place; what it does not score comes
    last in its order. If a confirmation fails, nothing is confirmed. In each case the report says
    ``degraded``.
    """

    score_kind: ScoreKind = "rank"
    scale = None
    windows = "task"  # each method gets those that it can use
    takes_instruction = True  # a method that takes none reports it

    def __init__(self, method: Method, anchor: Anchor) -> None:
        self.method = method
        self.anchor = anchor
        self.name = method.name
        self.methods: list[Method] = [method]
        if anchor.method is not None:
            self.methods.append(anchor.method)
        if anchor.confirm is not None:
            self.methods.append(anchor.confirm.method)

    def judge(self, task: Task) -> Plan[Judgement]:
        """The effects of the anchor's method, of the method, and of the confirmation.

        Raises:
            MethodError: the method failed.
        """
        count = len(task.texts)
        notes = Notes()
        order: Sequence[int] = range(count)
        # The anchor runs first: later there may be no time left for it.
        if self.anchor.method is not None and count > 1:
            order = yield from self._anchor_order(task, self.anchor.method, notes)
        plan = judged_by_windows(self.method, task)
        plan = converted(plan, task, task, partial(self._interim, order, notes))
        judgement = yield from in_turn(plan, last=True)
        bound = self._bound(judgement, order, notes)
        unbounded: set[int] = set()
        depth = 0 if self.anchor.confirm is None else self.anchor.confirm.depth
        if to_confirm := [index for index in bound.preferred[:depth] if index in bound.lifted]:
            confirming = confirmed(task, to_confirm, self.anchor.confirm, notes)
            unbounded = yield from in_turn(confirming, last=True)
        return self._judgement(judgement, bound, notes, unbounded)

    def _interim(self, order: Sequence[int], notes: Notes, judgement: Judgement) -> Judgement:
        """What :meth:`judge` would return if the method ended here and nothing were confirmed.

        Leaves ``notes`` as they are.
        """
        notes = replace(notes, issues=[*notes.issues])
        return self._judgement(judgement, self._bound(judgement, order, notes), notes)

    def _bound(self, judgement: Judgement, order: Sequence[int], notes: Notes) -> Bound:
        """The method's order, and which candidates it lifts too far above the anchor's."""
        notes.add(judgement, range(len(order)), self.name)
        preferred = scored_order(judgement)
        if judgement.original == 1 or not preferred:
            return Bound([], {}, [])
        scored = set(preferred)
        judged = [index for index in order if index in scored or index not in judgement.beyond]
        missing = [index for index in judged if index not in scored]
        notes.degraded |= bool(missing or judgement.original)
        preferred += missing
        places = {index: place for place, index in enumerate(judged)}
        lifted = [
            index
            for place, index in enumerate(preferred)
            if place < places[index] - self.anchor.lift
        ]
        return Bound(preferred, places, lifted)

    def _judgement(
        self, judgement: Judgement, bound: Bound, notes: Notes, unbounded: Collection[int] = ()
    ) -> Judgement:
        """The judgement of the method with its order bounded."""
        if not bound.preferred:
            return replace(judgement, issues=notes.issues)
        if held := sorted({*bound.lifted}.difference(unbounded)):
            places = f"{self.anchor.lift} place{'' if self.anchor.lift == 1 else 's'}"
            message = f"lifted by more than {places}, and held"
            notes.issues.append(Issue("lift_limited", message, tuple(held), (), self.name))
        count = len(judgement.scores)
        scores: list[float | None] = [None] * count
        final = bounded_order(bound.preferred, bound.places, self.anchor.lift, unbounded)
        for rank, index in enumerate(final):
            scores[index] = (count - rank) / count
        return Judgement(
            scores,
            issues=notes.issues,
            stage_scores=judgement.stage_scores
            or [() if score is None else (score,) for score in judgement.scores],
            beyond=judgement.beyond.difference(final),
            degraded=notes.degraded,
            spans=judgement.spans,
            spreads=judgement.spreads,
        )

    def _anchor_order(self, task: Task, method: Method, notes: Notes) -> Plan[Sequence[int]]:
        """All indices in the anchor's order."""
        incoming = range(len(task.texts))
        try:
            plan = silenced(judged_by_windows(method, task))
            judgement = yield from in_turn(plan, last=False)
        except MethodError as error:
            message = f"the incoming order takes its place: {error.code}: {error}"
            notes.issues.append(Issue("anchor_failed", message, (), (), method.name))
            notes.degraded = True
            return incoming
        # An anchor is not expected to follow the instruction of the call.
        issues = [issue for issue in judgement.issues if issue.code != INSTRUCTION_NOT_USED]
        notes.add(replace(judgement, issues=issues), incoming, method.name)
        order = scored_order(judgement)
        scored = {*order}
        rest = [index for index in incoming if index not in scored]
        # Degraded, too, if the anchor's method keeps the incoming order or gives it a weight.
        notes.degraded |= bool(judgement.original) or not judgement.beyond.issuperset(rest)
        return order + rest

    def bounds(self, count: int) -> Bounds | None:
        """Those of the method and of the anchor's, and of a confirmation, which may ask nothing.

        None if one of them states no bounds.
        """
        confirm = self.anchor.confirm
        bounds = [bounds_of(self.method, count)]
        if self.anchor.method is not None and count > 1:
            bounds.append(bounds_of(self.anchor.method, count))
        if confirm is not None and (lifted := count - 1 - self.anchor.lift) > 0:
            bounds.append(confirm.bounds(lifted))
        known = [item for item in bounds if item is not None]
        return sum(known, Bounds()) if len(known) == len(bounds) else None

    def parts(self, task: Task) -> list[tuple[Method, Task]]:
        """The anchor's method, the method, and what may have to be confirmed."""
        anchor, confirm = self.anchor.method, self.anchor.confirm
        count = len(task.texts)
        methods = [self.method] if anchor is None or count == 1 else [anchor, self.method]
        parts = [(method, task) for method in methods]
        if confirm is not None and (lifted := count - 1 - self.anchor.lift) > 0:
            first = range(min(lifted, confirm.depth))
            parts.append((PossibleConfirmation(confirm), part_of(task, first)))
        return parts
