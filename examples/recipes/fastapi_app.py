"""A FastAPI service that reranks: an endpoint with ``arerank``, one reranker for all requests.

    pip install -e ".[embedded]" fastapi uvicorn
    uvicorn --app-dir examples/recipes fastapi_app:app

``POST /rerank`` with ``{"query": …, "passages": [{"id": …, "text": …, "score": …}], "top_k": 3}``.

The reranker is created once, in the application's lifespan: its model is loaded before the first
request and released at the end. ``arerank`` does not block the event loop, and concurrent requests
share batches. Each request has two seconds; where candidates stand that are not scored by then
depends on their ranks in the search, and the status says so. A failing model never fails a request.
Set RERANK_PRESET to use another preset.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # missing_package.py

import missing_package  # noqa: F401 - says what to install
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from secondpass import Reranker


class Passage(BaseModel):
    """A candidate; other fields become metadata and are returned."""

    model_config = ConfigDict(extra="allow")

    id: str
    text: str = Field(max_length=20_000)
    score: float | None = Field(default=None, allow_inf_nan=False)


class Query(BaseModel):
    """The body of a request."""

    query: str = Field(min_length=1, max_length=2_000)
    passages: list[Passage] = Field(max_length=200)
    top_k: int | None = Field(default=None, ge=1)


class Item(BaseModel):
    """A ranked passage."""

    id: str
    rank: int
    score: float | None
    metadata: dict[str, Any]


class Answer(BaseModel):
    """The body of a response. ``issues`` are codes, without any text of the request."""

    status: str
    items: list[Item]
    issues: list[str]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Load the model before the first request; release it after the last."""
    preset = os.environ.get("RERANK_PRESET") or "embedded"
    async with Reranker.from_preset(preset, limits={"deadline": 2}) as reranker:
        await reranker.awarm_up()
        app.state.reranker = reranker
        yield


app = FastAPI(title="Reranking", lifespan=lifespan)


@app.exception_handler(RequestValidationError)
async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
    """Status 422 without the values: JSON has no infinite number, and texts may be long."""
    detail = [{"loc": one["loc"], "msg": one["msg"]} for one in error.errors()]
    return JSONResponse({"detail": detail}, status_code=422)


@app.post("/rerank")
async def rerank(body: Query, request: Request) -> Answer:
    """The passages, best first."""
    reranker: Reranker = request.app.state.reranker
    passages = [passage.model_dump() for passage in body.passages]
    ranking = await reranker.arerank(body.query, passages, top_k=body.top_k)
    items = [
        Item(id=str(item.id), rank=item.rank, score=item.final_score, metadata=item.metadata)
        for item in ranking
    ]
    return Answer(
        status=ranking.report.status,
        items=items,
        issues=[issue.code for issue in ranking.report.issues],
    )
