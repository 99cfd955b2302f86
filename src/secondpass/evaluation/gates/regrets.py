"""The loss of each query without the pass, and the signals that predict it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from secondpass.errors import InputError
from secondpass.evaluation.measures import evaluate, ranking_to_run
from secondpass.evaluation.suites import Suite
from secondpass.strategies.skipping import Unknown, signal
from secondpass.types import Candidate, Ranked, Ranking

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Regrets:
    """Arrays with a value for each query.

    Attributes:
        measure: name of the measure.
        signals: by name, how certain the first stage is; NaN where that is not known.
        of_skip: depth of a skipped query -> the measure with the pass minus the measure with only
            this depth, -1 to 1.
        pairs: number of candidates that the pass judges.
        relevant: whether any value of the measure is above 0.
        outside: a value of the measure that is not within 0 to 1; None if there is none.
    """

    measure: str
    signals: Mapping[str, np.ndarray[Any, Any]]
    of_skip: Mapping[int, np.ndarray[Any, Any]]
    pairs: np.ndarray[Any, Any]
    relevant: bool
    outside: float | None

    def known(self, name: str) -> int:
        """Number of queries whose signal is known."""
        import numpy as np

        return int(np.count_nonzero(~np.isnan(self.signals[name])))

    def part(self, indices: np.ndarray[Any, Any]) -> Regrets:
        """The queries at these indices, which may repeat."""
        return replace(
            self,
            signals={name: values[indices] for name, values in self.signals.items()},
            of_skip={depth: values[indices] for depth, values in self.of_skip.items()},
            pairs=self.pairs[indices],
        )


def regrets_of(
    suite: Suite,
    candidates: Mapping[str, Sequence[Candidate]],
    rankings: Mapping[str, Ranking],
    *,
    measure: str,
    signals: Sequence[str],
    depths: Sequence[int],
) -> Regrets:
    """Measure what rankings gain over their first stage.

    Raises:
        InputError: a ranking is of an unknown query or of other candidates, or made with a gate.
    """
    import numpy as np

    for query, ranking in rankings.items():
        if query not in suite.qrels or query not in candidates:
            raise InputError(f"rankings: the query {query!r} is not in the suite")
        if ranking.report.skipped is not None:
            message = "was made with a gate (when); rank without one"
            raise InputError(f"rankings[{query!r}]: {message}")
        if sorted(ranking.order) != [*range(len(candidates[query]))]:
            message = "must hold each candidate once; rank without top_k, floor and dedupe"
            raise InputError(f"rankings[{query!r}]: {message}")
    qrels = {query: suite.qrels[query] for query in rankings}

    def values(orders: Mapping[str, Sequence[Ranked]]) -> np.ndarray[Any, Any]:
        per_query = evaluate(ranking_to_run(orders), qrels, [measure]).per_query[measure]
        return np.array([per_query[query] for query in rankings])

    full = values(rankings)
    without = {
        depth: values({query: _with_depth(ranking, depth) for query, ranking in rankings.items()})
        for depth in depths
    }
    every = np.concatenate([full, *without.values()])
    outside = every[~((every >= 0) & (every <= 1))]  # includes NaN
    return Regrets(
        measure,
        {
            name: np.array(
                [_signal(name, suite.queries[query], candidates[query]) for query in rankings]
            )
            for name in signals
        },
        {depth: full - shallow for depth, shallow in without.items()},
        np.array([sum(i.status != "tail" for i in ranking) for ranking in rankings.values()]),
        bool((every > 0).any()),
        float(outside[0]) if len(outside) else None,
    )


def shares_saved(skips: np.ndarray[Any, Any], pairs: np.ndarray[Any, Any], depth: int) -> float:
    """The share of all pairs that are not judged if the skipped queries have only this depth."""
    import numpy as np

    saved = np.where(skips, np.maximum(pairs - depth, 0), 0).sum()
    return float(saved / pairs.sum()) if pairs.sum() else 0.0


def _with_depth(ranking: Ranking, depth: int) -> list[Ranked]:
    """The order if only the first ``depth`` candidates had been judged."""
    head = [item for item in ranking if item.position < depth]
    tail = [item for item in ranking if item.position >= depth]
    return head + sorted(tail, key=lambda item: item.position)


def _signal(name: str, query: str, candidates: Sequence[Candidate]) -> float:
    try:
        return signal(name, query, candidates)
    except Unknown:
        return float("nan")
