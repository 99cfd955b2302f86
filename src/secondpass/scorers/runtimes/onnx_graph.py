"""Reads the weights of an ONNX file, and writes a model in the form of one.

What is written has the most common operators, in the order in which onnxruntime and OpenVINO
recognise them and run them fast.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPES = {1: "float32", 3: "int8", 7: "int64", 9: "bool"}
"""ONNX's numbers of element types."""
_NUMBERS = {name: number for number, name in _TYPES.items()}
FLOAT = _NUMBERS["float32"]
_IR_VERSION, _OPSET = 8, 17
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 7
"""Types of attributes."""

# Numbers of fields in the messages of onnx.proto.
_MODEL_IR_VERSION, _MODEL_GRAPH, _MODEL_OPSET = 1, 7, 8
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_GRAPH_NODE, _GRAPH_NAME, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 2, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATOR, _NODE_ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS, _ATTRIBUTE_TYPE = 1, 2, 3, 8, 20
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_RAW = 1, 2, 8, 9
_VALUE_NAME, _VALUE_TYPE, _TYPE_TENSOR = 1, 2, 1
_ELEMENT, _SHAPE, _SHAPE_SIZE = 1, 2, 1
_SIZE_NUMBER, _SIZE_NAME = 1, 2

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Kinds of values of protocol buffers."""
Attribute: TypeAlias = float | int | Sequence[int]


class GraphTensor(NamedTuple):
    """An input or output of a model; a string in the shape is the name of a size that varies."""

    name: str
    type: str
    shape: Sequence[int | str]


INPUT_IDS = GraphTensor("input_ids", "int64", ("batch", "tokens"))
ATTENTION_MASK = GraphTensor("attention_mask", "int64", ("batch", "tokens"))

MASKED = -10_000.0
"""Added to the attention to tokens that are not read, whose weight is then 0."""

# ---------------------------------------------------------------------- reading


def read_tensors(data: bytes) -> dict[str, NDArray[Any]]:
    """The initializers by name, as views of the data: an ONNX model that is known to be whole."""
    [graph] = _fields(memoryview(data))[_MODEL_GRAPH]
    return dict(_tensor(_fields(tensor)) for tensor in _fields(graph)[_GRAPH_INITIALIZER])


def _tensor(fields: Mapping[int, list[Any]]) -> tuple[str, NDArray[Any]]:
    import numpy as np

    [kind], [name], [raw] = fields[_TENSOR_TYPE], fields[_TENSOR_NAME], fields[_TENSOR_RAW]
    shape = fields.get(_TENSOR_DIMS, [])
    return str(name, "utf-8"), np.frombuffer(raw, _TYPES[kind]).reshape(shape)


def _fields(message: memoryview) -> dict[int, list[Any]]:
    """The values of a protocol buffer by the number of their field: integers, and views."""
    fields: dict[int, list[Any]] = {}
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        kind = key & 7
        value: Any
        if kind == _VARINT:
            value, position = _varint(message, position)
        else:
            if kind == _BYTES:
                size, position = _varint(message, position)
            else:
                size = _SIZES[kind]
            value = message[position : position + size]
            position += size
        fields.setdefault(key >> 3, []).append(value)
    return fields


_SIZES = {_FIXED64: 8, _FIXED32: 4}
"""Bytes of the kinds of values that do not name their size."""


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 127) << shift
        shift += 7
        position += 1
        if byte < 128:
            return value, position


# ---------------------------------------------------------------------- writing


class GraphWriter:
    """Builds a model of texts; each operation returns the name of its output.

    Args:
        inputs: the name, type and shape of what a text is given as, beside ``attention_mask``,
            int64 of the shape (batch, tokens).
    """

    def __init__(self, inputs: Sequence[GraphTensor] = (INPUT_IDS,)) -> None:
        self._inputs = (*inputs, ATTENTION_MASK)
        self._nodes: list[bytes] = []
        self._tensors: list[bytes | memoryview] = []
        """Parts of the initializers. Joined once, since they have nearly all bytes of the model."""
        self._count = 0

    def constant(self, array: NDArray[Any]) -> str:
        """Store an array."""
        import numpy as np

        name = self._new_name()
        dims = b"".join(_field(_TENSOR_DIMS, size) for size in array.shape)
        kind = _field(_TENSOR_TYPE, _NUMBERS[array.dtype.name])
        named = _field(_TENSOR_NAME, name.encode())
        description = dims + kind + named + _start(_TENSOR_RAW, array.nbytes)
        self._tensors += [
            _start(_GRAPH_INITIALIZER, len(description) + array.nbytes),
            description,
            np.ascontiguousarray(array).data.cast("B"),
        ]
        return name

    def number(self, value: float) -> str:
        """Store a float32."""
        import numpy as np

        return self.constant(np.array(value, dtype=np.float32))

    def ints(self, *values: int) -> str:
        """Store a list of int64."""
        import numpy as np

        return self.constant(np.array(values, dtype=np.int64))

    def node(self, operator: str, *inputs: str, **attributes: Attribute) -> str:
        """Add a node with one output."""
        name = self._new_name()
        parts = [_field(_NODE_INPUT, input_name.encode()) for input_name in inputs]
        parts += [_field(_NODE_OUTPUT, name.encode()), _field(_NODE_OPERATOR, operator.encode())]
        parts += [_field(_NODE_ATTRIBUTE, _attribute(*item)) for item in attributes.items()]
        self._nodes.append(_field(_GRAPH_NODE, b"".join(parts)))
        return name

    @cached_property
    def _length(self) -> str:
        return self.node("Slice", self.node("Shape", "attention_mask"), self.ints(1), self.ints(2))

    def first_rows(self, array: NDArray[Any]) -> str:
        """As many rows of a constant as there are tokens."""
        return self.node("Slice", self.constant(array), self.ints(0), self._length, self.ints(0))

    def mask(self) -> str:
        """What is added to the attention to each token, of the shape (batch, 1, 1, tokens)."""
        read = self.node("Cast", "attention_mask", to=FLOAT)
        unread = self.node("Sub", self.number(1), self.node("Unsqueeze", read, self.ints(1, 2)))
        return self.node("Mul", unread, self.number(MASKED))

    def product(self, state: str, matrix: NDArray[Any], bias: NDArray[Any] | None = None) -> str:
        """A product with a matrix of the shape (inputs, outputs), and perhaps a sum."""
        product = self.node("MatMul", state, self.constant(matrix))
        return product if bias is None else self.node("Add", product, self.constant(bias))

    def normalization(self, state: str, weights: Sequence[NDArray[Any]], epsilon: float) -> str:
        """Layer normalization, with a weight and perhaps a bias."""
        names = [self.constant(weight) for weight in weights]
        return self.node("LayerNormalization", state, *names, axis=-1, epsilon=epsilon)

    def heads(self, state: str, count: int, size: int, axes: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        """A state split into heads, whose axes (batch, tokens, heads, size) are reordered."""
        split = self.node("Reshape", state, self.ints(0, 0, count, size))
        return self.node("Transpose", split, perm=axes)

    def attention(self, query: str, key: str, value: str, mask: str, width: int) -> str:
        """What the heads read, side by side."""
        weights = self.node("Add", self.node("MatMul", query, key), mask)
        mixed = self.node("MatMul", self.node("Softmax", weights, axis=-1), value)
        mixed = self.node("Transpose", mixed, perm=(0, 2, 1, 3))
        return self.node("Reshape", mixed, self.ints(0, 0, width))

    def gelu(self, state: str) -> str:
        """In the operators that both runtimes recognise as one."""
        erf = self.node("Erf", self.node("Div", state, self.number(math.sqrt(2))))
        doubled = self.node("Mul", state, self.node("Add", erf, self.number(1)))
        return self.node("Mul", doubled, self.number(0.5))

    def model(self, output: str, shape: Sequence[int | str]) -> bytes:
        """The model whose output is that value, float32 of the shape."""
        values = [_field(_GRAPH_INPUT, _value(each)) for each in self._inputs]
        values.append(_field(_GRAPH_OUTPUT, _value(GraphTensor(output, "float32", shape))))
        graph = [*self._nodes, _field(_GRAPH_NAME, b"graph"), *self._tensors, *values]
        opset = _field(_OPSET_DOMAIN, b"") + _field(_OPSET_VERSION, _OPSET)
        model = [
            _field(_MODEL_IR_VERSION, _IR_VERSION),
            _start(_MODEL_GRAPH, sum(map(len, graph))),
            *graph,
            _field(_MODEL_OPSET, opset),
        ]
        return b"".join(model)

    def _new_name(self) -> str:
        self._count += 1
        return f"v{self._count}"


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        number = _bytes_of(_ATTRIBUTE_FLOAT << 3 | _FIXED32) + struct.pack("<f", value)
        kind = _FLOAT_ATTRIBUTE
    elif isinstance(value, int):
        number, kind = _field(_ATTRIBUTE_INT, value), _INT_ATTRIBUTE
    else:
        number = b"".join(_field(_ATTRIBUTE_INTS, item) for item in value)
        kind = _INTS_ATTRIBUTE
    return _field(_ATTRIBUTE_NAME, name.encode()) + number + _field(_ATTRIBUTE_TYPE, kind)


def _value(value: GraphTensor) -> bytes:
    """Name and type of an input or output."""
    name, kind, shape = value
    sizes = [
        _field(_SIZE_NUMBER, size) if isinstance(size, int) else _field(_SIZE_NAME, size.encode())
        for size in shape
    ]
    in_shape = b"".join(_field(_SHAPE_SIZE, size) for size in sizes)
    tensor = _field(_ELEMENT, _NUMBERS[kind]) + _field(_SHAPE, in_shape)
    return _field(_VALUE_NAME, name.encode()) + _field(_VALUE_TYPE, _field(_TYPE_TENSOR, tensor))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _bytes_of(number << 3 | _VARINT) + _bytes_of(value & (1 << 64) - 1)
    return _start(number, len(value)) + value


def _start(number: int, size: int) -> bytes:
    """What stands before a field of that many bytes."""
    return _bytes_of(number << 3 | _BYTES) + _bytes_of(size)


def _bytes_of(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
