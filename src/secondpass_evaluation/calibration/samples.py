"""The scores of judged queries that calibration learns from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from secondpass import InputError, Ranked, Ranking, Report
from secondpass.ranking.floors import FloorOn, Per
from secondpass.settings import counted
from secondpass_evaluation.calibration.conformal import fewest, tolerance_rank
from secondpass_evaluation.distinct import grouped, merged_qrels
from secondpass_evaluation.measures import relevance_of
from secondpass_evaluation.reading import Qrels, judged_id

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float64]

FEWEST_QUERIES = 20
"""Queries with relevant candidates that are needed to tell whether lists without any are found."""
FEWEST_RIGHT = 0.9
"""Lowest share of lists with a relevant candidate that are not reported to have none."""
CONFIDENCE = 0.9
"""That they are not."""
FOUND = 0.4
"""Lowest share of lists without a relevant candidate that have to be found."""


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
    """
    import numpy as np

    scored_of: dict[str, list[Ranked]] = {}
    skipped = 0
    left_out: dict[str, list[Report]] = {"without scores": [], "with degraded rankings": []}
    for query, ranking in rankings.items():
        scored = _once([item for item in ranking if item.status == "scored"], qrels.get(query, {}))
        if ranking.report.status == "degraded":
            left_out["with degraded rankings"].append(ranking.report)
        elif scored:
            scored_of[query] = scored
        elif ranking.report.skipped is not None:
            skipped += 1
        else:
            left_out["without scores"].append(ranking.report)
    relevance = merged_qrels({query: qrels[query] for query in scored_of}, queries)
    by_query: dict[str, Sample] = {}
    for query, lists in grouped(scored_of, queries).items():
        items: dict[str, Ranked] = {}
        for item in chain.from_iterable(lists):
            items.setdefault(str(item.id), item)
        relevant = [relevance_of(item, relevance[query]) >= lowest for item in items.values()]
        by_query[query] = Sample(
            np.array([item.rerank_score for item in items.values()], np.float64),
            np.array([item.final_score for item in items.values()], np.float64),
            np.array(relevant, np.bool_),
        )
    notes = []
    if skipped:
        notes.append(
            f"skipped by `when`, left out: {skipped} of "
            f"{counted(len(rankings), 'query', 'queries')}; the bound is for the others"
        )
    for what, reports in left_out.items():
        if reports:
            notes.append(
                f"{what}, left out: {len(reports)} of "
                f"{counted(len(rankings), 'query', 'queries')} ({_causes(reports)})"
            )
    return by_query, notes


def _once(items: Sequence[Ranked], judged: Collection[str]) -> list[Ranked]:
    """The items, best first, with each judged file once, at its best passage."""
    seen: set[str] = set()
    kept = []
    for item in items:
        own = str(item.id)
        name = judged_id(own, judged)
        if name == own or name not in seen:
            kept.append(item)
        seen.add(name)
    return kept


def _causes(reports: Sequence[Report]) -> str:
    """The statuses of rankings and the codes of their issues, with numbers of rankings."""
    statuses = Counter(report.status_text for report in reports)
    codes: Counter[str] = Counter()
    for report in reports:
        codes.update({issue.code for issue in report.issues})
    causes = [f"status {name}: {count}" for name, count in sorted(statuses.items())]
    causes += [f"issue {code}: {count}" for code, count in sorted(codes.items())]
    return ", ".join(causes)


def relevant_scores(by_query: Mapping[str, Sample], on: FloorOn) -> list[Scores]:
    """The scores of the relevant candidates of each query that has any."""
    return [item.scores(on)[item.relevant] for item in by_query.values() if item.relevant.any()]


def check_samples(
    by_query: Mapping[str, Sample], keep: float, per: Per, notes: Sequence[str] = ()
) -> None:
    """Check that a threshold can be fitted."""
    left_out = "".join(f"; {note}" for note in notes)
    if not by_query:
        raise InputError(f"calibrate: no query has candidates with scores{left_out}")
    relevant = relevant_scores(by_query, "rerank")
    if not relevant:
        raise InputError(f"calibrate: no query has a relevant candidate with a score{left_out}")
    count = len(relevant) if per == "query" else sum(map(len, relevant))
    if count < fewest(keep):
        noun = "queries with a relevant candidate" if per == "query" else "relevant candidates"
        message = f"keeping {keep} takes at least {fewest(keep)} {noun}; there are {count}"
        raise InputError(f"calibrate: {message}{left_out}")
    if len({float(score) for sample in by_query.values() for score in sample.rerank}) == 1:
        raise InputError("calibrate: all scores are equal, so no threshold separates them")
    if all(sample.relevant.all() for sample in by_query.values()):
        raise InputError("calibrate: all candidates are relevant, so there is nothing to leave out")


@dataclass(frozen=True)
class NothingRelevant:
    """A threshold on the best score of a list, below which nothing in it is relevant.

    Attributes:
        threshold: below which a share of at most ``1 - keep`` of the best scores of new lists with
            a relevant candidate are, with a confidence of 0.9.
        flagged: share of the lists with a relevant candidate that are below; each by the threshold
            of the other queries.
        found: share of these lists without their relevant candidates that are below, likewise.
    """

    threshold: float
    flagged: float
    found: float

    @property
    def usable(self) -> bool:
        """Whether it finds enough lists to be used."""
        return self.found >= FOUND


def nothing_relevant(
    by_query: Mapping[str, Sample],
    keep: float,
    without: Mapping[str, Sequence[float]] | None = None,
) -> NothingRelevant | None:
    """Fit a threshold on the best rerank score of each list, and test it on queries left out.

    It is a tolerance limit; see :mod:`~secondpass_evaluation.calibration.conformal`. A threshold
    that keeps the share on average over thresholds is used more often where it is too high, because
    it finds more then.
    """
    import numpy as np

    keep = max(keep, FEWEST_RIGHT)
    pairs = [*_best_scores(by_query, without)]
    emptied = sum(other is not None for _, other in pairs)
    last = tolerance_rank(keep, len(pairs) - 1, CONFIDENCE)
    if emptied < FEWEST_QUERIES or not last:
        return None
    best = np.array([score for score, _ in pairs])
    removed = np.array([np.nan if other is None else other for _, other in pairs])
    ordered = np.sort(best)
    fitted = float(ordered[tolerance_rank(keep, len(pairs), CONFIDENCE) - 1])
    # The score of the same rank among all others.
    others = np.where(best <= ordered[last - 1], ordered[last], ordered[last - 1])
    flagged, found = float((best < others).mean()), float((removed < others).sum() / emptied)
    return NothingRelevant(fitted, flagged, found)


def _best_scores(
    by_query: Mapping[str, Sample], without: Mapping[str, Sequence[float]] | None
) -> Iterator[tuple[float, float | None]]:
    """The best score of each list, with and without its relevant candidates."""
    for query, sample in by_query.items():
        if sample.relevant.any():
            rest = sample.rerank[~sample.relevant] if without is None else without.get(query, ())
            yield float(sample.rerank.max()), float(max(rest)) if len(rest) else None
