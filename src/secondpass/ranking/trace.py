"""The record of what a pass did with each candidate, by which a ranking can explain its order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from secondpass.errors import reraise_exit
from secondpass.questions import Span
from secondpass.ranking.blending import Blend
from secondpass.ranking.candidates import retrieval_score
from secondpass.ranking.floors import Floor
from secondpass.ranking.ordering import arranges
from secondpass.ranking.terms import Sum
from secondpass.settings import registry
from secondpass.types import Candidate, ItemStatus, Piece


@dataclass(slots=True)
class Trace:
    """What a pass did with each candidate, including those that it left out. Holds no text.

    Attributes:
        ids, scores: ids and retrieval scores as they were passed, aligned with the input.
        status, rerank_score, final_score: aligned with the input.
        stage_scores, spans, probabilities, pieces: by input position, where there are any.
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
            name = registry.name_of("orderings", type(ordering)) or getattr(
                ordering, "__name__", None
            )
        except BaseException as error:  # a foreign object may raise anything
            reraise_exit(error)
            name = None
        self.ordering = str(name or type(ordering).__name__)

    def terms_by_position(self) -> Mapping[int, Mapping[str, float]]:
        """The terms of each candidate by field."""
        if self.terms is None:
            return {}
        return dict(zip(self.scored, self.terms.by_field(), strict=True))
