"""The rerank APIs as their documentation describes them, apart from the implementation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NUMBERS = ["3 a", "9 b", "5 c"]


@dataclass(frozen=True)
class Dialect:
    """A rerank API.

    Attributes:
        sends: the whole body for the query ``q``, the documents of NUMBERS and the model ``m``.
        documents: what the body calls the documents.
        rows: where the results are; empty where they are the whole answer.
        kind: the scores' kind where nothing else is set.
        hosted: the provider's address, where it has one.
        most: documents a request.
        instruction: the field of an instruction, where it has one.
        usage: further members of an answer, and the tokens that they report.
    """

    path: str
    sends: dict[str, Any]
    documents: str = "documents"
    rows: str = "results"
    score: str = "relevance_score"
    kind: str = "probability"
    hosted: str | None = None
    most: int = 1000
    instruction: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    tokens: int | None = None


USED = {"usage": {"prompt_tokens": 70, "total_tokens": 77}}

DIALECTS = {
    "cohere": Dialect(
        "/v2/rerank",
        {"query": "q", "documents": NUMBERS, "model": "m"},
        hosted="https://api.cohere.com/v2/rerank",
        usage={"id": "r", "meta": {"billed_units": {"search_units": 1}}},
    ),
    "jina": Dialect(
        "/v1/rerank",
        {"query": "q", "documents": NUMBERS, "model": "m", "return_documents": False},
        kind="unbounded",
        hosted="https://api.jina.ai/v1/rerank",
        usage={"model": "m", "usage": {"total_tokens": 77}},
        tokens=77,
    ),
    "voyage": Dialect(
        "/v1/rerank",
        {"query": "q", "documents": NUMBERS, "model": "m", "truncation": True},
        rows="data",
        hosted="https://api.voyageai.com/v1/rerank",
        usage={"object": "list", "model": "m", "usage": {"total_tokens": 77}},
        tokens=77,
    ),
    "mixedbread": Dialect(
        "/v1/reranking",
        {"query": "q", "input": NUMBERS, "model": "m", "return_input": False},
        documents="input",
        rows="data",
        score="score",
        kind="unbounded",
        hosted="https://api.mixedbread.com/v1/reranking",
        usage=USED,
        tokens=77,
    ),
    "tei": Dialect(
        "/rerank",
        {"query": "q", "texts": NUMBERS, "truncate": True, "raw_scores": False},
        documents="texts",
        rows="",
        score="score",
        most=32,
    ),
    "vllm": Dialect(
        "/v1/rerank",
        {"query": "q", "documents": NUMBERS, "model": "m"},
        usage={"id": "score-1", "usage": {"total_tokens": 77}},
        tokens=77,
        instruction="instruction",
    ),
    "vllm_score": Dialect(
        "/score",
        {"text_1": "q", "text_2": NUMBERS, "model": "m"},
        documents="text_2",
        rows="data",
        score="score",
        usage={"object": "list", **USED},
        tokens=77,
        instruction="instruction",
    ),
    "infinity": Dialect(
        "/rerank",
        {
            "query": "q",
            "documents": NUMBERS,
            "model": "m",
            "return_documents": False,
            "raw_scores": False,
        },
        usage=USED,
        tokens=77,
    ),
    "llama_cpp": Dialect(
        "/v1/rerank",
        {"query": "q", "documents": NUMBERS, "model": "m"},
        kind="logit",
        usage=USED,
        tokens=77,
    ),
}
HOSTED = [api for api, dialect in DIALECTS.items() if dialect.hosted]
OWN = [api for api in DIALECTS if api not in HOSTED]
