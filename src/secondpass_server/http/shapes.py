"""The rerank APIs that the server speaks: how requests are read, and responses written."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

from secondpass import Ranking
from secondpass.adapters.scores import ScoreRule
from secondpass_server.http.errors import RequestError, TooManyTextsError
from secondpass_server.http.fields import Fields, RerankRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """A ranking, with the model that made it, and the scores and report of the response.

    Scores never rise; ``rule`` says how they were computed from the final ones.
    """

    id: str
    model: str
    request: RerankRequest
    ranking: Ranking
    scores: list[float]
    rule: ScoreRule
    report: dict[str, Any]

    @property
    def tokens(self) -> int | None:
        """Input tokens; None if they are unknown."""
        return self.ranking.report.usage.input_tokens


class Shape(ABC):
    """One rerank API: its paths, the names of its fields, and the form of what it answers."""

    name: ClassVar[str]
    """Prefix of its paths."""
    paths: ClassVar[tuple[str, ...]] = ("/v1/rerank", "/rerank")
    invalid: ClassVar[int] = 400
    """Status of the response to an invalid request."""

    documents: ClassVar[str] = "documents"
    objects: ClassVar[bool] = True
    """Whether documents and the query may be objects with a ``text`` or a ``content``."""
    rank_fields: ClassVar[bool] = False
    """Whether a request may name the fields of these objects that are ranked."""
    top_n: ClassVar[str] = "top_n"
    instruction: ClassVar[bool] = False
    raw_scores: ClassVar[bool] = False
    spans: ClassVar[bool] = False
    truncation: ClassVar[str] = ""
    """Flag that has no effect: models cut texts that are too long, in any case."""
    return_documents: ClassVar[str] = "return_documents"
    returns_documents: ClassVar[bool] = False
    """Whether documents are returned unless a request says otherwise."""

    unit: ClassVar[bool] = False
    """Whether the API promises scores within 0 to 1, unless raw ones are requested."""
    score: ClassVar[str] = "relevance_score"
    document: ClassVar[str] = "document"
    wraps_text: ClassVar[bool] = True
    """Whether a document that is a string is returned as an object with a ``text``."""

    def read(self, fields: Fields) -> RerankRequest:
        """The request, with the names of the fields that have no effect."""
        names = fields.names("rank_fields") if self.rank_fields else None
        texts, documents = fields.documents(self.documents, objects=self.objects, fields=names)
        return RerankRequest(
            query=fields.query(objects=self.objects),
            texts=texts,
            documents=documents,
            model=fields.model(),
            top_n=fields.count(self.top_n),
            instruction=fields.text("instruction") if self.instruction else None,
            return_documents=fields.flag(self.return_documents, self.returns_documents),
            raw_scores=self.raw_scores and fields.flag("raw_scores"),
            span_threshold=_span_threshold(fields, names) if self.spans else None,
            unused=self.unused(fields),
        )

    def unused(self, fields: Fields) -> tuple[str, ...]:
        """The fields that have no effect; called when all others have been read."""
        if self.truncation:
            fields.expect(self.truncation, True)
        return fields.unused

    @abstractmethod
    def response(self, answer: Answer) -> Any:
        """The body of a response."""

    def rows(self, answer: Answer) -> list[dict[str, Any]]:
        """Index and score of each item, best first, and the document if it was requested."""
        rows: list[dict[str, Any]] = []
        for item, score in zip(answer.ranking.items, answer.scores, strict=True):
            row: dict[str, Any] = {"index": item.position, self.score: score}
            if answer.request.return_documents:
                sent = answer.request.documents[item.position]
                wrapped = self.wraps_text and isinstance(sent, str)
                row[self.document] = {"text": sent} if wrapped else sent
            rows.append(row)
        return rows

    def unit_scores(self, request: RerankRequest) -> bool:
        """Whether the scores of a response must be within 0 to 1."""
        return self.unit and not request.raw_scores

    def error(self, error: RequestError) -> Any:
        """The body of an error response."""
        return {"detail": error.message}

    def status(self, error: RequestError) -> int:
        return self.invalid if error.status is None else error.status


def _usage(answer: Answer) -> dict[str, int]:
    """The number of tokens; 0 if it is unknown, as clients add up what the APIs promise."""
    count = answer.tokens or 0
    return {"total_tokens": count, "prompt_tokens": count}


def _span_threshold(fields: Fields, names: list[str] | None) -> float | None:
    """The threshold of ``relevant_spans``, by default 0; None if no spans are requested."""
    if names not in (None, ["text"]):
        return None  # texts made of other fields have other offsets than the client's document
    spans = fields.mapping("relevant_spans")
    if spans is None:
        return None
    mode, most, threshold = (spans.get(key) for key in ("mode", "max_spans", "threshold"))
    if mode not in ("enabled", "disabled"):
        raise RequestError(None, "relevant_spans.mode: must be 'enabled' or 'disabled'")
    if most is not None and (type(most) is not int or most < 1):
        raise RequestError(None, "relevant_spans.max_spans: must be a whole number, 1 or more")
    if threshold is not None and not (type(threshold) in (int, float) and 0 <= threshold <= 1):
        raise RequestError(None, "relevant_spans.threshold: must be a number from 0 to 1")
    return None if mode == "disabled" else threshold or 0.0


class Cohere(Shape):
    """Versions 1 and 2."""

    name = "cohere"
    paths = ("/v2/rerank", "/v1/rerank", "/rerank")
    rank_fields = True
    spans = True
    unit = True

    def rows(self, answer: Answer) -> list[dict[str, Any]]:
        """With the span of each document that has one; it has the score of the document."""
        rows = super().rows(answer)
        threshold = answer.request.span_threshold
        if threshold is not None:
            for row, item in zip(rows, answer.ranking.items, strict=True):
                score = row[self.score]
                if item.span is not None and score >= threshold:
                    start, end = item.span
                    row["relevant_spans"] = [{"start": start, "end": end, "score": score}]
        return rows

    def response(self, answer: Answer) -> Any:
        """Issues are warnings of ``meta``."""
        meta: dict[str, Any] = {"api_version": {"version": "2"}}
        if answer.tokens is not None:
            meta["tokens"] = {"input_tokens": answer.tokens}
        if issues := answer.report["issues"]:
            meta["warnings"] = [f"{issue['code']}: {issue['message']}" for issue in issues]
        return {
            "id": answer.id,
            "results": self.rows(answer),
            "meta": meta,
            "secondpass": answer.report,
        }

    def error(self, error: RequestError) -> Any:
        return {"message": error.message}


class Common(Cohere):
    """Requests and responses have the fields of Cohere's API and of Jina's."""

    name = "common"
    paths = ("/rerank", "/v1/rerank", "/v2/rerank")
    instruction = True
    raw_scores = True

    def response(self, answer: Answer) -> Any:
        return {**super().response(answer), "model": answer.model, "usage": _usage(answer)}

    def error(self, error: RequestError) -> Any:
        """The message in the fields of each API."""
        fields = dict.fromkeys(("message", "detail", "error"), error.message)
        return {**fields, "error_type": error.kind}


class Jina(Shape):
    """The range of scores depends on the model."""

    name = "jina"
    invalid = 422
    instruction = True
    raw_scores = True
    returns_documents = True

    def response(self, answer: Answer) -> Any:
        return {
            "id": answer.id,
            "model": answer.model,
            "object": "list",
            "usage": _usage(answer),
            "results": self.rows(answer),
            "secondpass": answer.report,
        }


class Vllm(Jina):
    """Its errors are OpenAI's."""

    name = "vllm"
    paths: ClassVar[tuple[str, ...]] = ("/v1/rerank", "/v2/rerank", "/rerank")
    invalid = 400

    def error(self, error: RequestError) -> Any:
        return {"error": {"message": error.message, "type": error.kind, "code": self.status(error)}}


