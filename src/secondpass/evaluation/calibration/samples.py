"""The scores of judged queries that calibration learns from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from secondpass.errors import InputError
from secondpass.evaluation.calibration.conformal import fewest, threshold
from secondpass.evaluation.distinct import grouped, merged_qrels
from secondpass.formats.runs import Qrels
from secondpass.runtime.floors import FloorOn, Per
from secondpass.types import Ranked, Ranking

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float64]

FEWEST_QUERIES = 20
"""Queries with relevant candidates that are needed to separate lists with and without any."""

USABLE = 0.75
"""Lowest AUROC at which a score is used to report that a list has no relevant candidate."""


@dataclass(frozen=True)
class Sample:
    """The scored candidates of one query.

    Attributes:
        rerank: their rerank scores.
        final: their final scores.
        relevant: whether each is judged relevant; aligned with both.
    """

    rerank: Scores
    final: Scores
    relevant: NDArray[np.bool_]

    def scores(self, on: FloorOn) -> Scores:
        """The rerank scores or the final scores."""
        return self.final if on == "final" else self.rerank


def samples(
    rankings: Mapping[str, Ranking], qrels: Qrels, queries: Mapping[str, str], lowest: int = 1
) -> tuple[dict[str, Sample], list[str]]:
    """The scores by query, and notes on queries that are left out.

    Queries with the same text are one, under the id of the first, with each candidate once.

    Args:
        rankings: without a floor and ``top_k``.
        qrels: documents without a judgement count as not relevant.
        queries: query id -> text.
        lowest: the lowest relevance that counts as relevant.
    """
    import numpy as np

    scored_of: dict[str, list[Ranked]] = {}
    skipped = failed = degraded = 0
    for query, ranking in rankings.items():
        scored = [item for item in ranking if item.status == "scored"]
        if ranking.report.status == "degraded":
            degraded += 1
        elif not scored and ranking.report.skipped is not None:
            skipped += 1
        elif not scored:
            failed += 1
        else:
            scored_of[query] = scored
    relevance = merged_qrels({query: qrels[query] for query in scored_of}, queries)
    by_query: dict[str, Sample] = {}
    for query, lists in grouped(scored_of, queries).items():
        items: dict[str, Ranked] = {}
        for item in chain.from_iterable(lists):
            items.setdefault(str(item.id), item)
        by_query[query] = Sample(
            np.array([item.rerank_score for item in items.values()], np.float64),
            np.array([item.final_score for item in items.values()], np.float64),
            np.array([relevance[query].get(name, 0) >= lowest for name in items], np.bool_),
        )
    notes = []
    if skipped:
        notes.append(
            f"skipped by `when`, left out: {skipped} of {len(rankings)} queries; the bound is for "
            "the others"
        )
    if failed:
        notes.append(f"without scores, left out: {failed} of {len(rankings)} queries")
    if degraded:
        notes.append(f"with degraded rankings, left out: {degraded} of {len(rankings)} queries")
    return by_query, notes


def relevant_scores(by_query: Mapping[str, Sample], on: FloorOn) -> list[Scores]:
    """The scores of the relevant candidates of each query that has any."""
    return [item.scores(on)[item.relevant] for item in by_query.values() if item.relevant.any()]


def check_samples(by_query: Mapping[str, Sample], keep: float, per: Per) -> None:
    """Check that a threshold can be fitted.

    Raises:
        InputError: there are too few queries or relevant candidates, or all scores are equal.
    """
    if not by_query:
        raise InputError("calibrate: no query has candidates with scores")
    relevant = relevant_scores(by_query, "rerank")
    if not relevant:
        raise InputError("calibrate: no query has a relevant candidate with a score")
    count = len(relevant) if per == "query" else sum(map(len, relevant))
    if count < fewest(keep):
        noun = "queries with a relevant candidate" if per == "query" else "relevant candidates"
        message = f"keeping {keep} takes at least {fewest(keep)} {noun}; there are {count}"
        raise InputError(f"calibrate: {message}")
    if len({float(score) for sample in by_query.values() for score in sample.rerank}) == 1:
        raise InputError("calibrate: all scores are equal, so no threshold separates them")
    if all(sample.relevant.all() for sample in by_query.values()):
        raise InputError("calibrate: all candidates are relevant, so there is nothing to leave out")


def fitted_threshold(
    by_query: Mapping[str, Sample], keep: float, per: Per, on: FloorOn
) -> float | None:
    """:func:`~secondpass.evaluation.calibration.conformal.threshold` of these queries."""
    return threshold(relevant_scores(by_query, on), keep, per)


@dataclass(frozen=True)
class Separation:
    """How well the best rerank score separates lists with and without a relevant candidate.

    Attributes:
        auroc: the probability, 0 to 1, that the best score of a query's list is higher than that of
            another query's list without its relevant candidates (a tie counts half): the mean over
            all ways to remove them from half of the queries.
        best: the best score of each list with a relevant candidate.
        best_without: the best scores of these lists without their relevant candidates, if any
            candidate is left.
    """

    auroc: float
    best: Scores
    best_without: Scores

    @property
    def usable(self) -> bool:
        """Whether it is good enough to report that nothing is relevant."""
        return self.auroc >= USABLE


def separation(
    by_query: Mapping[str, Sample], without: Mapping[str, Sequence[float]] | None = None
) -> Separation | None:
    """Measure how well the best rerank score separates lists with and without a relevant candidate.

    Args:
        by_query: the scores; queries without a relevant candidate are ignored.
        without: query id -> scores of its list without the relevant candidates, for scores that
            depend on the list. None: those in ``by_query``.

    Returns:
        None for fewer than :data:`FEWEST_QUERIES` queries.
    """
    import numpy as np

    pairs = [*_best_scores(by_query, without)]
    if sum(other is not None for _, other in pairs) < FEWEST_QUERIES:
        return None
    best = np.array([score for score, _ in pairs])
    removed = np.array([np.nan if other is None else other for _, other in pairs])
    left = ~np.isnan(removed)
    without_any = removed[left]
    # Twice the number of wins plus ties of all pairs, less those of each query with itself.
    ordered = np.sort(without_any)
    lower, not_above = (np.searchsorted(ordered, best, side) for side in ("left", "right"))
    own, other = best[left], without_any
    wins = (lower + not_above).sum() - ((own > other) * 2 + (own == other)).sum()
    auroc = float(wins / 2 / (len(without_any) * (len(best) - 1)))
    return Separation(auroc, best, without_any)


def _best_scores(
    by_query: Mapping[str, Sample], without: Mapping[str, Sequence[float]] | None
) -> Iterator[tuple[float, float | None]]:
    """The best score of each list, with and without its relevant candidates."""
    for query, sample in by_query.items():
        if sample.relevant.any():
            rest = sample.rerank[~sample.relevant] if without is None else without.get(query, ())
            yield float(sample.rerank.max()), float(max(rest)) if len(rest) else None
