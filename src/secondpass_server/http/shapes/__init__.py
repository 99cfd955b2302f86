"""The formats of the rerank APIs that the server supports, one class each."""

from __future__ import annotations

from collections.abc import Mapping

from secondpass_server.http.fields import Fields
from secondpass_server.http.shapes.base import Answer, Shape
from secondpass_server.http.shapes.cohere import Cohere
from secondpass_server.http.shapes.common import Common
from secondpass_server.http.shapes.jina import Infinity, Jina, LlamaCpp, Vllm
from secondpass_server.http.shapes.mixedbread import Mixedbread
from secondpass_server.http.shapes.tei import Tei
from secondpass_server.http.shapes.voyage import Voyage

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
