"""Applies a judgement to the candidates: statuses, scores, spans, issues, order, ranked items."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, fields, make_dataclass
from itertools import chain
from typing import Any

from secondpass.effects import Call, Judgement, Method, Plan
from secondpass.errors import MethodError, reraise_exit
from secondpass.ranking.blending import Blend, with_weight
from secondpass.ranking.candidates import first_stage_scores, retrieval_score
from secondpass.ranking.floors import Floor, Probabilities
from secondpass.ranking.judgements import reasons_of
from secondpass.ranking.ordering import Ordering, arranges
from secondpass.ranking.partial_results import completed
from secondpass.ranking.rendering import Rendering
from secondpass.ranking.terms import Term, added, unit_scale, unit_scores
from secondpass.ranking.trace import Trace
from secondpass.settings import counted
from secondpass.settings.messages import did_you_mean
from secondpass.types import (
    Candidate,
    DegradedBy,
    Issue,
    ItemStatus,
    Ranked,
    ScoreKind,
    Threshold,
)

# Ranked is frozen: its constructor sets each field by object.__setattr__, in 1.5 µs. An object that
# is made of this class, with the same slots, and becomes a Ranked by its __class__, takes 0.3 µs.
_UnfrozenRanked = make_dataclass(
    "_UnfrozenRanked", [part.name for part in fields(Ranked)], slots=True, repr=False, eq=False
)

_DISTANCES = (
    "the retrieval scores rise along the list, so they are distances; ranks take their place"
)
_PERHAPS_DISTANCES = (
    "the second of two retrieval scores is higher, and counts as better; if these are distances, "
    "pass similarities (higher is better), such as 1 - distance"
)


def ascending(candidates: Sequence[Candidate]) -> str | None:
    """The message of the issue ``scores_ascending``; None if retrieval scores do not rise."""
    if first_stage_scores(candidates)[1]:
        return _DISTANCES
    # Two may rise by chance, as in a list that is not the best first.
    return _PERHAPS_DISTANCES if first_stage_scores(candidates, fewest=2)[1] else None


@dataclass(slots=True)
class Outcome:
    """The state of one ranking, which follows from its candidates and one judgement.

    A pass creates one for its result, and one for each interim judgement if there is a listener.
    Integers are positions in ``candidates``.

    Attributes:
        head: candidates within the depth.
        renderable: candidates of the head that have a text for a method.
        on_exception: called with an exception of an ordering, and with its source.
        call: the handle of the pass, for orderings that run a model.
        degraded_by: why the ranking is ``degraded``, beside a fallback.
        terms, now: what is added to the scores, and the time for that.
        original: the method's weight of the original order.
        trace: the statuses and scores, and what else ``Ranking.explain`` needs.
    """

    candidates: Sequence[Candidate]
    head: Sequence[int]
    renderable: Sequence[int]
    issues: list[Issue]
    on_exception: Callable[[BaseException, str], None]
    call: Call
    terms: Sequence[Term] = ()
    now: float = 0.0
    order_followed: bool = True
    degraded_by: Set[DegradedBy] = frozenset()
    original: float | None = None
    trace: Trace = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.candidates)
        status: list[ItemStatus] = ["tail"] * count
        for position in self.head:
            status[position] = "unjudged"
        self.trace = Trace(
            [candidate.id for candidate in self.candidates],
            [candidate.score for candidate in self.candidates],
            status,
            [None] * count,
            [None] * count,
            head=self.head,
        )

    def add_probabilities(self, mapping: Probabilities | None) -> None:
        """Set the probabilities, unless the method gives weight to the original order."""
        if mapping is not None and not self.original:
            scores = enumerate(self.trace.rerank_score)
            self.trace.probabilities = {
                position: mapping.of(score) for position, score in scores if score is not None
            }

    def apply(self, judgement: Judgement, name: str, rendering: Rendering) -> None:
        """Set scores, statuses, issues and spans from a judgement of the texts of ``renderable``.

        ``name`` is that of the method, for issues that name none.
        """
        positions, trace = self.renderable, self.trace
        self.original = judgement.original
        self.degraded_by = reasons_of(judgement)
        for issue in judgement.issues:
            concerned = [positions[index] for index in issue.positions]
            self.add_issue(issue.code, issue.message, concerned, issue.method or name)
        for index, (position, score) in enumerate(zip(positions, judgement.scores, strict=True)):
            if score is not None:
                trace.status[position] = "scored"
                trace.rerank_score[position] = score
            elif index in judgement.beyond:
                trace.status[position] = "tail"
            elif index not in judgement.unjudged:
                trace.status[position] = "backfilled"
        if judgement.order_scores is not None:
            order_scores = dict(zip(positions, judgement.order_scores, strict=True))
            count = len(self.candidates)
            trace.order_scores = [order_scores.get(position) for position in range(count)]
        if judgement.stage_scores is not None:
            trace.stage_scores = dict(zip(positions, judgement.stage_scores, strict=True))
        self._apply_parts(judgement, rendering)

    def _apply_parts(self, judgement: Judgement, rendering: Rendering) -> None:
        """Set the spans and pieces of scored candidates: of their own texts, not the rendered."""
        positions, trace = self.renderable, self.trace
        if judgement.spans is not None:
            for position, span in zip(positions, judgement.spans, strict=True):
                if span is None or trace.status[position] != "scored":
                    continue
                span_of_text = rendering.span_of_text(self.candidates[position], span)
                if span_of_text is not None:
                    trace.spans[position] = span_of_text
        if judgement.pieces is not None:
            for position, pieces in zip(positions, judgement.pieces, strict=True):
                if not pieces or trace.status[position] != "scored":
                    continue
                trace.pieces[position] = rendering.pieces_of_text(self.candidates[position], pieces)

    def rank(
        self,
        method: Method,
        blend: Blend | None,
        floor: Floor | None,
        kind: ScoreKind | None = None,
    ) -> tuple[list[int], list[int]]:
        """The head in its new order, without the candidates below the threshold; and these.

        ``kind`` is that of the scores, for terms.
        """
        status, final = self.trace.status, self.trace.final_score
        scored = [position for position in self.head if status[position] == "scored"]
        scores, order, as_configured = self._final_scores(scored, method, blend)
        for position, score in zip(scored, scores, strict=True):
            final[position] = score
        below = self._below(floor, scored, as_configured, method.name)
        if self.terms:
            order = self._with_terms(scored, scores, order, kind)
        ranked = [scored[index] for index in order]
        if len(ranked) < len(self.head):
            ranked = completed(ranked, self.head, status, self.issues)
        if below:
            dropped = {*below}
            ranked = [position for position in ranked if position not in dropped]
        return ranked, sorted(below)

    def _below(
        self, floor: Floor | None, scored: Sequence[int], as_configured: bool, name: str
    ) -> list[int]:
        """The scored candidates below the threshold; none if it is not for scores like these.

        Args:
            floor: the threshold.
            scored: candidates with a score.
            as_configured: whether their final scores are those that the blend was configured for.
            name: of the method.
        """
        if floor is None:
            return []
        trace = self.trace
        if floor.on == "final":
            compared, is_comparable = trace.final_score, as_configured
        else:
            compared, is_comparable = trace.rerank_score, not self.original
        if not is_comparable:
            message = "the threshold is set for scores that are not blended with the original order"
            self.add_issue("floor_not_applied", message, (), name)
            return []
        trace.floor = floor
        at = floor.at
        return [position for position in scored if compared[position] < at]  # type: ignore[operator]

    def _with_terms(
        self,
        scored: Sequence[int],
        scores: Sequence[float],
        order: Sequence[int],
        kind: ScoreKind | None,
    ) -> Sequence[int]:
        """The order of scores with the terms added, which become the final scores."""
        trace = self.trace
        if trace.blend is None and trace.order_scores is not None:
            kind = None  # they may have no range
        scale = unit_scale(kind, trace.blend)
        unit = unit_scores(scores, scale, None if trace.blend is not None else trace.scale)
        if len({*unit}) < 2:
            if len(self.head) > 1:
                # The terms alone would sort the list: of a model that failed, by date.
                self.add_issue("terms_not_applied", "all scores are equal, on a scale of 0 to 1")
            return order
        candidates = [self.candidates[position] for position in scored]
        total = added(self.terms, candidates, scores, unit, scale=scale, now=self.now)
        if total.missing:
            shares = ", ".join(
                f"{len(indices):,} of {counted(len(scored), 'candidate')} in {field!r}"
                + (_nearest_key(field, candidates) if len(indices) == len(scored) else "")
                for field, indices in total.missing.items()
            )
            concerned = sorted({*chain.from_iterable(total.missing.values())})
            self.add_issue(
                "term_missing",
                f"there is no value that can be read: {shares}",
                [scored[index] for index in concerned],
            )
        trace.scored, trace.terms = scored, total
        final = total.final
        for position, score in zip(scored, final, strict=True):
            trace.final_score[position] = score
        return sorted(order, key=final.__getitem__, reverse=True)

    def _final_scores(
        self, scored: Sequence[int], method: Method, blend: Blend | None
    ) -> tuple[Sequence[float], Sequence[int], bool]:
        """The final scores, and the indices of ``scored`` in their order.

        And whether blend and threshold are set for scores like these.
        """
        trace = self.trace
        ordering = trace.order_scores or trace.rerank_score
        reranked: list[float] = [ordering[index] for index in scored]  # type: ignore[misc]
        trace.scale = method.scale
        if blend is None and not self.original:
            order = sorted(range(len(scored)), key=reranked.__getitem__, reverse=True)
            return reranked, order, True
        originals = [retrieval_score(self.candidates[position]) for position in scored]
        weighted = with_weight(blend, self.original, originals)
        assert weighted is not None
        if weighted.by_scale:
            retrieved, _ = first_stage_scores(self.candidates)
            originals = [retrieved[position] for position in scored]
            message = ascending(self.candidates)
            if message and all(issue.code != "scores_ascending" for issue in self.issues):
                self.add_issue("scores_ascending", message)
        trace.scored, trace.blend, trace.originals = scored, weighted, originals
        blended = weighted.mix(originals, reranked, method.scale)
        all_absent = len(blended.absent) == len(scored)
        if blended.absent and not (weighted.optional and all_absent):
            self.add_issue(
                "original_missing",
                "no retrieval score to blend; the final score is the method's alone",
                () if all_absent else [scored[index] for index in blended.absent],
            )
        if blended.outside:
            self.add_issue(
                "original_out_of_range",
                "retrieval scores outside 0 to 1 were blended as they are",
                [scored[index] for index in blended.outside],
            )
        as_configured = blend is not None and weighted.normalize == blend.normalize
        return blended.final, blended.order, as_configured

    @property
    def threshold(self) -> Threshold | None:
        """The threshold that was applied, for the report."""
        floor = self.trace.floor
        return None if floor is None or floor.on is None else Threshold(floor.at, floor.on)

    def nothing_relevant(self, floor: Floor | None) -> bool | None:
        """Whether all candidates of the head are below the threshold for that.

        None without such a threshold, and if it is not known: the method gives weight to the
        original order, or a candidate without a score could be relevant.
        """
        if floor is None or floor.nothing is None or self.original:
            return None
        if any(score is not None and score >= floor.nothing for score in self.trace.rerank_score):
            return False
        return True if self.head and self.complete(self.head, ("scored",)) else None

    def reorder(self, order: list[int], ordering: Ordering, top_k: int | None) -> Plan[list[int]]:
        """Apply the ordering; return ``order`` if it fails or loses or adds items."""
        # Arranged beyond top_k, good items that are placed last would be cut off.
        count = top_k if arranges(ordering) else None
        items, rest = order[:count], order[count:] if count else []
        try:
            ranked = self.items(items)
            effects = getattr(ordering, "effects", None)
            result = (yield from effects(ranked, self.call)) if effects else ordering(ranked)
            moved = [item.position for item in result]
            self.order_followed = sorted(moved) == sorted(items)
        except GeneratorExit:  # the plan is closed
            raise
        except BaseException as error:
            reraise_exit(error)
            self.on_exception(error, "the ordering")
            # Messages of other exceptions may contain anything.
            own = isinstance(error, MethodError)
            reason = f"failed: {error}" if own else f"raised {type(error).__name__}"
            self.add_issue("order_failed", f"the ordering {reason}")
            self.order_followed = False
            return order
        if not self.order_followed:
            self.add_issue("order_refused", "the ordering lost, repeated or added items")
            return order
        self.trace.reordered(order, ordering)
        return moved + rest

    def items(self, order: Sequence[int]) -> tuple[Ranked, ...]:
        """The candidates at these positions as ranked items."""
        trace = self.trace
        terms = {} if trace.terms is None else trace.terms_by_position()
        items: list[Any] = []
        for rank, position in enumerate(order, start=1):
            candidate, rerank_score = self.candidates[position], trace.rerank_score[position]
            span, values = trace.spans.get(position), terms.get(position)
            probability = trace.probabilities.get(position)
            metadata = {**(candidate.metadata or {}), "rerank_score": rerank_score}
            # A value of an earlier pass must not remain.
            if span is not None or "rerank_span" in metadata:
                metadata["rerank_span"] = None if span is None else list(span)
            if probability is not None or "rerank_probability" in metadata:
                metadata["rerank_probability"] = probability
            if values is not None or "rerank_terms" in metadata:
                metadata["rerank_terms"] = None if values is None else {**values}
            # In the order of the fields of Ranked: by name takes twice as long.
            item = _UnfrozenRanked(
                rank,
                position,
                candidate,
                trace.status[position],
                rerank_score,
                trace.final_score[position],
                trace.stage_scores.get(position, ()),
                metadata,
                span,
                probability,
                values,
                trace.pieces.get(position, ()),
            )
            item.__class__ = Ranked
            items.append(item)
        return tuple(items)

    def complete(
        self, positions: Sequence[int], statuses: Sequence[ItemStatus] = ("scored", "tail")
    ) -> bool:
        """Whether each of these candidates has one of these statuses."""
        return all(self.trace.status[position] in statuses for position in positions)

    def add_issue(
        self, code: str, message: str, positions: Sequence[int] = (), method: str | None = None
    ) -> None:
        """Add an issue about these candidates."""
        self.issues.append(issue_about(self.candidates, code, message, positions, method))


def issue_about(
    candidates: Sequence[Candidate],
    code: str,
    message: str,
    positions: Sequence[int],
    method: str | None,
) -> Issue:
    """An issue with the ids of the candidates that it concerns."""
    ids = tuple(candidates[position].id for position in positions)
    return Issue(code, message, tuple(positions), ids, method)


def _nearest_key(field: str, candidates: Sequence[Candidate]) -> str:
    """``; did you mean 'x'?`` with the key of the metadata most like a field that none has."""
    keys = {key for candidate in candidates for key in candidate.metadata if isinstance(key, str)}
    hints = (did_you_mean(name, sorted(keys - {name})) for name in field.split("|"))
    return next(filter(None, hints), "")
