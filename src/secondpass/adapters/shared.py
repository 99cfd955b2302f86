"""What servers and jobs share with the adapters of frameworks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from secondpass.adapters.scores import ScoreRule, served_scores
from secondpass.ranking.result import Ranking
from secondpass.reranker import Reranker
from secondpass.types import Issue, Request

__all__ = [
    "ScoreRule",
    "rerank_grouped",
    "served_scores",
    "without_messages",
]


_PARTS = re.compile(r"(, then | by )")
"""Between the names of models within that of a method, as in ``a, then graded by b``."""

_PATH = re.compile(r"[/~\\]|\.{1,2}[/\\]|[A-Za-z]:[/\\]|.*\\")
"""How a path begins, on any system. Names of models on a hub have a separator, too."""


def without_messages(ranking: Ranking) -> Ranking:
    """The ranking with issues that have counts in place of their messages, and without paths.

    Messages of issues may name internal addresses, variables of keys and paths of models. A local
    model is named by the last part of its path.
    """
    report = ranking.report
    shown = replace(
        report,
        method=_without_path(report.method),
        issues=tuple(
            replace(issue, message=_count(issue), method=_without_path(issue.method))
            for issue in report.issues
        ),
        engines=tuple(
            replace(engine, method=_without_path(engine.method) or "") for engine in report.engines
        ),
    )
    return ranking if shown == report else replace(ranking, report=shown)


def _count(issue: Issue) -> str:
    count = len(issue.positions)
    about = "all documents" if not count else "1 document" if count == 1 else f"{count} documents"
    return f"concerns {about}; the log of the server has the message"


@lru_cache(256)
def _without_path(method: str | None) -> str | None:
    """The name of a method, with the last part of each path in it."""
    return method and "".join(map(_last_part, _PARTS.split(method)))


def _last_part(name: str) -> str:
    if not (_PATH.match(name) or ("/" in name and Path(name).is_dir())):
        return name
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1]


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
