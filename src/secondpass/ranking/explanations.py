"""Why a candidate has its rank, or was left out: as a record, and in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from secondpass.errors import InputError
from secondpass.ranking.floors import FloorOn
from secondpass.ranking.partial_results import failed
from secondpass.ranking.terms import UnitScale
from secondpass.ranking.trace import Trace
from secondpass.settings import describe, suggestion
from secondpass.types import (
    DEGRADED_WORDS,
    DegradedBy,
    Issue,
    ItemStatus,
    Ranked,
    Report,
    ReportStatus,
    ScoreKind,
    plain,
    plain_id,
    record_id,
)

_MOST_SUGGESTED = 20  # ids that an error lists at most, if none of them is similar
_LONGEST_SUGGESTED = 50  # characters of an id that is suggested


@dataclass(frozen=True, slots=True)
class BlendTerms:
    """How a retrieval score and a rerank score gave a final score.

    ``final = original_weight * original + (1 - original_weight) * rerank``.

    Attributes:
        normalize: how the scores were made comparable, as in
            :class:`~secondpass.ranking.blending.Blend`.
        original_weight: 0 to 1.
        original: the retrieval score, normalised; None if the candidate had none, and the final
            score is the normalised rerank score.
        rerank: the rerank score, normalised.
    """

    normalize: str
    original_weight: float
    original: float | None
    rerank: float


@dataclass(frozen=True, slots=True)
class AddedTerms:
    """How a score and terms gave a final score.

    ``final = (score + Σ weight * value) / (1 + Σ weight)``, over ``values``.

    Attributes:
        before: the score before terms, which a threshold on the final score is compared with.
        scale: how it became 0 to 1: ``none``: as it is (of a grade, its place on the scale);
            ``sigmoid``; ``minmax``: by the lowest and highest of this list, so that it says nothing
            about other lists.
        score: that, 0 to 1.
        values: of the candidate, 0 to 1, by field.
        weights: by field.
    """

    before: float
    scale: UnitScale
    score: float
    values: Mapping[str, float]
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a candidate has its rank, or why it was left out. Holds no text of query and candidate.

    ``str()`` of it is a few lines for people.

    Attributes:
        id: the candidate's id.
        position: its index in the input, from 0.
        count: number of candidates in the input.
        rank: from 1; None if it was left out.
        left_out: ``duplicate``, ``floor``, ``tail`` or ``top_k``; None if it was not.
        rank_without_top_k: the rank that it has, or would have if ``top_k`` had not cut it off.
        retrieval_rank: from 1, in the input.
        retrieval_score: a finite float; None if there is none.
        status: ``scored``, ``backfilled``, ``unjudged`` or ``tail``.
        within_depth: whether it was among the candidates to rerank.
        method: name of the method that determined the order; None if none did.
        score_kind: what its scores mean.
        rerank_score: the method's score.
        order_score: what the method orders this list by, if that is another score; else None.
        stage_scores: its scores by the stages of a cascade.
        blend: how the two scores were mixed; None if the final score is the method's alone.
        terms: what was added to its score; None if nothing was.
        final_score: what candidates are sorted by.
        floor: the threshold that the scores had to reach; None if there was none.
        floor_on: what it was compared with: ``final`` or ``rerank``; None without a threshold.
        rank_before_order: the rank before an ordering moved candidates; None if none did.
        order: the name of that ordering.
        span: the part of its text that matched best, in characters.
        report_status: the status of the ranking.
        degraded_by: why that is ``degraded``; empty if it is not.
        skipped: why the pass was left out, or made shorter, for this query; None if it was not.
        issues: the issues of the report that concern this candidate, or all.
        same_id: input positions of other candidates with this id.
    """

    id: Any
    position: int
    count: int
    rank: int | None
    left_out: str | None
    rank_without_top_k: int | None
    retrieval_rank: int
    retrieval_score: float | None
    status: ItemStatus
    within_depth: bool
    method: str | None
    score_kind: ScoreKind | None
    rerank_score: float | None
    order_score: float | None
    stage_scores: tuple[float, ...]
    blend: BlendTerms | None
    terms: AddedTerms | None
    final_score: float | None
    floor: float | None
    floor_on: FloorOn | None
    rank_before_order: int | None
    order: str | None
    span: tuple[int, int] | None
    report_status: ReportStatus
    degraded_by: tuple[DegradedBy, ...]
    skipped: str | None
    issues: tuple[Issue, ...]
    same_id: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return dicts, lists, strings and numbers, ready for JSON."""
        record: dict[str, Any] = dict(plain(self))
        return record

    def __str__(self) -> str:
        name = f"input position {self.position}" if self.id is None else repr(record_id(self.id))
        place = "left out" if self.rank is None else f"rank {self.rank}"
        lines = [f"{name}: {place}, of {self.count:,} candidates"]
        lines += [f"  {label:<10} {line}" for label, line in self._lines()]
        return "\n".join(lines)

    def _lines(self) -> Iterator[tuple[str, str]]:
        score = "no score" if self.retrieval_score is None else f"score {self.retrieval_score:.6g}"
        yield "retrieved", f"rank {self.retrieval_rank}, {score}"
        if self.rerank_score is None:
            yield "not scored", self._why_not_scored()
        else:
            order = "" if self.order_score is None else f"; {self.order_score:.6g} in this list"
            score = f"{self.rerank_score:.6g} ({self.score_kind})"
            yield "scored", f"{score} by {self.method}{order}"
        if len(self.stage_scores) > 1:
            scores = ", ".join(f"{score:.6g}" for score in self.stage_scores)
            yield "stages", f"{scores}, first stage first"
        yield from self._lines_about_final_score()
        if self.rank_before_order is not None:
            same = self.rank_before_order == self.rank
            moved = "and stays there" if same else f"moved by {self.order}"
            yield "ordered", f"rank {self.rank_before_order} by score, {moved}"
        if self.left_out is not None:
            rank = self.rank_without_top_k
            cut = f"it is number {rank}, beyond top_k"
            yield "left out", _REASONS.get(self.left_out, cut)
        if self.span is not None:
            yield "best part", f"characters {self.span[0]} to {self.span[1]}"
        if self.report_status != "ok":
            reasons = "; ".join(DEGRADED_WORDS[reason] for reason in self.degraded_by)
            because = f": {reasons}" if reasons else ""
            yield "status", f"the ranking is {self.report_status}{because}"
        for issue in self.issues:
            yield "issue", f"{issue.code}: {issue.message}"
        if self.same_id:
            positions = ", ".join(map(str, self.same_id))
            yield "same id", f"input positions {positions}"

    def _lines_about_final_score(self) -> Iterator[tuple[str, str]]:
        if self.blend is not None:
            yield "blended", self._blended(self.blend)
        compared = self.rerank_score if self.floor_on == "rerank" else self._before_terms
        if self.floor is not None and compared is not None:
            relation = "below" if compared < self.floor else "at least"
            yield "floor", f"{self.floor_on} score {compared:.6g} is {relation} {self.floor:g}"
        if self.terms is not None:
            yield "terms", self._sum(self.terms)

    def _why_not_scored(self) -> str:
        if self.left_out == "duplicate":
            return "another candidate with this id was"
        if not self.within_depth:
            return "beyond the depth; it keeps its order after the scored ones"
        if self.status == "tail":
            reason = "the method does not judge it" if self.skipped is None else self.skipped
            return f"{reason}; it keeps its order"
        if self.report_status == "unchanged" and self.status == "unjudged":
            return "nothing was; candidates keep their order"
        if self.status == "unjudged" and failed([self.position], self.issues):
            return "its call failed, or time ran out; its retrieval rank decides its place"
        missing = self.status == "backfilled"
        reason = "missing from the method's answer" if missing else "no text, or it was declined"
        return f"{reason}; it keeps its order after the scored ones"

    @property
    def _before_terms(self) -> float | None:
        return self.final_score if self.terms is None else self.terms.before

    def _sum(self, terms: AddedTerms) -> str:
        scale = {"none": "", "sigmoid": " (sigmoid)", "minmax": " (by minmax, in this list)"}
        parts = [
            f"{terms.weights[field]:g} * {value:.6g} ({field})"
            for field, value in terms.values.items()
        ]
        whole = 1 + math.fsum(terms.weights.values())
        total = " + ".join([f"{terms.score:.6g}{scale[terms.scale]}", *parts])
        return f"({total}) / {whole:g} = {self.final_score:.6g}"

    def _blended(self, blend: BlendTerms) -> str:
        if blend.original is None:
            return f"{blend.rerank:.6g} by {blend.normalize}: the method alone, no retrieval score"
        by_rank = ", by rank" if self.retrieval_score is None else ""
        retrieval = f"{blend.original_weight:.4g} * {blend.original:.6g}"
        method = f"{1 - blend.original_weight:.4g} * {blend.rerank:.6g}"
        return (
            f"{retrieval} (retrieval{by_rank}) + {method} (method) = {self._before_terms:.6g}, "
            f"by {blend.normalize}"
        )


_REASONS = {
    "duplicate": "another candidate with this id has a retrieval score that is not lower",
    "floor": "its score is below the threshold",
    "tail": "it is beyond the depth, and the tail is dropped",
}


def explain(
    items: Sequence[Ranked],
    report: Report,
    trace: Trace | None,
    identifier: object,
    position: int | None,
) -> Explanation:
    """Explain the place of a candidate in the ranking of these items.

    Of several candidates with the id, that with the best rank is explained, else the first one.

    Raises:
        InputError: there is no such candidate, or the ranking has no trace.
    """
    if trace is None:
        raise InputError("ranking: has no trace to explain; rank again, with Reranker.rerank")
    if not trace.ids:
        raise InputError("ranking: has no candidates to explain")
    same = []
    identifier, position = plain_id(identifier), plain_id(position)
    if position is None:
        same = _positions_of(identifier, trace, items)
        position = same[0]
    elif identifier is not None:
        raise InputError("id, position: give one of them")
    elif type(position) is not int or not 0 <= position < len(trace.ids):
        raise InputError(f"position: must be 0 to {len(trace.ids) - 1}, not {describe(position)}")
    rank = next((item.rank for item in items if item.position == position), None)
    left_out = (reason for reason, positions in report.left_out.items() if position in positions)
    before = _rank_in(trace.before, position)
    status = trace.status[position]
    floor = trace.floor if status == "scored" else None
    return Explanation(
        id=trace.ids[position],
        position=position,
        count=len(trace.ids),
        rank=rank,
        left_out=next(left_out, None),
        rank_without_top_k=_rank_in(trace.order, position),
        retrieval_rank=position + 1,
        retrieval_score=trace.original(position),
        status=status,
        within_depth=position in trace.head,
        method=report.method,
        score_kind=report.score_kind,
        rerank_score=trace.rerank_score[position],
        order_score=None if trace.order_scores is None else trace.order_scores[position],
        stage_scores=trace.stage_scores.get(position, ()),
        blend=_blend_terms(trace, position),
        terms=_added_terms(trace, position),
        final_score=trace.final_score[position],
        floor=floor.at if floor else None,
        floor_on=floor.on if floor else None,
        rank_before_order=before,
        order=trace.ordering if before is not None else None,
        span=trace.spans.get(position),
        report_status=report.status,
        degraded_by=report.degraded_by,
        skipped=None if report.skipped is None else report.skipped.reason,
        issues=tuple(
            issue for issue in report.issues if position in issue.positions or not issue.positions
        ),
        same_id=tuple(sorted(other for other in same if other != position)),
    )


def _rank_in(order: Sequence[int] | None, position: int) -> int | None:
    return order.index(position) + 1 if order is not None and position in order else None


def _positions_of(identifier: object, trace: Trace, items: Sequence[Ranked]) -> list[int]:
    """The positions of an id, the best rank first."""
    if identifier is None:
        raise InputError("id: give the id of a candidate, or its position")
    text = str(record_id(identifier))
    known = [None if known_id is None else str(record_id(known_id)) for known_id in trace.ids]
    positions = [position for position, known_id in enumerate(known) if known_id == text]
    if not positions:
        names = sorted({known_id for known_id in known if known_id is not None})
        hint = _hint(text, names) if names else "; they have no ids: use explain(position=…)"
        if isinstance(identifier, int):
            hint = hint.replace("=…", f"={identifier}")
        if isinstance(identifier, Ranked):
            hint = "; give its id, or explain(position=item.position)"
        raise InputError(f"id: no candidate has the id {describe(identifier)}{hint}")
    ranks = {item.position: item.rank for item in items}
    return sorted(positions, key=lambda position: ranks.get(position, len(known) + 1))


def _hint(text: str, names: Sequence[str]) -> str:
    """A similar id, or all ids if they are few. Quoted, as they may be any text."""
    similar = [name for name in names if len(name) <= _LONGEST_SUGGESTED]
    hint = suggestion(text, similar)
    if "did you mean" in hint:
        return hint
    few = len(names) <= _MOST_SUGGESTED
    return f"; known are: {', '.join(map(describe, names))}" if few else ""


def _added_terms(trace: Trace, position: int) -> AddedTerms | None:
    if trace.terms is None or position not in trace.scored:
        return None
    total, index = trace.terms, trace.scored.index(position)
    return AddedTerms(
        total.before[index],
        total.scale,
        total.scores[index],
        total.by_field()[index],
        dict(zip(total.fields, total.weights, strict=True)),
    )


def _blend_terms(trace: Trace, position: int) -> BlendTerms | None:
    if trace.blend is None or position not in trace.scored:
        return None
    index = trace.scored.index(position)
    ordering = trace.order_scores or trace.rerank_score
    reranked: list[float] = [ordering[item] for item in trace.scored]  # type: ignore[misc]
    retrieved, rerank, _ = trace.blend.comparable(trace.originals, reranked, trace.scale)
    return BlendTerms(trace.blend.normalize, trace.blend.original, retrieved[index], rerank[index])
