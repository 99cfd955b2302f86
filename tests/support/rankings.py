"""Parts of a ranking that tests compare."""

from __future__ import annotations

from secondpass import Ranking

KEYS = {
    "rerank_score",
    "rerank_final_score",
    "retrieval_score",
    "rerank_rank",
    "rerank_status",
}
"""The metadata keys that adapters add."""


def codes(ranking: Ranking) -> set[str]:
    """The codes of the issues that the report lists."""
    return {issue.code for issue in ranking.report.issues}


def scores(ranking: Ranking) -> dict[int, float | None]:
    """Rerank scores by input position."""
    return {item.position: item.rerank_score for item in ranking}


def order(ranking: Ranking) -> str:
    """The texts, one after the other."""
    return "".join(item.text for item in ranking)
