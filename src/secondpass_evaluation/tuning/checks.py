"""Checks the arguments of tuning, and applies its limits."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from secondpass.errors import InputError
from secondpass.formats.errors import check_numbers
from secondpass.settings import describe
from secondpass_evaluation.distinct import distinct_count
from secondpass_evaluation.measures import relevance_of
from secondpass_evaluation.observations import Observations
from secondpass_evaluation.suites import Suite
from secondpass_evaluation.tuning.result import Variant
from secondpass_evaluation.tuning.selection import MOST_METHODS
from secondpass_evaluation.tuning.trials import Attempt

LOWEST_CONFIDENCE, HIGHEST_CONFIDENCE = 0.5, 0.999
"""With a higher confidence, nothing could be adopted on the fewest queries or with the number of
random signs, whatever the gains."""

FEWEST_QUERIES = 30
"""With fewer, a loss on one query in ten would often not show."""


def keep_within(
    attempt: Attempt, latency: float | None, latency_of: str, cost: float | None
) -> None:
    """Remove the variants beyond the limits; sets the attempt's reason if none is left.

    Args:
        attempt: with its variants.
        latency: maximum seconds of a query; None: no limit.
        latency_of: ``p95`` or ``mean`` of the seconds.
        cost: maximum cost of a query; None: no limit.
    """

    def seconds(variant: Variant) -> float:
        if latency_of == "p95":
            return variant.p95
        return math.fsum(variant.seconds) / max(1, len(variant.seconds))

    def price(variant: Variant) -> float:
        return math.inf if variant.cost is None else variant.cost

    variants = attempt.variants
    if latency is not None and variants:
        attempt.variants = [item for item in variants if seconds(item) <= latency]
        if not attempt.variants:
            fastest = min(map(seconds, variants))
            attempt.reason = f"takes {fastest:.3g} s a query ({latency_of}), more than {latency:g}"
    if cost is not None and attempt.variants:
        variants = attempt.variants
        attempt.variants = [item for item in variants if price(item) <= cost]
        if not attempt.variants:
            cheapest = min(map(price, variants))
            known = (
                f"costs {cheapest:.4g} a query" if cheapest < math.inf else "its cost is unknown"
            )
            attempt.reason = f"{known}, and the limit is {cost:g}"


def check_arguments(
    suite: Suite,
    *,
    depths: Sequence[int] | None,
    latency: float | None,
    latency_of: str,
    cost: float | None,
    smallest_gain: float,
    confidence: float,
    seed: int,
) -> None:
    """Check the arguments of ``tune``.

    Raises:
        InputError: one is wrong, or there are too few queries.
    """
    if not isinstance(suite, Suite):
        raise InputError(f"suite: give one of load_suite or make_suite, not {describe(suite)}")
    if depths is not None and (isinstance(depths, str) or not isinstance(depths, Sequence)):
        raise InputError(f"depths: must be a sequence of whole numbers, not {describe(depths)}")
    check_numbers(seed=(seed, 0), **{f"depths[{i}]": (d, 1) for i, d in enumerate(depths or ())})
    if depths is not None and not depths:
        raise InputError("depths: give at least one")
    limits = {"latency": latency, "cost": cost, "smallest_gain": smallest_gain}
    for name, value in limits.items():
        if value is None:
            continue
        if not _is_number(value) or value < 0:
            raise InputError(f"{name}: must be a number of 0 or more, not {describe(value)}")
    if latency_of not in {"p95", "mean"}:
        raise InputError(f"latency_of: must be p95 or mean, not {describe(latency_of)}")
    if not _is_number(confidence) or not LOWEST_CONFIDENCE <= confidence <= HIGHEST_CONFIDENCE:
        raise InputError(
            f"confidence: must be a number from {LOWEST_CONFIDENCE} to {HIGHEST_CONFIDENCE}, "
            f"not {describe(confidence)}"
        )
    count = distinct_count(suite.queries)
    if count < FEWEST_QUERIES:
        what = "judged queries" if count == len(suite.queries) else "different judged queries"
        raise InputError(
            f"suite: has {count} {what}; tuning needs {FEWEST_QUERIES} or more, as a rare loss "
            "would not show in fewer"
        )


def check_candidates(observed: Observations) -> None:
    """Check that a reranker can gain anything.

    Raises:
        InputError: no candidate is relevant.
    """
    qrels = observed.suite.qrels
    if not any(
        relevance_of(item, qrels[query]) > 0
        for query, items in observed.candidates.items()
        for item in items
    ):
        raise InputError(
            f"suite: no relevant document is among the candidates of {observed.stage}, so no "
            "reranker can gain anything; improve the first stage"
        )


def check_rerankers(created: Collection[str], missing: Collection[str]) -> None:
    """Check the names of the rerankers, and of those that cannot run, before any of them runs.

    Raises:
        InputError: there are none, or too many to test together; or a name is in both.
    """
    if not created and not missing:
        raise InputError("rerankers: give at least one")
    if len(created) > MOST_METHODS:
        raise InputError(f"rerankers: at most {MOST_METHODS} can be compared, not {len(created)}")
    if both := next((name for name in created if name in missing), None):
        raise InputError(f"not_run: has {both}, which is among the rerankers; leave one out")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
