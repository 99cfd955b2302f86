"""Voyage's rerank API."""

from __future__ import annotations

from typing import Any

from secondpass_server.http.errors import RequestError
from secondpass_server.http.fields import Fields, RerankRequest
from secondpass_server.http.shapes.base import Answer, Shape, result_rows, token_usage


class Voyage(Shape):
    """``POST /v1/rerank``. Scores are within 0 to 1."""

    name = "voyage"

    def parse(self, fields: Fields) -> RerankRequest:
        """See :meth:`Shape.parse`."""
        texts, documents = fields.documents("documents")
        request = RerankRequest(
            query=fields.query(),
            texts=texts,
            documents=documents,
            model=fields.model(),
            top_n=fields.count("top_k"),
            return_documents=fields.flag("return_documents"),
        )
        fields.expect("truncation", True)  # models cut texts that are too long
        return request

    def unit_scores(self, request: RerankRequest) -> bool:  # noqa: ARG002
        """Voyage's scores are within 0 to 1."""
        return True

    def response(self, answer: Answer) -> Any:
        """See :meth:`Shape.response`."""
        return {
            "object": "list",
            "data": result_rows(answer, as_object=False),
            "model": answer.model,
            "usage": token_usage(answer),
            "secondpass": answer.report,
        }

    def error(self, error: RequestError) -> Any:
        """See :meth:`Shape.error`."""
        return {"detail": error.message}
