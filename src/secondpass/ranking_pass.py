"""One ranking, from candidates to report, as a generator of effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from secondpass.blending import with_weight
from secondpass.call_options import PassSettings
from secondpass.candidates import keep_best_of_each_id, retrieval_score
from secondpass.effects import Judgement, Plan, Span, Task
from secondpass.errors import MethodError, RerankError
from secondpass.methods import Stage
from secondpass.ordering import Ordering, failure, reordered
from secondpass.runtime.ledger import Ledger
from secondpass.runtime.trace import Trace
from secondpass.strategies.windows import judged_by_windows, with_windows
from secondpass.types import (
    Candidate,
    Issue,
    ItemStatus,
    Ranking,
    Report,
    ReportStatus,
    ScoreKind,
)


@dataclass(slots=True)
class RankingPass:
    """The state of one ranking.

    ``status``, ``rerank_score`` and ``final_score`` are aligned with ``candidates``. All other
    integers are positions in ``candidates``.
    """

    settings: PassSettings
    ledger: Ledger
    query: str
    candidates: list[Candidate]
    context: Any
    issues: list[Issue] = field(default_factory=list)
    status: list[ItemStatus] = field(init=False)
    rerank_score: list[float | None] = field(init=False)
    final_score: list[float | None] = field(init=False)
    stage_scores: dict[int, tuple[float, ...]] = field(default_factory=dict)
    spans: dict[int, Span] = field(default_factory=dict)
    renderable: Sequence[int] = ()
    """Candidates of the head that have something to show to a method."""
    skipped: bool = False
    """Whether the method does not judge lists like this one, such as a single candidate."""
    order_followed: bool = True
    degraded: bool = False
    original: float | None = None
    """The method's weight of the original order."""
    score_kind: ScoreKind | None = None
    trace: Trace = field(init=False)
    """Shares the lists above, and keeps what `Ranking.explain` needs besides."""

    def __post_init__(self) -> None:
        count = len(self.candidates)
        self.status = ["tail"] * count
        self.rerank_score = [None] * count
        self.final_score = [None] * count
        self.trace = Trace(
            [candidate.id for candidate in self.candidates],
            [candidate.score for candidate in self.candidates],
            self.status,
            self.rerank_score,
            self.final_score,
            self.stage_scores,
            self.spans,
        )

    def plan(self) -> Plan[Ranking]:
        """Run the pass as a generator of effects that returns the ranking.

        Raises:
            RerankError: under ``strict``, if a candidate of the head that has something to show was
                not scored, or the ordering was not followed.
        """
        settings = self.settings
        left_out: dict[str, Sequence[int]] = {}
        kept: Sequence[int] = range(len(self.candidates))
        if settings.dedupe:
            kept, left_out["duplicate"] = keep_best_of_each_id(self.candidates)
        depth = len(kept) if settings.depth is None else settings.depth
        head, tail = kept[:depth], kept[depth:]
        self.trace.head = head

        stage = (yield from self._judge(head)) if head else None
        if stage is None:
            order = list(head)
            for position in kept:
                self.final_score[position] = retrieval_score(self.candidates[position])
            if head and not self.skipped and settings.order is not None:
                order = yield from self._reorder_unjudged(order, settings.order)
        else:
            order, left_out["floor"] = self._rank(head, stage)
            if stage.floor is None and settings.stages[0].floor is not None:
                message = "the floor is the method's; this fallback has none of its own"
                self._add_issue("floor_not_applied", message, (), stage.method.name)
            if settings.order is not None:
                order = yield from self._reorder(order, settings.order)
        if settings.tail == "keep":
            order += tail
        else:
            left_out["tail"] = tail
        self.trace.order = order
        if settings.top_k is not None:
            left_out["top_k"] = sorted(order[settings.top_k :])
            order = order[: settings.top_k]
        items = self.trace.items(self.candidates, order)
        report = self._report(head, stage, left_out)
        ranking = Ranking(self.query, items, report, self.trace)
        complete = self.order_followed and not self.degraded and self._complete(self.renderable)
        # Release the exception: frames of its traceback refer to the ledger.
        cause, self.ledger.error = self.ledger.error, None
        if settings.strict and not complete:
            raise RerankError(ranking) from cause
        return ranking

    def _judge(self, head: Sequence[int]) -> Plan[Stage | None]:
        """Apply the scores of the first stage that gives any, and return that stage."""
        for position in head:
            self.status[position] = "unjudged"
        rendering = self.settings.render
        candidates = [self.candidates[position] for position in head]
        texts = rendering.candidates(candidates)
        if missing := rendering.missing(candidates):
            names = ", ".join(map(repr, missing))
            self._add_issue("field_missing", f"no candidate has these of render.fields: {names}")
        self.renderable = head
        if None in texts:
            pairs = list(zip(head, texts, strict=True))
            empty = [position for position, text in pairs if text is None]
            self._add_issue("no_text", "there is nothing of these to show to a method", empty)
            self.renderable = [position for position, text in pairs if text is not None]
            candidates = [self.candidates[position] for position in self.renderable]
        if not self.renderable:
            return None
        texts_to_judge = [text for text in texts if text is not None]
        task = Task(rendering.query(self.query), texts_to_judge, candidates, self.context)
        if self.settings.passages is not None:
            task = with_windows(task, self.settings.passages, rendering)
        for number, stage in enumerate(self.settings.stages, 1):
            self.ledger.keep_time(for_fallback=number < len(self.settings.stages))
            name = stage.method.name
            try:
                judgement = yield from judged_by_windows(stage.method, task)
                self.score_kind = stage.kind_of(judgement)
            except MethodError as error:
                self._add_issue(error.code, str(error), (), name)
            else:
                self._apply(judgement, name)
                if judgement.spans is not None:
                    self._map_spans(candidates, judgement.spans)
                if any(score is not None for score in judgement.scores):
                    return stage
                self.skipped = self._complete(head)
                return None
        return None

    def _apply(self, judgement: Judgement, name: str) -> None:
        """Enter scores, statuses and issues of a judgement by position."""
        positions = self.renderable
        for issue in judgement.issues:
            concerned = [positions[index] for index in issue.positions]
            self._add_issue(issue.code, issue.message, concerned, issue.method or name)
        for index, (position, score) in enumerate(zip(positions, judgement.scores, strict=True)):
            if score is not None:
                self.status[position] = "scored"
                self.rerank_score[position] = score
            elif index in judgement.beyond:
                self.status[position] = "tail"
            elif index not in judgement.unjudged:
                self.status[position] = "backfilled"
        self.original = judgement.original
        self.degraded = judgement.degraded or bool(self.original)
        if judgement.stage_scores is not None:
            self.stage_scores.update(zip(positions, judgement.stage_scores, strict=True))

    def _map_spans(self, candidates: Sequence[Candidate], spans: Sequence[Span | None]) -> None:
        """Enter spans of the candidates' own texts for those of scored texts."""
        for position, candidate, span in zip(self.renderable, candidates, spans, strict=True):
            if span is not None and self.status[position] == "scored":
                own = self.settings.render.span_of_text(candidate, span)
                if own is not None:
                    self.spans[position] = own

    def _rank(self, head: Sequence[int], stage: Stage) -> tuple[list[int], list[int]]:
        """The head in its new order, without candidates below the floor; and the latter."""
        status, final = self.status, self.final_score
        scored = [position for position in head if status[position] == "scored"]
        scores, as_configured = self._final_scores(scored, stage)
        for position, score in zip(scored, scores, strict=True):
            final[position] = score
        order = sorted(scored, key=final.__getitem__, reverse=True)  # type: ignore[arg-type]
        below: list[int] = []
        if stage.floor is not None and not as_configured:
            message = "the floor was set for scores that are not blended with the original order"
            self._add_issue("floor_not_applied", message, (), stage.method.name)
        elif stage.floor is not None:
            self.trace.floor = stage.floor
            below = [index for index in order if final[index] < stage.floor]  # type: ignore[operator]
            order = order[: len(order) - len(below)]
        if len(scored) < len(head):
            for other in ("backfilled", "unjudged", "tail"):
                order += [position for position in head if status[position] == other]
        return order, sorted(below)

    def _final_scores(self, scored: Sequence[int], stage: Stage) -> tuple[Sequence[float], bool]:
        """The final scores, and whether they are on the scale that the stage is configured for."""
        reranked: list[float] = [self.rerank_score[index] for index in scored]  # type: ignore[misc]
        if stage.blend is None and not self.original:
            return reranked, True
        originals = [retrieval_score(self.candidates[position]) for position in scored]
        blend = with_weight(stage.blend, self.original, originals)
        assert blend is not None
        self.trace.scored, self.trace.blend = scored, blend
        self.trace.scale = stage.method.scale
        blended = blend.mix(originals, reranked, stage.method.scale)
        all_absent = len(blended.absent) == len(scored)
        if blended.absent and not (blend.optional and all_absent):
            self._add_issue(
                "original_missing",
                "no retrieval score to blend; the final score is the method's alone",
                () if all_absent else [scored[index] for index in blended.absent],
            )
        if blended.outside:
            self._add_issue(
                "original_out_of_range",
                "retrieval scores outside 0 to 1 were blended as they are",
                [scored[index] for index in blended.outside],
            )
        return blended.final, stage.blend is not None and blend.normalize == stage.blend.normalize

    def _reorder(self, order: list[int], ordering: Ordering) -> Plan[list[int]]:
        """Apply the ordering; return ``order`` if it fails or loses or adds items."""
        # An arrangement of more than top_k items would lose the good ones that it puts last.
        count = self.settings.top_k if getattr(ordering, "arranges", False) else None
        items, rest = order[:count], order[count:] if count else []
        try:
            moved = yield from reordered(ordering, self.trace.items(self.candidates, items))
            self.order_followed = sorted(moved) == sorted(items)
        except Exception as error:
            self.ledger.record_exception(error, "the ordering")
            self._add_issue("order_failed", failure(error))
            self.order_followed = False
            return order
        if not self.order_followed:
            self._add_issue("order_refused", "the ordering lost, repeated or added items")
            return order
        self.trace.reordered(order, ordering)
        return moved + rest

    def _reorder_unjudged(self, order: list[int], ordering: Ordering) -> Plan[list[int]]:
        """Apply an ordering that chooses by metadata to the input order."""
        if getattr(ordering, "arranges", False):  # it arranges a ranking, and there is none
            return order
        moved = yield from self._reorder(order, ordering)
        if self.order_followed:
            message = "nothing was judged; the ordering was applied to the input order"
            self._add_issue("order_applied_unjudged", message)
        return moved

    def _report(
        self, head: Sequence[int], stage: Stage | None, left_out: dict[str, Sequence[int]]
    ) -> Report:
        status: ReportStatus = "ok"
        if stage is None:
            status = "ok" if self.skipped or not head else "unchanged"
        elif stage is not self.settings.stages[0] or self.degraded:
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
            left_out={
                reason: tuple(positions) for reason, positions in left_out.items() if positions
            },
            engines=tuple(self.ledger.engines),
        )

    def _complete(self, positions: Sequence[int]) -> bool:
        return all(self.status[position] in {"scored", "tail"} for position in positions)

    def _add_issue(
        self, code: str, message: str, positions: Sequence[int] = (), method: str | None = None
    ) -> None:
        ids = tuple(self.candidates[position].id for position in positions)
        self.issues.append(Issue(code, message, tuple(positions), ids, method))
