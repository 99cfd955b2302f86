"""The rerank APIs that ``endpoint`` speaks, as data. A new API is one record of ``APIS``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from secondpass.types import ScoreKind


@dataclass(frozen=True, slots=True)
class RerankApi:
    """One rerank API.

    Attributes:
        path: appended to the base URL.
        url: base URL of the provider; None if the server is self-hosted.
        key_variables: environment variables that usually hold the key.
        query: request field of the query.
        documents: request field of the documents, a list of strings.
        model: whether the request has the field ``model``.
        raw_scores: whether the request has the field ``raw_scores``, which selects logits.
        instruction: request field of what counts as relevant in a call; None if it has none.
        fixed: further request fields, with their values.
        max_documents: documents per request.
        rows: response field of the result rows; empty if the response is the list of rows.
        index: row field of the document's index, counted from 0.
        score: row field of the score.
        score_kind: of the scores, unless ``raw_scores`` is set.
    """

    path: str
    url: str | None = None
    key_variables: tuple[str, ...] = ("RERANK_API_KEY",)
    query: str = "query"
    documents: str = "documents"
    model: bool = True
    raw_scores: bool = False
    instruction: str | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    max_documents: int = 1000
    rows: str = "results"
    index: str = "index"
    score: str = "relevance_score"
    score_kind: ScoreKind = "probability"


APIS: Mapping[str, RerankApi] = {
    "cohere": RerankApi(
        "/v2/rerank",
        url="https://api.cohere.com",
        key_variables=("CO_API_KEY", "COHERE_API_KEY"),
    ),
    "jina": RerankApi(
        "/v1/rerank",
        url="https://api.jina.ai",
        key_variables=("JINA_API_KEY",),
        fixed={"return_documents": False},
        score_kind="unbounded",  # the range depends on the model
    ),
    "voyage": RerankApi(
        "/v1/rerank",
        url="https://api.voyageai.com",
        key_variables=("VOYAGE_API_KEY",),
        fixed={"truncation": True},
        rows="data",
    ),
    "mixedbread": RerankApi(
        "/v1/reranking",
        url="https://api.mixedbread.com",
        key_variables=("MXBAI_API_KEY",),
        documents="input",
        fixed={"return_input": False},
        rows="data",
        score="score",
        score_kind="unbounded",  # the range depends on the model
    ),
    "tei": RerankApi(
        "/rerank",
        documents="texts",
        model=False,
        raw_scores=True,
        fixed={"truncate": True},
        max_documents=32,
        rows="",
        score="score",
    ),
    # vLLM passes it to the model's chat template.
    "vllm": RerankApi("/v1/rerank", instruction="instruction"),
    "vllm_score": RerankApi(
        "/score",
        query="text_1",
        documents="text_2",
        instruction="instruction",
        rows="data",
        score="score",
    ),
    "infinity": RerankApi("/rerank", raw_scores=True, fixed={"return_documents": False}),
    "llama_cpp": RerankApi("/v1/rerank", score_kind="logit"),
}

if TYPE_CHECKING:
    ApiName: TypeAlias = str
else:
    ApiName = Literal[tuple(APIS)]
