"""What reranking fewer candidates would have measured, computed from the scores at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from secondpass.ranking.result import Ranking
from secondpass.ranking.scoring import scores_alone
from secondpass.reranker import Reranker
from secondpass.types import Candidate
from secondpass_evaluation.distinct import measured
from secondpass_evaluation.replay import can_replay, replayed, replayed_run
from secondpass_evaluation.suites import Suite

DEPTHS = (10, 20, 50, 100)


def means_by_depth(
    reranker: Reranker,
    rankings: Mapping[str, Ranking],
    candidates: Mapping[str, Sequence[Candidate]],
    suite: Suite,
    measure: str,
) -> dict[int, float]:
    """Depth -> mean of a measure, for depths below that of the rankings, and for that.

    Empty where it cannot be computed: scores depend on other candidates, a fallback ranked, or the
    order is not that of scores and blend alone (an ordering, candidates that are left out).

    Args:
        reranker: made the rankings.
        rankings: query id -> ranking.
        candidates: query id -> candidates of the ranking.
        suite: has the judgements.
        measure: its name.
    """
    method = reranker.method
    longest = max(map(len, candidates.values()), default=0)
    own = min(reranker.depth or longest, longest)
    smaller = [depth for depth in DEPTHS if depth < own]
    if not smaller or not scores_alone(method):
        return {}
    for ranking in rankings.values():
        if not can_replay(ranking, method.name) or ranking.report.left_out:
            return {}
        order = replayed(ranking, reranker.blend, depth=own, scale=method.scale)
        if tuple(order) != ranking.order:
            return {}
    means = {}
    for depth in (*smaller, own):
        run = replayed_run(
            rankings, candidates, method.name, reranker.blend, depth=depth, scale=method.scale
        )
        means[depth] = measured(run, suite, [measure]).mean[measure]
    return means
