"""Compares scores with those of float32 torch: differences, rank correlation, top-10 overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

TOP = 10


def logits(scores: Sequence[float]) -> list[float]:
    """Inverse of the sigmoid, for engines that return probabilities."""
    return [math.log(score / (1 - score)) if 0 < score < 1 else math.nan for score in scores]


def kendall_tau(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau-b."""
    import numpy as np

    a, b = np.asarray(first), np.asarray(second)
    upper = np.triu_indices(len(a), 1)
    signs = [np.sign(x[:, None] - x[None, :])[upper] for x in (a, b)]
    denominator = math.sqrt(float(np.count_nonzero(signs[0])) * np.count_nonzero(signs[1]))
    return float(signs[0] @ signs[1]) / denominator if denominator else math.nan


def overlap(first: Sequence[float], second: Sequence[float], top: int = TOP) -> float:
    """Share of the first list's top that is also in the second's; ties by position."""
    tops = [
        set(sorted(range(len(scores)), key=lambda index: -scores[index])[:top])
        for scores in (first, second)
    ]
    return len(tops[0] & tops[1]) / min(top, len(first))


def compare(
    reference: Sequence[Sequence[float]], other: Sequence[Sequence[float]], *, probability: bool
) -> dict[str, Any]:
    """Compares the scores of the same requests.

    Returns:
        ``pairs``, ``max`` and ``mean`` (absolute differences of logits), ``deviation`` (standard
        deviation of the reference), ``tau`` and ``overlap`` (means over the requests).
    """
    import numpy as np

    found = [logits(scores) if probability else list(scores) for scores in other]
    expected = np.concatenate([np.asarray(scores) for scores in reference])
    differences = np.abs(expected - np.concatenate([np.asarray(scores) for scores in found]))
    couples = list(zip(reference, found, strict=True))
    return {
        "pairs": len(expected),
        "max": float(differences.max()),
        "mean": float(differences.mean()),
        "deviation": float(expected.std()),
        "tau": float(np.mean([kendall_tau(a, b) for a, b in couples])),
        "overlap": float(np.mean([overlap(a, b) for a, b in couples])),
    }
