"""Rankings as JSON lines."""

from __future__ import annotations

from typing import Any

from secondpass.formats.requests import InputRequest
from secondpass.ranking.result import Ranking
from secondpass.types import Ranked


def ranking_record(
    request: InputRequest, ranking: Ranking, *, text: bool, timings: bool
) -> dict[str, Any]:
    """The object of a line.

    Args:
        request: the request.
        ranking: its ranking.
        text: whether to include texts and metadata.
        timings: whether to include durations.
    """
    report = ranking.report.to_dict()
    if not timings:
        for name in ranking.report.TIMES:
            del report[name]
    record: dict[str, Any] = {} if request.query_id is None else {"query_id": request.query_id}
    record["query"] = request.query
    record["ranking"] = [_item(item, text=text) for item in ranking]
    record["report"] = report
    return record


def _item(item: Ranked, *, text: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "rank": item.rank,
        "id": item.id,
        "position": item.position,
        "status": item.status,
        "score": item.score,
        "rerank_score": item.rerank_score,
        "final_score": item.final_score,
    }
    if item.stage_scores:
        record["stage_scores"] = list(item.stage_scores)
    if item.span is not None:
        record["span"] = list(item.span)
    if item.spread is not None:
        record["spread"] = item.spread
    if item.probability is not None:
        record["probability"] = item.probability
    if text:
        record["text"] = item.text
        if item.candidate.metadata:
            record["metadata"] = dict(item.candidate.metadata)
    return record
