"""One ranking, from candidates to report, as a plan that drivers carry out."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from secondpass.candidates import keep_best_of_each_id, retrieval_score
from secondpass.effects import Judgement, Plan, Task
from secondpass.errors import ConfigurationError, InputError, MethodError, RerankError
from secondpass.methods import Stage, judged
from secondpass.ordering import Ordering, to_ordering
from secondpass.runtime.ledger import Ledger
from secondpass.settings import describe
from secondpass.types import (
    Candidate,
    Issue,
    ItemStatus,
    Ranked,
    Ranking,
    Report,
    ReportStatus,
    ScoreKind,
)

if TYPE_CHECKING:
    from secondpass.reranker import Reranker


class CallSettings:
    """The settings of one call: the reranker's, but for what the caller gave.

    Raises:
        InputError: an argument is of the wrong kind or out of range.
    """

    def __init__(
        self,
        reranker: Reranker,
        top_k: int | None,
        depth: int | None,
        order: object,
        *,
        dedupe: bool | None = None,
        floor: float | None = None,
    ) -> None:
        for name, value in (("top_k", top_k), ("depth", depth)):
            if value is None:
                continue
            if (number := _whole_number(name, value)) < 1:
                # Python refuses to print whole numbers of thousands of digits.
                shown = f", not {number}" if number > -(10**9) else ""
                raise InputError(f"{name}: must be 1 or more{shown}")
        if dedupe is not None and not isinstance(dedupe, bool):
            raise InputError(f"dedupe: give True or False, not {describe(dedupe)}")
        self.top_k = reranker.top_k if top_k is None else operator.index(top_k)
        self.depth = reranker.depth if depth is None else operator.index(depth)
        self.dedupe = reranker.dedupe if dedupe is None else dedupe
        self.floor = None if floor is None else _number("floor", floor)
        try:
            self.order = reranker.order if order is None else to_ordering(order, reranker.orders)
        except ConfigurationError as error:
            raise InputError(f"order: {error}") from None


def _whole_number(name: str, value: object) -> int:
    # Arrays of no dimension have __index__ too, but are no numbers.
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return operator.index(value)
    raise InputError(f"{name}: give a whole number, not {describe(value)}")


def _number(name: str, value: object) -> float:
    try:
        if isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        raise InputError(f"{name}: is too large for a float") from None
    raise InputError(f"{name}: give a finite number, not {describe(value)}")


@dataclass(slots=True)
class RankingPass:
    """One ranking under way. Lists are aligned with ``candidates``, by input position."""

    reranker: Reranker
    stages: Sequence[Stage]
    call: CallSettings
    query: str
    candidates: list[Candidate]
    context: Any
    ledger: Ledger
    issues: list[Issue] = field(default_factory=list)
    status: list[ItemStatus] = field(init=False)
    rerank_score: list[float | None] = field(init=False)
    final_score: list[float | None] = field(init=False)
    stage_scores: dict[int, tuple[float, ...]] = field(default_factory=dict)
    shown: Sequence[int] = ()
    # The method does not judge a list like this one, a single candidate say.
    left_alone: bool = False
    ordered: bool = True
    degraded: bool = False
    score_kind: ScoreKind | None = None

    def __post_init__(self) -> None:
        count = len(self.candidates)
        self.status = ["tail"] * count
        self.rerank_score = [None] * count
        self.final_score = [None] * count

    def plan(self) -> Plan[Ranking]:
        """The pass as a generator of effects; it returns the ranking.

        Raises:
            RerankError: under ``strict``, when a candidate of the head that has something to show
                could not be scored, or the ordering could not be followed.
        """
        left_out: dict[str, Sequence[int]] = {}
        kept: Sequence[int] = range(len(self.candidates))
        if self.call.dedupe:
            kept, left_out["duplicate"] = keep_best_of_each_id(self.candidates)
        depth = len(kept) if self.call.depth is None else self.call.depth
        head, tail = kept[:depth], kept[depth:]

        stage = (yield from self._judge(head)) if head else None
        if stage is None:
            order = list(head)
            for at in kept:
                self.final_score[at] = retrieval_score(self.candidates[at])
            if head and not self.left_alone and self.call.order is not None:
                order = self._reorder_unjudged(order, self.call.order)
        else:
            order, left_out["floor"] = self._rank(head, stage)
            if stage.floor is None and self.stages[0].floor is not None:
                told = "the floor is the method's; this fallback has none of its own"
                self._tell("floor_not_applied", told, (), stage.method.name)
            if self.call.order is not None:
                order = self._reorder(order, self.call.order)
        if self.reranker.tail == "keep":
            order += tail
        else:
            left_out["tail"] = tail
        if self.call.top_k is not None:
            left_out["top_k"] = sorted(order[self.call.top_k :])
            order = order[: self.call.top_k]
        ranking = Ranking(self.query, self._items(order), self._report(head, stage, left_out))
        whole = self.ordered and not self.degraded and self._complete(self.shown)
        # Let go of it here: its traceback holds frames that hold the ledger.
        cause, self.ledger.error = self.ledger.error, None
        if self.reranker.strict and not whole:
            raise RerankError(ranking) from cause
        return ranking

    def _judge(self, head: Sequence[int]) -> Plan[Stage | None]:
        """Enter the judgement of the first stage that gives one, and return that stage."""
        for at in head:
            self.status[at] = "unjudged"
        rendering = self.reranker.render
        texts = rendering.candidates([self.candidates[at] for at in head])
        if missing := rendering.missing([self.candidates[at] for at in head]):
            names = ", ".join(map(repr, missing))
            message = f"no candidate has these of render.fields: {names}"
            self._tell("field_missing", message)
        shown = [at for at, text in zip(head, texts, strict=True) if text is not None]
        if len(shown) < len(head):
            without = [at for at, text in zip(head, texts, strict=True) if text is None]
            self._tell("no_text", "there is nothing of these to show to a method", without)
        self.shown = shown
        if not shown:
            return None
        task = Task(
            rendering.query(self.query),
            [text for text in texts if text is not None],
            [self.candidates[at] for at in shown],
            self.context,
        )
        for stage in self.stages:
            name = stage.method.name
            try:
                judgement = yield from judged(stage.method, task)
                self.score_kind = _kind_of_scores(judgement, stage)
            except MethodError as error:
                self._tell(error.code, str(error), (), name)
            else:
                self._enter(judgement, shown, name)
                if any(score is not None for score in judgement.scores):
                    return stage
                self.left_alone = self._complete(head)
                return None
        return None

    def _enter(self, judgement: Judgement, shown: Sequence[int], name: str) -> None:
        for issue in judgement.issues:
            positions = [shown[index] for index in issue.positions]
            self._tell(issue.code, issue.message, positions, issue.method or name)
        for index, (at, score) in enumerate(zip(shown, judgement.scores, strict=True)):
            if score is not None:
                self.status[at] = "scored"
                self.rerank_score[at] = score
            elif index in judgement.beyond:
                self.status[at] = "tail"
            elif index not in judgement.unjudged:
                self.status[at] = "backfilled"
        self.degraded = judgement.degraded
        if judgement.stage_scores is not None:
            self.stage_scores = dict(zip(shown, judgement.stage_scores, strict=True))

    def _rank(self, head: Sequence[int], stage: Stage) -> tuple[list[int], list[int]]:
        """The head in its new order, and what the floor leaves out of it."""
        status, final = self.status, self.final_score
        scored = [at for at in head if status[at] == "scored"]
        for at, score in zip(scored, self._final(scored, stage), strict=True):
            final[at] = score
        order = sorted(scored, key=final.__getitem__, reverse=True)  # type: ignore[arg-type]
        dropped: list[int] = []
        if stage.floor is not None:
            dropped = [at for at in order if final[at] < stage.floor]  # type: ignore[operator]
            order = order[: len(order) - len(dropped)]
        if len(scored) < len(head):
            order += [at for at in head if status[at] == "backfilled"]
            order += [at for at in head if status[at] == "unjudged"]
            order += [at for at in head if status[at] == "tail"]
        return order, sorted(dropped)

    def _final(self, scored: Sequence[int], stage: Stage) -> Sequence[float]:
        """The final scores of the scored items."""
        reranked: list[float] = [self.rerank_score[at] for at in scored]  # type: ignore[misc]
        if stage.blend is None:
            return reranked
        originals = [retrieval_score(self.candidates[at]) for at in scored]
        blended = stage.blend.mix(originals, reranked, stage.method.scale)
        if blended.absent and not (stage.blend.optional and len(blended.absent) == len(scored)):
            self._tell(
                "original_missing",
                "no retrieval score to blend; the final score is the method's alone",
                # Where that is all of them, the positions say nothing more.
                [scored[index] for index in blended.absent]
                if len(blended.absent) < len(scored)
                else (),
            )
        if blended.outside:
            self._tell(
                "original_out_of_range",
                "retrieval scores outside 0 to 1 were blended as they are",
                [scored[index] for index in blended.outside],
            )
        return blended.final

    def _reorder(self, order: list[int], ordering: Ordering) -> list[int]:
        """``order`` as the ordering wants it; as it is if that fails or loses any."""
        # To lay out what is not returned would put good items where they are cut off.
        count = self.call.top_k if getattr(ordering, "arranges", False) else None
        given, rest = order[:count], order[count:] if count else []
        try:
            moved = [item.position for item in ordering(self._items(given))]
            self.ordered = sorted(moved) == sorted(given)
        except Exception as error:
            self.ledger.record_exception(error, "the ordering")
            self._tell("order_failed", f"the ordering raised {type(error).__name__}")
            self.ordered = False
            return order
        if not self.ordered:
            self._tell("order_refused", "the ordering lost, doubled or added items")
            return order
        return moved + rest

    def _reorder_unjudged(self, order: list[int], ordering: Ordering) -> list[int]:
        """The order that came in, as an ordering that chooses by metadata wants it."""
        if getattr(ordering, "arranges", False):  # to lay out a ranking takes a ranking
            return order
        moved = self._reorder(order, ordering)
        if self.ordered:
            message = "nothing was judged; the ordering was applied to the order that came in"
            self._tell("order_applied_unjudged", message)
        return moved

    def _items(self, order: Sequence[int]) -> tuple[Ranked, ...]:
        candidates, status = self.candidates, self.status
        reranked, final, stage_scores = self.rerank_score, self.final_score, self.stage_scores
        return tuple(
            [
                Ranked(
                    rank,
                    at,
                    candidates[at],
                    status[at],
                    reranked[at],
                    final[at],
                    stage_scores.get(at, ()),
                    {**(candidates[at].metadata or {}), "rerank_score": reranked[at]},
                )
                for rank, at in enumerate(order, start=1)
            ]
        )

    def _report(
        self, head: Sequence[int], stage: Stage | None, left_out: dict[str, Sequence[int]]
    ) -> Report:
        status: ReportStatus = "ok"
        if stage is None:
            status = "ok" if self.left_alone or not head else "unchanged"
        elif stage is not self.stages[0] or self.degraded:
            status = "degraded"
        elif not self._complete(head):
            status = "partial"
        return Report(
            status=status,
            method=stage.method.name if stage else None,
            score_kind=self.score_kind if stage else None,
            issues=tuple(self.issues),
            usage=self.ledger.usage(),
            seconds=self.ledger.seconds,
            left_out={reason: tuple(at) for reason, at in left_out.items() if at},
        )

    def _complete(self, positions: Sequence[int]) -> bool:
        return all(self.status[at] in {"scored", "tail"} for at in positions)

    def _tell(
        self, code: str, message: str, positions: Sequence[int] = (), method: str | None = None
    ) -> None:
        ids = tuple(self.candidates[at].id for at in positions)
        self.issues.append(Issue(code, message, tuple(positions), ids, method))


def _kind_of_scores(judgement: Judgement, stage: Stage) -> ScoreKind:
    """What the scores of a judgement mean.

    Raises:
        MethodError: they are of another kind than the method's, and the stage depends on the kind.
    """
    usual: ScoreKind = stage.method.score_kind
    actual = judgement.score_kind
    if actual is None or actual == usual:
        return usual
    if stage.depends_on_kind:
        raise MethodError(
            f"the scores are of kind {actual!r}, but blend or floor are set for {usual!r}",
            "score_out_of_range",
        )
    return actual
