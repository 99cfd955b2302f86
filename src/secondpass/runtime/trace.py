"""The record of a pass, by which a ranking can explain the rank of each candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from secondpass.blending import Blend
from secondpass.candidates import retrieval_score
from secondpass.effects import Span
from secondpass.runtime.floors import Floor
from secondpass.settings import registry
from secondpass.types import Candidate, ItemStatus, Ranked


@dataclass(slots=True)
class Trace:
    """What a pass did with each candidate, including those that it left out. Holds no text.

    Attributes:
        ids, scores: ids and retrieval scores as they were passed, aligned with the input.
        status, rerank_score, final_score: aligned with the input.
        stage_scores, spans: by input position, where there are any.
        head: the candidates within the depth, in input order.
        order: the candidates that were ranked, with those that ``top_k`` cuts off.
        order_scores: what was blended and decides the order, aligned with the input; None: the
            rerank scores.
        scored: those with a rerank score, in the order in which they were blended.
        originals: what was blended with them, aligned with ``scored``: their retrieval scores; of
            distances, ranks.
        before: the order of the head before an ordering moved items; None if none did.
        ordering: the name of that ordering.
        blend: the blend that was applied; None if the final scores are the rerank scores.
        scale: lowest and highest grade, if the method's scores are grades.
        floor: the threshold that was applied.
        spreads, probabilities: by input position, where there are any.
        failed: whether nothing was scored because every method failed.
    """

    ids: Sequence[Any]
    scores: Sequence[Any]
    status: Sequence[ItemStatus]
    rerank_score: Sequence[float | None]
    final_score: Sequence[float | None]
    stage_scores: Mapping[int, tuple[float, ...]]
    spans: Mapping[int, Span]
    head: Sequence[int] = ()
    order: Sequence[int] = ()
    order_scores: Sequence[float | None] | None = None
    scored: Sequence[int] = ()
    originals: Sequence[float | None] = ()
    before: Sequence[int] | None = None
    ordering: str | None = None
    blend: Blend | None = None
    scale: tuple[float, float] | None = None
    floor: Floor | None = None
    spreads: Mapping[int, float | None] = field(default_factory=dict)
    probabilities: Mapping[int, float] = field(default_factory=dict)
    failed: bool = False

    def original(self, position: int) -> float | None:
        """The retrieval score as a finite float; None if there is none."""
        return retrieval_score(Candidate("", score=self.scores[position]))

    def reordered(self, before: Sequence[int], ordering: object) -> None:
        """Keep the order before an ordering moved items, and the name of the ordering."""
        self.before = before
        try:
            name = registry.name_of("orderings", ordering) or getattr(ordering, "__name__", None)
        except Exception:  # a foreign object may raise anything
            name = None
        self.ordering = str(name or type(ordering).__name__)

    def items(self, candidates: Sequence[Candidate], order: Sequence[int]) -> tuple[Ranked, ...]:
        """The candidates at these positions as ranked items."""
        status, reranked, final = self.status, self.rerank_score, self.final_score
        items = [
            _ranked(
                rank,
                position,
                candidates[position],
                status[position],
                reranked[position],
                final[position],
                self.stage_scores.get(position, ()),
                {**(candidates[position].metadata or {}), "rerank_score": reranked[position]},
                self.spans.get(position),
                self.spreads.get(position),
                self.probabilities.get(position),
            )
            for rank, position in enumerate(order, start=1)
        ]
        for item in items:
            # A value of an earlier pass must not remain.
            if item.span is not None or "rerank_span" in item.metadata:
                item.metadata["rerank_span"] = item.span and list(item.span)
            if item.spread is not None or "rerank_spread" in item.metadata:
                item.metadata["rerank_spread"] = item.spread
            if item.probability is not None or "rerank_probability" in item.metadata:
                item.metadata["rerank_probability"] = item.probability
        return tuple(items)


_new = object.__new__
(
    _set_rank,
    _set_position,
    _set_candidate,
    _set_status,
    _set_rerank_score,
    _set_final_score,
    _set_stage_scores,
    _set_metadata,
    _set_span,
    _set_spread,
    _set_probability,
) = (vars(Ranked)[part.name].__set__ for part in fields(Ranked))


def _ranked(  # noqa: PLR0917 (called once a candidate, where names cost time)
    rank: int,
    position: int,
    candidate: Candidate,
    status: ItemStatus,
    rerank_score: float | None,
    final_score: float | None,
    stage_scores: tuple[float, ...],
    metadata: dict[str, Any],
    span: Span | None,
    spread: float | None,
    probability: float | None,
) -> Ranked:
    """Create a ranked item in half the time of ``__init__``, which looks up slots by name."""
    item = _new(Ranked)
    _set_rank(item, rank)
    _set_position(item, position)
    _set_candidate(item, candidate)
    _set_status(item, status)
    _set_rerank_score(item, rerank_score)
    _set_final_score(item, final_score)
    _set_stage_scores(item, stage_scores)
    _set_metadata(item, metadata)
    _set_span(item, span)
    _set_spread(item, spread)
    _set_probability(item, probability)
    return item
