"""Mixedbread's rerank API."""

from __future__ import annotations

from typing import Any

from secondpass_server.http.errors import RequestError
from secondpass_server.http.fields import Fields, RerankRequest
from secondpass_server.http.shapes.base import Answer, Shape, result_rows, token_usage


class Mixedbread(Shape):
    """``POST /v1/reranking``. The range of scores depends on the model."""

    name = "mixedbread"
    paths = ("/v1/reranking", "/reranking")
    invalid = 422

    def parse(self, fields: Fields) -> RerankRequest:
        """See :meth:`Shape.parse`."""
        rank_fields = fields.names("rank_fields")
        texts, documents = fields.documents("input", objects=True, fields=rank_fields)
        return RerankRequest(
            query=fields.query(),
            texts=texts,
            documents=documents,
            model=fields.model(),
            top_n=fields.count("top_k"),
            return_documents=fields.flag("return_input"),
        )

    def response(self, answer: Answer) -> Any:
        """See :meth:`Shape.response`."""
        return {
            "usage": token_usage(answer),
            "model": answer.model,
            "data": result_rows(answer, score="score", document="input", as_object=False),
            "object": "list",
            "top_k": answer.request.top_n or len(answer.request.texts),
            "return_input": answer.request.return_documents,
            "secondpass": answer.report,
        }

    def error(self, error: RequestError) -> Any:
        """See :meth:`Shape.error`."""
        return {"detail": error.message}
