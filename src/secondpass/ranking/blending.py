"""Blends of retrieval scores and rerank scores.

``final = w * original + (1 - w) * rerank``, after both are normalised to a common scale. For a
comparison of normalisations see Lee, "Analyses of multiple evidence combination", SIGIR 1997
(min-max); Cormack, Clarke and Büttcher, "Reciprocal rank fusion", SIGIR 2009 (ranks).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from secondpass.attributes import unchangeable
from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import configurable, nested
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


@unchangeable
@dataclass(frozen=True, slots=True)
class Blended:
    """The result of a blend.

    Attributes:
        final: one score per item.
        order: indices of the items, best first.
        absent: indices of items without an original score; their final score is the rerank score.
        outside: indices of items whose original score should lie within 0 to 1 and does not.
    """

    final: list[float]
    order: list[int]
    absent: list[int]
    outside: list[int]


@configurable
@dataclass(frozen=True)
class Blend:
    """How retrieval score and rerank score are mixed into the final score.

    Attributes:
        original: the weight of the retrieval score, 0 to 1. The rerank score has the rest.
        normalize: how the two are made comparable.

            ``none`` uses both as they are, for probabilities and grades; retrieval scores outside 0
            to 1 are reported. ``sigmoid`` maps logits to 0 to 1 and uses retrieval scores as they
            are. ``minmax`` maps each list to 0 to 1, a constant list to 0.5. ``zscore`` gives each
            list mean 0 and standard deviation 1, a constant list 0. ``rrf`` uses only the ranks in
            both lists: ``1 / (rrf_k + rank)``.
        rrf_k: the constant of ``rrf``, in ranks.
        optional: with ``none`` or ``sigmoid``, do not report lists in which no candidate has a
            retrieval score. Their final score is the rerank score in either case.

    Grades are first mapped from their scale to 0 to 1. Statistics and ranks are those of the scored
    items of one ranking. If none of these has a retrieval score, ``minmax`` and ``zscore`` use
    ``1 / rank`` of the input order in its place.
    """

    original: Annotated[float, Ge(0), Le(1)]
    normalize: Normalize = "none"
    rrf_k: Annotated[float, Ge(0)] = 60
    optional: bool = False

    _EXAMPLES = MappingProxyType({"original": 0.3, "normalize": "minmax"})

    @property
    def by_value(self) -> bool:
        """Whether the scores themselves are blended, not ranks or positions within the list."""
        return self.normalize in {"none", "sigmoid"}

    @property
    def by_scale(self) -> bool:
        """Whether the scores of each list are scaled by their own values."""
        return self.normalize in {"minmax", "zscore"}

    def check(self, kind: ScoreKind) -> None:
        """Raise a ConfigurationError unless ``normalize`` suits a score kind."""
        allowed = _ALLOWED[kind]
        if self.normalize not in allowed:
            message = f"{self.normalize!r} cannot make scores of kind {kind!r} comparable"
            message += f"; choose one of: {', '.join(allowed)}"
            raise ConfigurationError([Problem(("normalize",), message)])

    def mix(
        self,
        originals: Sequence[float | None],
        reranked: Sequence[float],
        scale: tuple[float, float] | None = None,
    ) -> Blended:
        """Blend two aligned lists.

        Args:
            originals: retrieval scores in input order, finite or None.
            reranked: rerank scores, finite.
            scale: lowest and highest grade, if the scores are grades.
        """
        retrieved, rerank, absent = self.comparable(originals, reranked, scale)
        outside: list[int] = []
        if self.by_value:
            for index, score in enumerate(originals):
                if score is not None and not 0 <= score <= 1:
                    outside.append(index)
        weight, rest = self.original, 1 - self.original
        weighted = [None if original is None else original * weight for original in retrieved]
        final = [
            score if original is None else original + score * rest
            for original, score in zip(weighted, rerank, strict=True)
        ]
        return Blended(final, _best_first(final, weighted, reranked), absent, outside)

    def comparable(
        self,
        originals: Sequence[float | None],
        reranked: Sequence[float],
        scale: tuple[float, float] | None = None,
    ) -> tuple[Sequence[float | None], list[float], list[int]]:
        """Normalise two aligned lists, with the arguments of :meth:`mix`.

        Returns:
            The terms that the weights are applied to: of the retrieval scores, None where there is
            none, and of the rerank scores; and the indices of items without a retrieval score.
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
            retrieved: list[float | None] = [
                1 / (self.rrf_k + rank) for rank in range(1, len(rerank) + 1)
            ]
            return retrieved, ranked, []
        absent = [index for index, score in enumerate(originals) if score is None]
        if self.by_value:
            if self.normalize == "sigmoid":
                rerank = [sigmoid(score) for score in rerank]
            return originals, rerank, absent
        if len(absent) == len(rerank):
            originals, absent = [1 / rank for rank in range(1, len(rerank) + 1)], []
        rescale = minmax if self.normalize == "minmax" else zscore
        present = iter(rescale([score for score in originals if score is not None]))
        scaled = [None if score is None else next(present) for score in originals]
        return scaled, rescale(rerank), absent


BLEND = nested(Blend, optional=True)
"""A parameter whose value is a blend."""


def _best_first(
    final: Sequence[float], weighted: Sequence[float | None], reranked: Sequence[float]
) -> list[int]:
    """The indices of items, best first. ``weighted`` are the parts of the retrieval scores.

    Items with equal final scores keep their order, unless the retriever's part of these is equal,
    too. Then their rerank scores decide: normalization and rounding may have made different ones
    equal, as ``sigmoid`` does with logits above 37.
    """
    tied: dict[tuple[float, float | None], list[int]] = {}
    for index, key in enumerate(zip(final, weighted, strict=True)):
        tied.setdefault(key, []).append(index)
    order = list(range(len(final)))
    for indices in tied.values():
        if len(indices) > 1:
            by_score = sorted(indices, key=reranked.__getitem__, reverse=True)
            for place, index in zip(indices, by_score, strict=True):
                order[place] = index
    return sorted(order, key=final.__getitem__, reverse=True)


def with_weight(
    blend: Blend | None, original: float | None, originals: Sequence[float | None]
) -> Blend | None:
    """Return a blend in which the original has at least this weight; by ``minmax`` without a blend.

    No weight changes nothing. Without any retrieval score in ``originals``, ``none`` and
    ``sigmoid`` blend nothing, so they are like no blend.
    """
    if not original:
        return blend
    if blend is None or (blend.by_value and all(score is None for score in originals)):
        return Blend(original, "minmax")
    return replace(blend, original=max(blend.original, original))


def sigmoid(logit: float) -> float:
    """``1 / (1 + exp(-logit))`` without overflow."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    odds = math.exp(logit)
    return odds / (1 + odds)


def minmax(scores: Sequence[float]) -> list[float]:
    """Map scores linearly to 0 to 1; to 0.5 if all are equal."""
    if not scores:
        return []
    low, high = min(scores), max(scores)
    # Halved first: the difference of two large floats may overflow.
    span = high / 2 - low / 2
    if span == 0:
        return [0.5] * len(scores)
    return [(score / 2 - low / 2) / span for score in scores]


def zscore(scores: Sequence[float]) -> list[float]:
    """Shift and scale scores to mean 0 and population standard deviation 1; 0 if all are equal."""
    # minmax first: the result is the same, and squares of huge floats stay finite.
    unit = minmax(scores)
    if not unit:
        return []
    mean = math.fsum(unit) / len(unit)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in unit) / len(unit))
    if deviation == 0:
        return [0.0] * len(unit)
    return [(score - mean) / deviation for score in unit]
