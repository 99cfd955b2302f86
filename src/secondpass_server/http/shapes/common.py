"""The union of Cohere's and Jina's APIs, for paths without a prefix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from secondpass_server.http.errors import RequestError
from secondpass_server.http.fields import Fields, RerankRequest
from secondpass_server.http.shapes.base import Answer, Shape, token_usage
from secondpass_server.http.shapes.cohere import cohere_meta, read_request, rows_with_spans


class Common(Shape):
    """Requests and responses have the fields of both. Scores are within 0 to 1."""

    name = "common"
    paths = ("/rerank", "/v1/rerank", "/v2/rerank")

    def parse(self, fields: Fields) -> RerankRequest:
        """See :meth:`Shape.parse`."""
        return replace(
            read_request(fields),
            instruction=fields.text("instruction"),
            raw_scores=fields.flag("raw_scores"),
        )

    def unit_scores(self, request: RerankRequest) -> bool:
        """As Cohere documents them, unless raw scores are requested."""
        return not request.raw_scores

    def response(self, answer: Answer) -> Any:
        """See :meth:`Shape.response`."""
        return {
            "id": answer.id,
            "model": answer.model,
            "results": rows_with_spans(answer),
            "usage": token_usage(answer),
            **cohere_meta(answer),
        }

    def error(self, error: RequestError) -> Any:
        """The message in the fields of each API."""
        return {
            "message": error.message,
            "detail": error.message,
            "error": error.message,
            "error_type": error.kind,
        }
