"""Parts of a ranking that tests compare."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from secondpass import Ranked, Ranking, Reranker

KEYS = {"rerank_score", "rerank_final_score", "retrieval_score", "rerank_rank", "rerank_status"}
"""The metadata keys that adapters add."""


WAYS = ("sync", "async", "stream")


def rank(reranker: Reranker, way: str, query: str, candidates: Sequence[Any]) -> Ranking:
    """The ranking by ``rerank``, by ``arerank``, or the last of ``astream``."""
    if way == "sync":
        return reranker.rerank(query, candidates)

    async def act() -> Ranking:
        if way == "async":
            return await reranker.arerank(query, candidates)
        return [ranking async for ranking in reranker.astream(query, candidates)][-1]

    return asyncio.run(act())


def codes(ranking: Ranking) -> set[str]:
    """The codes of the issues that the report lists."""
    return {issue.code for issue in ranking.report.issues}


def scores(ranking: Ranking) -> dict[int, float | None]:
    """Rerank scores by input position."""
    return {item.position: item.rerank_score for item in ranking}


def order(ranking: Ranking) -> str:
    """The texts, one after the other."""
    return "".join(item.text for item in ranking)


def fields_of(ranking: Ranking) -> str:
    """All fields of the items, NaN and signs of zeros included, without texts and metadata."""
    parts = [part.name for part in fields(Ranked) if part.repr]
    return repr([[getattr(item, name) for name in parts] for item in ranking])


def shown(reranker: Reranker, ranking: Ranking, caplog: Any) -> str:
    """All that is printed, logged, stored or sent of a ranking and its reranker."""
    report, method = ranking.report, reranker.method
    texts = [repr(reranker), repr(method), str(method), repr(ranking), repr(report)]
    texts += [json.dumps(report.to_dict()), repr(pickle.dumps(report))]
    texts += [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    return "\n".join(texts)
