"""Cohere's rerank API, versions 1 and 2."""

from __future__ import annotations

from typing import Any

from secondpass.adapters.http_server.fields import Fields, RerankRequest
from secondpass.adapters.http_server.problems import RequestError
from secondpass.adapters.http_server.shapes.base import Answer, Shape, result_rows


class Cohere(Shape):
    """``POST /v2/rerank`` and ``/v1/rerank``. Scores are within 0 to 1."""

    name = "cohere"
    paths = ("/v2/rerank", "/v1/rerank", "/rerank")

    def parse(self, fields: Fields) -> RerankRequest:
        """See :meth:`Shape.parse`."""
        return read_request(fields)

    def unit_scores(self, request: RerankRequest) -> bool:  # noqa: ARG002
        """Cohere documents scores as within 0 to 1."""
        return True

    def response(self, answer: Answer) -> Any:
        """See :meth:`Shape.response`."""
        return {"id": answer.id, "results": result_rows(answer), **cohere_meta(answer)}

    def error(self, error: RequestError) -> Any:
        """See :meth:`Shape.error`."""
        return {"message": error.message}


def read_request(fields: Fields) -> RerankRequest:
    """The members of Cohere's requests."""
    rank_fields = fields.names("rank_fields")
    texts, documents = fields.documents("documents", objects=True, fields=rank_fields)
    return RerankRequest(
        query=fields.query(),
        texts=texts,
        documents=documents,
        model=fields.model(),
        top_n=fields.count("top_n"),
        return_documents=fields.flag("return_documents"),
    )


def cohere_meta(answer: Answer) -> dict[str, Any]:
    """The members ``meta``, with issues as warnings, and ``secondpass``."""
    meta: dict[str, Any] = {"api_version": {"version": "2"}}
    if answer.tokens is not None:
        meta["tokens"] = {"input_tokens": answer.tokens}
    if issues := answer.report["issues"]:
        meta["warnings"] = [f"{issue['code']}: {issue['message']}" for issue in issues]
    return {"meta": meta, "secondpass": answer.report}
