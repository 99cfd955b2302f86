"""Jina's rerank API, and servers that follow it: vLLM, Infinity, llama.cpp."""

from __future__ import annotations

from typing import Any, ClassVar

from secondpass_server.http.errors import RequestError
from secondpass_server.http.fields import Fields, RerankRequest
from secondpass_server.http.shapes.base import Answer, Shape, result_rows, token_usage


class Jina(Shape):
    """``POST /v1/rerank``. The range of scores depends on the model."""

    name = "jina"
    invalid = 422
    returns_documents = True
    """Whether documents are returned unless a request says otherwise."""

    def parse(self, fields: Fields) -> RerankRequest:
        """See :meth:`Shape.parse`."""
        texts, documents = fields.documents("documents", objects=True)
        return RerankRequest(
            query=fields.query(),
            texts=texts,
            documents=documents,
            model=fields.model(),
            top_n=fields.count("top_n"),
            instruction=fields.text("instruction"),
            return_documents=fields.flag("return_documents", self.returns_documents),
            raw_scores=fields.flag("raw_scores"),
        )

    def response(self, answer: Answer) -> Any:
        """See :meth:`Shape.response`."""
        return {
            "id": answer.id,
            "model": answer.model,
            "object": "list",
            "usage": token_usage(answer),
            "results": result_rows(answer),
            "secondpass": answer.report,
        }

    def error(self, error: RequestError) -> Any:
        """See :meth:`Shape.error`."""
        return {"detail": error.message}


class Vllm(Jina):
    """vLLM's ``/v1/rerank``, ``/v2/rerank`` and ``/rerank``. Its errors are OpenAI's."""

    name = "vllm"
    paths: ClassVar[tuple[str, ...]] = ("/v1/rerank", "/v2/rerank", "/rerank")
    invalid = 400

    def error(self, error: RequestError) -> Any:
        """See :meth:`Shape.error`."""
        return {"error": {"message": error.message, "type": error.kind, "code": self.status(error)}}


class Infinity(Jina):
    """Infinity's ``/rerank``. Scores are within 0 to 1 unless ``raw_scores`` is set."""

    name = "infinity"
    returns_documents = False

    def unit_scores(self, request: RerankRequest) -> bool:
        """Infinity applies a sigmoid unless raw scores are requested."""
        return not request.raw_scores

    def response(self, answer: Answer) -> Any:
        """See :meth:`Shape.response`; documents are strings."""
        body = super().response(answer)
        body["object"] = "rerank"  # its own client refuses others
        for row in body["results"]:
            if "document" in row:
                row["document"] = answer.request.texts[row["index"]]
        return body

    def error(self, error: RequestError) -> Any:
        """See :meth:`Shape.error`; those of invalid requests are lists, as FastAPI's."""
        if self.status(error) != self.invalid:
            return super().error(error)
        return {"detail": [{"loc": ["body"], "msg": error.message, "type": error.kind}]}


class LlamaCpp(Vllm):
    """llama.cpp's ``/v1/rerank``, ``/rerank`` and their synonyms ``/reranking``."""

    name = "llama_cpp"
    paths = ("/v1/rerank", "/rerank", "/v1/reranking", "/reranking")
    returns_documents = False