class VllmScore(Vllm):
    """The scores of texts in the order of the request, as vLLM's ``/score`` has them."""

    paths = ("/v1/score", "/score")
    score = "score"

    _NAMES = (
        ("text_1", "text_2"),
        ("data_1", "data_2"),
        ("queries", "documents"),
        ("queries", "items"),
    )
    """Fields of the query and of the texts, as vLLM names them in turn."""

    def read(self, fields: Fields) -> RerankRequest:
        """A single query; vLLM also takes a list of pairs."""
        complete = (pair for pair in self._NAMES if all(name in fields for name in pair))
        query, documents = next(complete, self._NAMES[0])
        texts, _ = fields.documents(documents, objects=self.objects, single=True)
        return RerankRequest(
            query=fields.query(query, objects=self.objects, listed=True),
            texts=texts,
            documents=texts,
            model=fields.model(),
            instruction=fields.text("instruction"),
            unused=self.unused(fields),
        )

    def response(self, answer: Answer) -> Any:
        """Rows are in the order of the texts, not of the scores."""
        rows = sorted(self.rows(answer), key=itemgetter("index"))
        return {
            "id": answer.id,
            "object": "list",
            "created": int(time.time()),
            "model": answer.model,
            "data": [{**row, "object": "score"} for row in rows],
            "usage": _usage(answer),
            "secondpass": answer.report,
        }


