"""Applies a judgement to the candidates: statuses, scores, spans, order and issues.

The record of that is a :class:`Trace`, by which a ranking can explain the rank of each candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, make_dataclass
from itertools import chain
from typing import Any

from secondpass.effects import Call, Judgement, Method, Plan
from secondpass.errors import MethodError, reraise_exit
from secondpass.questions import Span
from secondpass.ranking.blending import Blend, with_weight
from secondpass.ranking.candidates import first_stage_scores, retrieval_score
from secondpass.ranking.floors import Floor, Probabilities
from secondpass.ranking.methods import reasons_of
from secondpass.ranking.ordering import Ordering
from secondpass.ranking.rendering import Rendering
from secondpass.ranking.scoring import member
from secondpass.ranking.terms import Sum, Term, added, unit_scale, unit_scores
from secondpass.settings import counted, registry
from secondpass.types import (
    Candidate,
    DegradedBy,
    Issue,
    ItemStatus,
    Piece,
    Ranked,
    ScoreKind,
    Threshold,
)

# Ranked without being frozen: to create one and change its class takes a third of the time.
_Draft = make_dataclass(
    "_Draft", [part.name for part in fields(Ranked)], slots=True, repr=False, eq=False
)


@dataclass(slots=True)
class Trace:
    """What a pass did with each candidate, including those that it left out. Holds no text.

    Attributes:
        ids, scores: ids and retrieval scores as they were passed, aligned with the input.
        status, rerank_score, final_score: aligned with the input.
        stage_scores, spans, spreads, probabilities, pieces: by input position, where there are any.
        head: the candidates within the depth, in input order.
        order: the candidates that were ranked, with those that ``top_k`` cuts off.
        order_scores: what was blended and decides the order, aligned with the input; None: the
            rerank scores.
        scored: those with a rerank score, in the order in which they were blended.
        terms: what was added to their scores, aligned with ``scored``; None if nothing was.
        originals: what was blended with them, aligned with ``scored``: their retrieval scores; of
            distances, ranks.
        before: the order of the head before an ordering moved items; None if none did.
        ordering: the name of that ordering.
        arranged: whether it only places items, so that ``before`` has the best ones first.
        blend: the blend that was applied; None if the final scores are the rerank scores.
        scale: lowest and highest grade, if the method's scores are grades.
        floor: the threshold that was applied.
        failed: whether nothing was scored because every method failed.
    """

    ids: Sequence[Any]
    scores: Sequence[Any]
    status: list[ItemStatus]
    rerank_score: list[float | None]
    final_score: list[float | None]
    stage_scores: dict[int, tuple[float, ...]] = field(default_factory=dict)
    spans: dict[int, Span] = field(default_factory=dict)
    head: Sequence[int] = ()
    order: Sequence[int] = ()
    order_scores: Sequence[float | None] | None = None
    scored: Sequence[int] = ()
    terms: Sum | None = None
    originals: Sequence[float | None] = ()
    before: Sequence[int] | None = None
    ordering: str | None = None
    blend: Blend | None = None
    scale: tuple[float, float] | None = None
    floor: Floor | None = None
    spreads: Mapping[int, float | None] = field(default_factory=dict)
    probabilities: Mapping[int, float] = field(default_factory=dict)
    failed: bool = False
    arranged: bool = False
    pieces: dict[int, Sequence[Piece]] = field(default_factory=dict)

    def original(self, position: int) -> float | None:
        """The retrieval score as a finite float; None if there is none."""
        return retrieval_score(Candidate("", score=self.scores[position]))

    def reordered(self, before: Sequence[int], ordering: object) -> None:
        """Keep the order before an ordering moved items, and the name of the ordering."""
        self.before, self.arranged = before, arranges(ordering)
        try:
            name = registry.name_of("orderings", ordering) or getattr(ordering, "__name__", None)
        except BaseException as error:  # a foreign object may raise anything
            reraise_exit(error)
            name = None
        self.ordering = str(name or type(ordering).__name__)

    def terms_by_position(self) -> Mapping[int, Mapping[str, float]]:
        """The terms of each candidate by field."""
        if self.terms is None:
            return {}
        return dict(zip(self.scored, self.terms.by_field(), strict=True))

    def items(self, candidates: Sequence[Candidate], order: Sequence[int]) -> tuple[Ranked, ...]:
        """The candidates at these positions as ranked items."""
        items: list[Any] = []
        terms = self.terms_by_position()
        for rank, position in enumerate(order, start=1):
            candidate, rerank_score = candidates[position], self.rerank_score[position]
            span, spread = self.spans.get(position), self.spreads.get(position)
            probability, values = self.probabilities.get(position), terms.get(position)
            metadata = {**(candidate.metadata or {}), "rerank_score": rerank_score}
            # A value of an earlier pass must not remain.
            if span is not None or "rerank_span" in metadata:
                metadata["rerank_span"] = span and list(span)
            if spread is not None or "rerank_spread" in metadata:
                metadata["rerank_spread"] = spread
            if probability is not None or "rerank_probability" in metadata:
                metadata["rerank_probability"] = probability
            if values is not None or "rerank_terms" in metadata:
                metadata["rerank_terms"] = values and {**values}
            item = _Draft(
                rank,
                position,
                candidate,
                self.status[position],
                rerank_score,
                self.final_score[position],
                self.stage_scores.get(position, ()),
                metadata,
                span,
                spread,
                probability,
                values,
                self.pieces.get(position, ()),
            )
            item.__class__ = Ranked
            items.append(item)
        return tuple(items)


DISTANCES = (
    "the retrieval scores rise along the list, so they are distances; ranks take their place"
)
"""Message of the issue ``scores_ascending``; see :mod:`secondpass.ranking.candidates`."""


@dataclass(slots=True)
class Outcome:
    """The state of one ranking, which follows from its candidates and one judgement.

    A pass creates one for its result, and one for each interim judgement if there is a listener.
    Integers are positions in ``candidates``.

    Attributes:
        head: candidates within the depth.
        renderable: those of the head that have a text for a method.
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
            found = dict(zip(positions, judgement.order_scores, strict=True))
            trace.order_scores = [found.get(item) for item in range(len(self.candidates))]
        self.original = judgement.original
        self.degraded_by = reasons_of(judgement)
        if judgement.stage_scores is not None:
            trace.stage_scores = dict(zip(positions, judgement.stage_scores, strict=True))
        if judgement.spreads is not None:
            trace.spreads = dict(zip(positions, judgement.spreads, strict=True))
        spans = [None] * len(positions) if judgement.spans is None else judgement.spans
        for position, span in zip(positions, spans, strict=True):
            if span is not None and trace.status[position] == "scored":
                span_of_text = rendering.span_of_text(self.candidates[position], span)
                if span_of_text is not None:
                    trace.spans[position] = span_of_text
        trace.pieces = {
            position: rendering.pieces_of_text(self.candidates[position], pieces)
            for position, pieces in zip(positions, judgement.pieces or (), strict=False)
            if pieces and trace.status[position] == "scored"
        }

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
        below: list[int] = []
        if floor is not None and (self.original if floor.on == "rerank" else not as_configured):
            message = "the threshold is set for scores that are not blended with the original order"
            self.add_issue("floor_not_applied", message, (), method.name)
        elif floor is not None:
            self.trace.floor = floor
            compared = final if floor.on == "final" else self.trace.rerank_score
            below = [item for item in scored if compared[item] < floor.at]  # type: ignore[operator]
        if self.terms:
            order = self._with_terms(scored, scores, order, kind)
        ranked = completed([scored[index] for index in order], self.head, status, self.issues)
        if below:
            dropped = {*below}
            ranked = [item for item in ranked if item not in dropped]
        return ranked, sorted(below)

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
            retrieved, distances = first_stage_scores(self.candidates)
            originals = [retrieved[position] for position in scored]
            if distances and all(issue.code != "scores_ascending" for issue in self.issues):
                self.add_issue("scores_ascending", DISTANCES)
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
            ranked = self.trace.items(self.candidates, items)
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


