"""The rerank APIs that the server speaks, a class each."""

from __future__ import annotations

from collections.abc import Mapping

from secondpass.adapters.http_server.fields import Fields
from secondpass.adapters.http_server.shapes.base import Answer, Shape
from secondpass.adapters.http_server.shapes.cohere import Cohere
from secondpass.adapters.http_server.shapes.common import Common
from secondpass.adapters.http_server.shapes.jina import Infinity, Jina, LlamaCpp, Vllm
from secondpass.adapters.http_server.shapes.mixedbread import Mixedbread
from secondpass.adapters.http_server.shapes.tei import Tei
from secondpass.adapters.http_server.shapes.voyage import Voyage

__all__ = ["COMMON", "SHAPES", "Answer", "Fields", "Shape", "shape_of"]

COMMON: Shape = Common()
"""The shape at paths without a prefix, until the body shows another."""

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
"""By the prefix of their paths."""


def shape_of(fields: Fields) -> Shape:
    """The shape of a request that came by a path without a prefix."""
    if "texts" in fields and "documents" not in fields:
        return SHAPES["tei"]
    return SHAPES["voyage"] if "top_k" in fields else COMMON
