"""Parsed requests and responses of the server's API shapes."""

from __future__ import annotations

from typing import Any

from fakes import ByTable
from secondpass import Reranker
from secondpass_server.http.fields import Fields, RerankRequest
from secondpass_server.http.settings import ServerSettings
from secondpass_server.http.shapes import Answer, Shape

TEXTS = ["a", "ccc", "bb"]
SCORES = [0.9, 0.5, 0.1]


def read(shape: Shape, **body: Any) -> RerankRequest:
    """The request with this body."""
    return shape.read(Fields(body, ServerSettings()))


def answer_of(request: RerankRequest) -> Answer:
    """An answer that puts the longest text first."""
    ranking = Reranker(ByTable()).rerank(request.query, request.texts, top_k=request.top_n)
    report = {"status": "ok", "issues": []}
    return Answer("id", "m", request, ranking, SCORES[: len(ranking)], "rank", report)