def arranges(ordering: object) -> bool:
    """Whether an ordering only places items, as it states by ``arranges``."""
    return bool(member(ordering, "arranges", False))


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


# ---------------------------------------------------------------------- partial results

# A candidate without a judgement, since a call failed or time ran out, may be better or worse than
# those with one. What is known about it is its place in the incoming order, so it is ranked by that
# among the judged candidates. Only ranks are used, which fits every kind of score.
# ``benchmarks/partial_results.py`` has the measurements, and docs/decisions the rules that did
# worse.

_LEAST_WEIGHT = 0.25
"""Weight of the unjudged candidates' own number if all of them come before all judged ones. The
judged ones are then the worse part of the list, so they are not placed far ahead."""
_KNOWN = frozenset({"no_text", "declined"})
"""Codes of issues about candidates that no failed call left unjudged: asked again, they would have
no score either."""


def completed(
    scored: Sequence[int],
    head: Sequence[int],
    status: Mapping[int, ItemStatus] | Sequence[ItemStatus],
    issues: Iterable[Issue],
) -> list[int]:
    """The order of a head: scored candidates, best first, with the others.

    Candidates that failed calls left unjudged are merged with them; missing ones, other unjudged
    ones and the tail follow, each in input order. Integers are positions.
    """
    if len(scored) == len(head):
        return [*scored]
    ranked = {*scored, *failed([item for item in head if status[item] == "unjudged"], issues)}
    order = merged(scored, [item for item in head if item in ranked])
    for other in ("backfilled", "unjudged", "tail"):
        order += [item for item in head if status[item] == other and item not in ranked]
    return order


def merged(judged: Sequence[int], incoming: Iterable[int]) -> list[int]:
    """Merge judged candidates, best first, with unjudged ones, which keep their order.

    If at most half are judged, the unjudged ones keep their places. Otherwise the one that comes
    after b judged ones, as number i of the unjudged ones, is ranked behind the best
    ``judged / unjudged * (b + w * i)`` judged ones. The weight w is 1 if failures are spread over
    the list, and a quarter if they are all at its head.

    ``incoming`` has all of them in the incoming order.
    """
    known = {*judged}
    unjudged: list[tuple[int, int]] = []  # with the number of judged ones before it
    before = 0
    for item in incoming:
        if item in known:
            before += 1
        else:
            unjudged.append((item, before))
    count, missing = len(judged), len(unjudged)
    ratio, weight = 1.0, 0.0
    if count > missing > 0:
        ratio = count / missing
        mean = sum(before for _, before in unjudged) / missing
        weight = _LEAST_WEIGHT + (1 - _LEAST_WEIGHT) * min(1.0, 2 * mean / count)
    order: list[int] = []
    placed = 0
    for number, (item, before) in enumerate(unjudged, 1):
        ahead = min(count, int(ratio * (before + weight * number)))
        order += [*judged[placed:ahead], item]
        placed = ahead
    return [*order, *judged[placed:]]


def failed(unjudged: Collection[int], issues: Iterable[Issue]) -> set[int]:
    """Those of the unjudged candidates whose call failed, or that time did not suffice for.

    The others have no text, or the method declined to judge them.
    """
    if not unjudged:
        return set()
    known = {index for issue in issues if issue.code in _KNOWN for index in issue.positions}
    return {*unjudged} - known
