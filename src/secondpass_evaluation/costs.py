"""The time and usage of a system that was measured."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cost:
    """The time and usage of a system, over all queries.

    Attributes:
        seconds: query id -> seconds, for each query that was run. For a reranker, the reranking
            alone; for a first stage, the search.
        calls: number of calls to methods.
        pairs: number of query-candidate pairs that methods judged.
        input_tokens: None where a method does not report them.
        output_tokens: None where a method does not report them.
        cost: in the currency of the configured prices; None without prices.
        cached: answers from a response cache. They took no time, no call and no tokens here.
        skipped: number of queries for which the setting ``when`` left the pass out or made it
            shorter.
        saved_pairs: number of query-candidate pairs that were not judged for these.
        saved_seconds: sum over these queries of the mean seconds of the others, less their own;
            None if all or no queries were skipped.
        units: billed units other than tokens, such as the search units of rerank APIs; None where
            a method does not report them.
    """

    seconds: Mapping[str, float] = field(default_factory=dict, repr=False)
    calls: int = 0
    pairs: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    cached: int = 0
    skipped: int = 0
    saved_pairs: int = 0
    saved_seconds: float | None = None
    units: float | None = None

    @property
    def units_per_query(self) -> float | None:
        """Mean billed units of the queries that were run; None if they are not known."""
        if self.units is None or not self.seconds:
            return None
        return self.units / len(self.seconds)

    def percentile(self, share: float) -> float | None:
        """Seconds within which this share (0 to 1) of the queries finished, by nearest rank.

        Always one of the measured times; None if no query was run.
        """
        return percentile(self.seconds.values(), share)


def percentile(values: Iterable[float], share: float) -> float | None:
    """The value that this share (0 to 1) of the values does not exceed, by nearest rank.

    Always one of the values; None if there is none.
    """
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[min(len(ordered), max(1, math.ceil(share * len(ordered)))) - 1]


def percentiles(values: Collection[float]) -> dict[str, float | None]:
    """The percentiles that are reported: ``p50``, ``p95``, ``p99`` and ``max``."""
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: percentile(values, share) for name, share in shares.items()}
