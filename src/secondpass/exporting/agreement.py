"""Compares the scores and the rankings of two runs of one model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TOP = 10
"""Ranks whose overlap is measured."""
_ROUNDING = 1e-5


@dataclass(frozen=True, slots=True)
class ScoreAgreement:
    """The scores of a run against those of the original.

    Attributes:
        pairs: number of pairs.
        queries: number of queries.
        largest: largest absolute difference of two scores of a pair.
        mean: mean absolute difference.
        deviation: standard deviation of the original's scores, the unit for differences.
        tau: Kendall's tau-b of the rankings, mean over queries, -1 to 1. Queries with one passage,
            or for which all scores of a run are equal, are left out; None if there are no others.
        overlap: share of the first ten of a query that are also among the original's first ten, or
            tie with its tenth; mean over queries with more than ten passages, 0 to 1. None if there
            is no such query.
    """

    pairs: int
    queries: int
    largest: float
    mean: float
    deviation: float
    tau: float | None
    overlap: float | None

    @property
    def largest_in_deviations(self) -> float | None:
        """The largest difference in standard deviations; None if all scores are equal."""
        return self.largest / self.deviation if self.deviation else None

    @property
    def mean_in_deviations(self) -> float | None:
        """The mean difference in standard deviations; None if all scores are equal."""
        return self.mean / self.deviation if self.deviation else None


def agreement(
    original: Sequence[Sequence[float]], other: Sequence[Sequence[float]]
) -> ScoreAgreement:
    """Compare two runs: the scores of each query's passages in the original, and in the other.

    Raises:
        ValueError: the runs are of different pairs, or a score is not finite.
    """
    import numpy as np

    lists = [
        (np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
        for a, b in zip(original, other, strict=True)
    ]
    before = np.concatenate([a for a, _ in lists])
    after = np.concatenate([b for _, b in lists])
    if before.shape != after.shape or not len(before):
        raise ValueError("two runs of the same pairs, at least one, are needed")
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        raise ValueError("a score is not finite")
    differences = np.abs(after - before)
    return ScoreAgreement(
        len(before),
        len(lists),
        float(differences.max()),
        float(differences.mean()),
        float(before.std()),
        _mean(kendall_tau(a, b) for a, b in lists),
        _mean(top_overlap(a, b) for a, b in lists),
    )


def kendall_tau(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """Kendall's tau-b of two lists of scores; None if all of one list are equal.

    Kendall, "The treatment of ties in ranking problems", Biometrika 1945.
    """
    import numpy as np

    together = first_pairs = second_pairs = 0
    for index in range(len(first) - 1):
        a = np.sign(first[index] - first[index + 1 :])
        b = np.sign(second[index] - second[index + 1 :])
        together += int(a @ b)
        first_pairs += int(np.abs(a).sum())
        second_pairs += int(np.abs(b).sum())
    if not first_pairs or not second_pairs:
        return None
    return float(together / np.sqrt(float(first_pairs) * float(second_pairs)))


def top_overlap(
    original: NDArray[np.float64], other: NDArray[np.float64], top: int = TOP
) -> float | None:
    """The share of one list's first ``top`` that are among the original's.

    A passage that ties with the original's last one of these, up to rounding errors, counts. None
    for lists of ``top`` passages or fewer.
    """
    import numpy as np

    if len(original) <= top:
        return None
    threshold = np.sort(original)[-top]
    threshold -= _ROUNDING * max(1.0, abs(threshold))
    best = np.argsort(-other, kind="stable")[:top]
    return float(np.mean(original[best] >= threshold))


def by_query(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """The passages of each query, in the order in which the queries first appear."""
    lists: dict[str, list[str]] = {}
    for query, passage in pairs:
        lists.setdefault(query, []).append(passage)
    return list(lists.items())


@cache
def sample_pairs() -> tuple[tuple[str, str], ...]:
    """The 200 pairs that are shipped: ten queries with twenty passages each, in English."""
    text = (files("secondpass") / "data" / "sample_pairs.jsonl").read_text(encoding="utf-8")
    records = map(json.loads, text.splitlines())
    return tuple((record["query"], record["text"]) for record in records)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
