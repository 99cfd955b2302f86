"""Mixing what the retriever said with what the method said.

``final = w * original + (1 - w) * rerank``, after both are brought to a common scale. Ways to do so
and how they compare: Lee, "Analyses of multiple evidence combination", SIGIR 1997 (min-max);
Cormack, Clarke and Büttcher, "Reciprocal rank fusion", SIGIR 2009 (ranks).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import configurable
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Le

Normalize: TypeAlias = Literal["none", "sigmoid", "minmax", "zscore", "rrf"]

_ALLOWED: dict[ScoreKind, tuple[Normalize, ...]] = {
    "probability": ("none", "minmax", "zscore", "rrf"),
    "grade": ("none", "minmax", "zscore", "rrf"),
    "logit": ("sigmoid", "minmax", "zscore", "rrf"),
    "similarity": ("minmax", "zscore", "rrf"),
    "unbounded": ("minmax", "zscore", "rrf"),
    "rank": ("minmax", "zscore", "rrf"),
}


@dataclass(frozen=True, slots=True)
class Blended:
    """Final scores, and the indices whose originals could not take part as they should.

    Attributes:
        final: one score per item.
        absent: items without an original score; their final score is the rerank part alone.
        outside: items whose original lies outside 0 to 1 where that range was needed.
    """

    final: list[float]
    absent: list[int]
    outside: list[int]


@configurable
@dataclass(frozen=True)
class Blend:
    """How the retriever's score goes into the final score.

    Attributes:
        original: the weight of the retriever, 0 to 1; the method has the rest.
        normalize: how the two are made comparable.

            ``none`` takes both as they are (probabilities and grades only; originals should lie in
            0 to 1, and those that do not are reported). ``sigmoid`` maps logits to 0 to 1 and takes
            originals as they are. ``minmax`` maps each list to 0 to 1, a constant one to 0.5.
            ``zscore`` gives each list mean 0 and deviation 1, a constant one 0. ``rrf`` uses the
            two orders only: ``1 / (rrf_k + rank)``.
        rrf_k: the constant of ``rrf``, in ranks.
        optional: whether lists in which no candidate has a retrieval score are expected, as by the
            presets. They are not reported then; the final score is the method's alone either way.

    Grades are mapped from their scale to 0 to 1 before anything else. Statistics are those of the
    scored items of one ranking.
    """

    original: Annotated[float, Ge(0), Le(1)]
    normalize: Normalize = "none"
    rrf_k: Annotated[float, Ge(0)] = 60
    optional: bool = False

    def check(self, kind: ScoreKind) -> None:
        """Refuse what cannot be mixed.

        Raises:
            ConfigurationError: the scores of ``kind`` are not made comparable this way.
        """
        allowed = _ALLOWED[kind]
        if self.normalize not in allowed:
            raise ConfigurationError(
                [
                    Problem(
                        ("normalize",),
                        f"{self.normalize!r} cannot make scores of kind {kind!r} comparable; "
                        f"choose one of: {', '.join(allowed)}",
                    )
                ]
            )

    def mix(
        self,
        originals: Sequence[float | None],
        reranked: Sequence[float],
        scale: tuple[float, float] | None = None,
    ) -> Blended:
        """Blend two aligned lists.

        Args:
            originals: the retriever's scores, in the order that came in; finite or None.
            reranked: the method's scores; finite.
            scale: lowest and highest grade, where the scores are grades.
        """
        rerank = list(reranked)
        if scale is not None:
            low, high = scale
            rerank = [(score - low) / (high - low) for score in rerank]
        if self.normalize == "rrf":
            by_score = sorted(range(len(rerank)), key=rerank.__getitem__, reverse=True)
            ranked = [0.0] * len(rerank)
            for rank, index in enumerate(by_score, start=1):
                ranked[index] = 1 / (self.rrf_k + rank)
            came_in: list[float | None] = [
                1 / (self.rrf_k + rank) for rank in range(1, len(rerank) + 1)
            ]
            return self._sum(came_in, ranked, [], [])
        absent = [index for index, score in enumerate(originals) if score is None]
        if self.normalize in {"none", "sigmoid"}:
            outside = [
                index
                for index, score in enumerate(originals)
                if score is not None and not 0 <= score <= 1
            ]
            if self.normalize == "sigmoid":
                rerank = [sigmoid(score) for score in rerank]
            return self._sum(originals, rerank, absent, outside)
        rescale = minmax if self.normalize == "minmax" else zscore
        present = iter(rescale([score for score in originals if score is not None]))
        scaled = [None if score is None else next(present) for score in originals]
        return self._sum(scaled, rescale(rerank), absent, [])

    def _sum(
        self,
        originals: Sequence[float | None],
        reranked: Sequence[float],
        absent: list[int],
        outside: list[int],
    ) -> Blended:
        weight, rest = self.original, 1 - self.original
        final = [
            score if original is None else original * weight + score * rest
            for original, score in zip(originals, reranked, strict=True)
        ]
        return Blended(final, absent, outside)


def sigmoid(logit: float) -> float:
    """``1 / (1 + exp(-logit))`` without overflow."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    odds = math.exp(logit)
    return odds / (1 + odds)


def minmax(scores: Sequence[float]) -> list[float]:
    """Scores mapped to 0 to 1, lowest to highest; all 0.5 where they are equal."""
    if not scores:
        return []
    low, high = min(scores), max(scores)
    # Halves, because the span of two huge floats can overflow.
    span = high / 2 - low / 2
    if span == 0:
        return [0.5] * len(scores)
    return [(score / 2 - low / 2) / span for score in scores]


def zscore(scores: Sequence[float]) -> list[float]:
    """Scores with mean 0 and (population) standard deviation 1; all 0 where they are equal."""
    # On the 0-1 scale first: it changes nothing but keeps the squares of huge floats finite.
    unit = minmax(scores)
    if not unit:
        return []
    mean = math.fsum(unit) / len(unit)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in unit) / len(unit))
    if deviation == 0:
        return [0.0] * len(unit)
    return [(score - mean) / deviation for score in unit]
