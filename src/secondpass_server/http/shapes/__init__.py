"""The formats of the rerank APIs that the server supports, one class each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from secondpass_server.http.errors import RequestError
from secondpass_server.http.fields import Fields, RerankRequest
from secondpass_server.http.shapes.base import Answer, Shape, token_usage
from secondpass_server.http.shapes.cohere import Cohere, cohere_meta, read_request, rows_with_spans
from secondpass_server.http.shapes.jina import Infinity, Jina, LlamaCpp, Vllm
from secondpass_server.http.shapes.mixedbread import Mixedbread
from secondpass_server.http.shapes.tei import Tei
from secondpass_server.http.shapes.voyage import Voyage


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


__all__ = ["COMMON", "SHAPES", "Answer", "Fields", "Shape", "shape_of"]

COMMON: Shape = Common()
"""The format at paths without a prefix, unless the body has fields of another."""

SHAPES: Mapping[str, Shape] = {
    shape.name: shape
    for shape in (
        Cohere(),
        Jina(),
        Voyage(),
        Tei(),
        Vllm(),
        Infinity(),
        LlamaCpp(),
        Mixedbread(),
    )
}
"""Prefix of the paths -> API."""


def shape_of(fields: Fields) -> Shape:
    """The API of a request to a path without a prefix."""
    if "texts" in fields and "documents" not in fields:
        return SHAPES["tei"]
    return SHAPES["voyage"] if "top_k" in fields else COMMON