class LlamaCpp(Vllm):
    """llama.cpp has synonyms of its paths."""

    name = "llama_cpp"
    paths = ("/v1/rerank", "/rerank", "/v1/reranking", "/reranking")
    returns_documents = False


class Infinity(Jina):
    """It applies a sigmoid unless raw scores are requested."""

    name = "infinity"
    returns_documents = False
    unit = True

    def response(self, answer: Answer) -> Any:
        """Documents are strings."""
        body = super().response(answer)
        body["object"] = "rerank"  # its own client refuses others
        for row in body["results"]:
            if "document" in row:
                row["document"] = answer.request.texts[row["index"]]
        return body

    def error(self, error: RequestError) -> Any:
        """Those of invalid requests are lists, as FastAPI's."""
        if self.status(error) != self.invalid:
            return super().error(error)
        return {"detail": [{"loc": ["body"], "msg": error.message, "type": error.kind}]}


class Voyage(Shape):
    """Its scores are within 0 to 1."""

    name = "voyage"
    objects = False
    top_n = "top_k"
    truncation = "truncation"
    unit = True
    wraps_text = False

    def response(self, answer: Answer) -> Any:
        return {
            "object": "list",
            "data": self.rows(answer),
            "model": answer.model,
            "usage": _usage(answer),
            "secondpass": answer.report,
        }


class Mixedbread(Shape):
    """The range of scores depends on the model."""

    name = "mixedbread"
    paths = ("/v1/reranking", "/reranking")
    invalid = 422
    documents = "input"
    rank_fields = True
    top_n = "top_k"
    return_documents = "return_input"
    score = "score"
    document = "input"
    wraps_text = False

    def response(self, answer: Answer) -> Any:
        return {
            "usage": _usage(answer),
            "model": answer.model,
            "data": self.rows(answer),
            "object": "list",
            "top_k": answer.request.top_n or len(answer.request.texts),
            "return_input": answer.request.return_documents,
            "secondpass": answer.report,
        }


class Tei(Shape):
    """Text Embeddings Inference; it applies a sigmoid unless raw scores are requested."""

    name = "tei"
    paths = ("/rerank",)
    invalid = 422
    documents = "texts"
    objects = False
    raw_scores = True
    truncation = "truncate"
    return_documents = "return_text"
    unit = True
    score = "score"
    document = "text"
    wraps_text = False

    def unused(self, fields: Fields) -> tuple[str, ...]:
        """LiteLLM sends two fields for one."""
        fields.flag("return_documents")
        return super().unused(fields)

    def response(self, answer: Answer) -> Any:
        """A list of rows, without a place for the report."""
        return self.rows(answer)

    def error(self, error: RequestError) -> Any:
        message = error.message
        if isinstance(error, TooManyTextsError):  # clients read the number and send smaller batches
            message = f"batch size {error.count} > maximum allowed batch size {error.most}"
        types = {429: "Overloaded", 503: "Unhealthy", 504: "Backend", 500: "Backend"}
        return {"error": message, "error_type": types.get(self.status(error), "Validation")}


SCORE = VllmScore()
"""The format of vLLM's second API, at paths with its prefix and without one."""

COMMON = Common()
"""The format at paths without a prefix, unless the body has fields of another."""

SHAPES: Mapping[str, Shape] = {
    shape.name: shape
    for shape in (Cohere(), Jina(), Voyage(), Tei(), Vllm(), Infinity(), LlamaCpp(), Mixedbread())
}
"""Prefix of the paths -> API."""


def shape_of(fields: Fields) -> Shape:
    """The API of a request to a path without a prefix."""
    if "texts" in fields and "documents" not in fields:
        return SHAPES["tei"]
    return SHAPES["voyage"] if "top_k" in fields else COMMON
