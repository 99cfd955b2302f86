"""What servers and jobs share with the adapters of frameworks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from secondpass.adapters.scores import ScoreRule, served_scores
from secondpass.ranking.diagnostics import without_folders
from secondpass.ranking.result import Ranking
from secondpass.reranker import Reranker
from secondpass.types import Issue, Request


def without_messages(ranking: Ranking) -> Ranking:
    """The ranking with issues that have counts in place of their messages, and without paths.

    Messages of issues may name internal addresses, variables of keys and paths of models. A local
    model is named by the last part of its path.
    """
    report = ranking.report
    shown = replace(
        report,
        method=report.method and without_folders(report.method),
        issues=tuple(
            replace(
                issue, message=_count(issue), method=issue.method and without_folders(issue.method)
            )
            for issue in report.issues
        ),
        engines=tuple(
            replace(engine, method=without_folders(engine.method)) for engine in report.engines
        ),
    )
    return ranking if shown == report else replace(ranking, report=shown)


def _count(issue: Issue) -> str:
    count = len(issue.positions)
    about = "all documents" if not count else "1 document" if count == 1 else f"{count} documents"
    return f"concerns {about}; the log of the server has the message"


def rerank_grouped(
    reranker: Reranker, requests: Sequence[Request], options: Sequence[Mapping[str, Any]]
) -> list[Ranking]:
    """Rank requests, those with equal options in one call; the rankings keep their order."""
    groups: dict[str, list[int]] = {}
    for index, call_options in enumerate(options):
        groups.setdefault(json.dumps(call_options, sort_keys=True), []).append(index)
    rankings: dict[int, Ranking] = {}
    for group in groups.values():
        ranked = reranker.rerank_many([requests[index] for index in group], **options[group[0]])
        rankings.update(zip(group, ranked, strict=True))
    return [rankings[index] for index in range(len(requests))]
