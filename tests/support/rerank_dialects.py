"""The rerank APIs as their documentation describes them, apart from the implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
        index: what a row calls the document's index; empty where rows are scores in their order.
        named: whether indices are strings.
        header: the header of the key, and what stands before it.
        units: the billed units that ``usage`` reports.
        most: documents a request.
        instruction: the field of an instruction, where it has one.
        spans: what a row calls the list of relevant spans, where it has one.
        asks_for_spans: members of a request for spans.
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
    spans: str = ""
    asks_for_spans: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    tokens: int | None = None
    units: float | None = None
    index: str = "index"
    named: bool = False
    header: tuple[str, str] = ("authorization", "Bearer ")

    def texts(self, body: Any) -> list[str]:
        """The documents of a request."""
        for name in self.documents.split("."):
            body = body[name]
        return [_text(document) for document in body]

    def rows_of(self, scores: Sequence[tuple[int, Any]]) -> list[Any]:
        """Rows with these pairs of index and score."""
        if not self.index:
            return [score for _, score in sorted(scores, key=lambda pair: pair[0])]
        return [
            {self.index: str(place) if self.named else place, self.score: score}
            for place, score in scores
        ]

    def reply(self, rows: Any) -> Any:
        """The answer around rows."""
        return {**self.usage, **self.around(rows)} if self.rows else rows

    def around(self, rows: Any) -> dict[str, Any]:
        """The part of the answer that holds the rows."""
        held: dict[str, Any] = rows
        for name in reversed(self.rows.split(".")):
            held = {name: held}
        return held


def _text(document: Any) -> str:
    if isinstance(document, str):
        return document
    return next(
        text
        for name, part in document.items()
        if isinstance(part, dict) or name in {"text", "content"}
        for text in [_text(part)]
    )


USED = {"usage": {"prompt_tokens": 70, "total_tokens": 77}}

DIALECTS = {
    "cohere": Dialect(
        "/v2/rerank",
        {"query": "q", "documents": NUMBERS, "model": "m", "max_tokens_per_doc": 4096},
        hosted="https://api.cohere.com/v2/rerank",
        # [start, end) in code points, and a score from 0 to 1; absent where there is none.
        spans="relevant_spans",
        asks_for_spans={"relevant_spans": {"mode": "enabled", "max_spans": 1}},
        usage={"id": "r", "meta": {"billed_units": {"search_units": 2}}},
        units=2,
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
        {"query": "q", "documents": NUMBERS, "model": "m", "truncate_prompt_tokens": -1},
        usage={"id": "score-1", "usage": {"total_tokens": 77}},
        tokens=77,
        instruction="instruction",
    ),
    "vllm_score": Dialect(
        "/score",
        {"text_1": "q", "text_2": NUMBERS, "model": "m", "truncate_prompt_tokens": -1},
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
        instruction="instruction",
    ),
    "nvidia": Dialect(
        "/v1/retrieval/m/reranking",
        {
            "model": "m",
            "query": {"text": "q"},
            "passages": [{"text": text} for text in NUMBERS],
            "truncate": "END",
        },
        documents="passages",
        rows="rankings",
        score="logit",
        kind="logit",
        hosted="https://ai.api.nvidia.com/v1/retrieval/m/reranking",
        most=512,
        usage=USED,
        tokens=77,
    ),
    "deepinfra": Dialect(
        "/v1/inference/m",
        {"queries": ["q", "q", "q"], "documents": NUMBERS},
        rows="scores",
        index="",
        hosted="https://api.deepinfra.com/v1/inference/m",
        instruction="instruction",
        usage={"input_tokens": 77, "inference_status": {"cost": 0.1, "tokens_input": 77}},
        tokens=77,
    ),
    "sglang": Dialect(
        "/v1/rerank",
        {"query": "q", "documents": NUMBERS, "return_documents": False},
        rows="",
        score="score",
        kind="unbounded",
        instruction="instruct",
    ),
    "elastic": Dialect(
        "/_inference/rerank/m",
        {"query": "q", "input": NUMBERS},
        documents="input",
        rows="rerank",
        kind="unbounded",
        header=("authorization", "ApiKey "),
    ),
    "pinecone": Dialect(
        "/rerank",
        {
            "model": "m",
            "query": "q",
            "documents": [{"text": text} for text in NUMBERS],
            "rank_fields": ["text"],
            "top_n": 3,
            "return_documents": False,
            "parameters": {"truncate": "END"},
        },
        rows="data",
        score="score",
        kind="unbounded",
        hosted="https://api.pinecone.io/rerank",
        most=100,
        usage={"model": "m", "usage": {"rerank_units": 1}},
        units=1,
        header=("api-key", ""),
    ),
    "dashscope": Dialect(
        "/api/v1/services/rerank/text-rerank/text-rerank",
        {
            "model": "m",
            "input": {"query": "q", "documents": NUMBERS},
            "parameters": {"return_documents": False, "top_n": 3},
        },
        documents="input.documents",
        rows="output.results",
        hosted="https://dashscope.aliyuncs.com/api/v1/services/rerank/text-rerank/text-rerank",
        most=500,
        instruction="parameters.instruct",
        usage={"usage": {"total_tokens": 77}, "request_id": "r"},
        tokens=77,
    ),
    "contextual": Dialect(
        "/v1/rerank",
        {"model": "m", "query": "q", "documents": NUMBERS},
        hosted="https://api.contextual.ai/v1/rerank",
        instruction="instruction",
    ),
    "zeroentropy": Dialect(
        "/v1/models/rerank",
        {"model": "m", "query": "q", "documents": NUMBERS},
        hosted="https://api.zeroentropy.dev/v1/models/rerank",
        usage={
            "total_bytes": 9,
            "total_tokens": 77,
            "e2e_latency": 0.1,
            "inference_latency": 0.1,
            "actual_latency_mode": "fast",
        },
        tokens=77,
    ),
    "litellm": Dialect(
        "/v1/rerank",
        {"model": "m", "query": "q", "documents": NUMBERS, "return_documents": False},
        kind="unbounded",
        usage={
            "id": "r",
            "meta": {"billed_units": {"search_units": 1}, "tokens": {"input_tokens": 77}},
        },
        tokens=77,
        units=1,
    ),
    "openrouter": Dialect(
        "/v1/rerank",
        {"model": "m", "query": "q", "documents": NUMBERS},
        kind="unbounded",
        hosted="https://openrouter.ai/api/v1/rerank",
        usage={"id": "r", "model": "m", "usage": {"search_units": 1, "total_tokens": 77}},
        tokens=77,
        units=1,
    ),
    "azure": Dialect(
        "/v2/rerank",
        {"query": "q", "documents": NUMBERS, "model": "m", "max_tokens_per_doc": 4096},
        usage={"id": "r", "meta": {"billed_units": {"search_units": 1}}},
        units=1,
    ),
    "bedrock": Dialect(
        "/rerank",
        {
            "queries": [{"type": "TEXT", "textQuery": {"text": "q"}}],
            "sources": [
                {
                    "type": "INLINE",
                    "inlineDocumentSource": {"type": "TEXT", "textDocument": {"text": text}},
                }
                for text in NUMBERS
            ],
            "rerankingConfiguration": {
                "type": "BEDROCK_RERANKING_MODEL",
                "bedrockRerankingConfiguration": {
                    "modelConfiguration": {"modelArn": "m"},
                    "numberOfResults": 3,
                },
            },
        },
        documents="sources",
        score="relevanceScore",
        hosted="https://bedrock-agent-runtime.us-east-1.amazonaws.com/rerank",
        header=("authorization", "AWS4-HMAC-SHA256 "),
    ),
    "vertex": Dialect(
        "/rankingConfigs/default_ranking_config:rank",
        {
            "model": "m",
            "query": "q",
            "records": [{"id": str(n), "content": text} for n, text in enumerate(NUMBERS)],
            "topN": 3,
            "ignoreRecordDetailsInResponse": True,
        },
        documents="records",
        rows="records",
        score="score",
        most=200,
        index="id",
        named=True,
    ),
}
DIALECTS["nvidia_nim"] = replace(DIALECTS["nvidia"], path="/v1/ranking", hosted=None)
SIGNED = ("bedrock",)
"""Those that take no key."""
