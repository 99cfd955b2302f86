"""Requests of several callers in as few calls as their options allow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from secondpass.ranking.result import Ranking
from secondpass.reranker import Reranker
from secondpass.types import Request


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
