"""The graph of BERT, written so that onnxruntime and OpenVINO run it fast.

Its weights are float32. Embedding models come in files of few bits, which ``minilm_graph`` and
``e5_file`` expand: products in int8 are no faster on a CPU or, if a runtime may quantize
activations as well, rank differently (docs/evidence.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from secondpass.scorers.runtimes.onnx_graph import GraphWriter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Linear: TypeAlias = tuple[NDArray[np.float32], NDArray[np.float32]]
    """A matrix of the shape (inputs, outputs), and what is added to the product."""
    Normalization: TypeAlias = tuple[NDArray[np.float32], NDArray[np.float32]]
    """Weight and bias of a layer normalization, shape (width,)."""

WIDTH = 384
"""Numbers of a token's state, in all models of this package."""
HEADS = 12
EPSILON = 1e-12
_SIZE = WIDTH // HEADS


class Layer(NamedTuple):
    """The weights of a layer, float32."""

    query: Linear
    key: Linear
    value: Linear
    mixed: Linear
    """Of the product with what attention has mixed."""
    attention_norm: Normalization
    inner: Linear
    outer: Linear
    output_norm: Normalization


def build(
    graph: GraphWriter,
    words: str,
    others: NDArray[np.float32],
    norm: Normalization,
    layers: Iterable[Layer],
) -> bytes:
    """The model of the states of all tokens, float32 of the shape (batch, tokens, 384).

    Args:
        graph: with the input of the model, from which ``words`` is computed.
        words: the vectors of the tokens' words, float32 of that shape.
        others: what is added to them by position, shape (positions, 384).
        norm: the normalization of the sum.
        layers: are read one after the other, so that one at a time need be in memory.
    """
    state = graph.normalization(graph.node("Add", words, graph.first_rows(others)), norm, EPSILON)
    mask = graph.mask()
    for layer in layers:
        state = _layer(graph, layer, state, mask)
    return graph.model(state, ("batch", "tokens", WIDTH))


def _layer(graph: GraphWriter, layer: Layer, state: str, mask: str) -> str:
    # Scaling the queries' weights saves scaling the products.
    query = graph.heads(_linear(graph, layer.query, state, 1 / math.sqrt(_SIZE)), HEADS, _SIZE)
    key = graph.heads(_linear(graph, layer.key, state), HEADS, _SIZE, (0, 2, 3, 1))
    value = graph.heads(_linear(graph, layer.value, state), HEADS, _SIZE)
    mixed = _linear(graph, layer.mixed, graph.attention(query, key, value, mask, WIDTH))
    state = graph.normalization(graph.node("Add", mixed, state), layer.attention_norm, EPSILON)
    output = _linear(graph, layer.outer, graph.gelu(_linear(graph, layer.inner, state)))
    return graph.normalization(graph.node("Add", output, state), layer.output_norm, EPSILON)


def _linear(graph: GraphWriter, weights: Linear, state: str, scale: float = 1) -> str:
    import numpy as np

    factor = np.float32(scale)
    matrix, bias = weights
    return graph.product(state, matrix * factor, bias * factor)
