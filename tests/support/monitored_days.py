"""Days of a monitor, with rankings of invented scores."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from secondpass.monitoring.ranking_days import DayCounts, DayKey, Days
from secondpass.ranking.observers import query_hash

SAME_KEY = DayKey("2026-11-23", "model", "model", "logit", "1.0", None)


def days_of(
    rankings: int,
    *,
    seed: int = 0,
    change: Callable[[float], float] = lambda score: score,
    statuses: Sequence[str] = ("ok",),
    issues: Sequence[str] = (),
    times: int = 1,
    equal: int | None = None,
    **key: Any,
) -> Days:
    """Rankings of logits, of which the highest is 4 and the median -2, on average.

    `change` is made to each score; `statuses` take turns, and `issues` are those of rankings that
    are not ok. Each is repeated `times`; in the first `equal`, all candidates have the score 0.5.
    `key` is what differs from `SAME_KEY`.
    """
    generator = random.Random(seed)
    counts = DayCounts()
    for number in range(rankings):
        status = statuses[number % len(statuses)]
        statistics = {
            "rerank.highest": change(generator.gauss(4, 2)),
            "rerank.median": change(generator.gauss(-2, 1)),
            "moves.correlation": generator.uniform(0, 1),
            "candidates.highest": generator.gauss(20, 5),
            "candidates.count": 100,
        }
        if equal is not None:
            statistics["rerank.deviation"] = change(generator.gauss(4, 0.5))
            if number < equal:
                statistics |= {"rerank.highest": 0.5, "rerank.median": 0.5, "rerank.deviation": 0}
        query = query_hash(f"{seed} {number} {key}")
        for _ in range(times):
            counts.add(query, status, () if status == "ok" else issues, statistics)
    return {SAME_KEY._replace(**key): counts}
