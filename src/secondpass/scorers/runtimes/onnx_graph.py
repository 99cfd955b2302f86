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
Attribute: TypeAlias = float | int | Sequence[int]


class Value(NamedTuple):
    """An input or output of a model; a string in the shape is the name of a size that varies."""

    name: str
    type: str
    shape: Sequence[int | str]


INPUT_IDS = Value("input_ids", "int64", ("batch", "tokens"))
ATTENTION_MASK = Value("attention_mask", "int64", ("batch", "tokens"))

MASKED = -10_000.0
"""Added to the attention to tokens that are not read, whose weight is then 0."""

# ---------------------------------------------------------------------- reading


def read_tensors(data: bytes) -> dict[str, NDArray[Any]]:
    """The initializers by name, as views of the data: an ONNX model that is known to be whole."""
    [graph] = _fields(memoryview(data))[7]
    return dict(_tensor(_fields(tensor)) for tensor in _fields(graph)[5])


def _tensor(fields: Mapping[int, list[Any]]) -> tuple[str, NDArray[Any]]:
    import numpy as np

    [kind], [name], [raw] = fields[2], fields[8], fields[9]
    return str(name, "utf-8"), np.frombuffer(raw, _TYPES[kind]).reshape(fields.get(1, []))


def _fields(message: memoryview) -> dict[int, list[Any]]:
    """The values of a protocol buffer by the number of their field: integers, and views."""
    fields: dict[int, list[Any]] = {}
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        kind = key & 7
        value: Any
        if kind == 0:
            value, position = _varint(message, position)
        else:
            size, position = _varint(message, position) if kind == 2 else (_SIZES[kind], position)
            value = message[position : position + size]
            position += size
        fields.setdefault(key >> 3, []).append(value)
    return fields


_SIZES = {1: 8, 5: 4}
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

    def __init__(self, inputs: Sequence[Value] = (INPUT_IDS,)) -> None:
        self._inputs = (*inputs, ATTENTION_MASK)
        self._nodes: list[bytes] = []
        self._tensors: list[bytes | memoryview] = []
        """Parts of the initializers. Joined once, since they have nearly all bytes of the model."""
        self._count = 0

    def constant(self, array: NDArray[Any]) -> str:
        """Store an array."""
        import numpy as np

        name = self._new_name()
        dims = b"".join(_field(1, size) for size in array.shape)
        kind = _field(2, _NUMBERS[array.dtype.name])
        description = dims + kind + _field(8, name.encode()) + _start(9, array.nbytes)
        self._tensors += [
            _start(5, len(description) + array.nbytes),
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
        parts = [_field(1, input_name.encode()) for input_name in inputs]
        parts += [_field(2, name.encode()), _field(4, operator.encode())]
        parts += [_field(5, _attribute(key, value)) for key, value in attributes.items()]
        self._nodes.append(_field(1, b"".join(parts)))
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
        values = [_field(11, _value(each)) for each in self._inputs]
        values.append(_field(12, _value(Value(output, "float32", shape))))
        graph = [*self._nodes, _field(2, b"graph"), *self._tensors, *values]
        opset = _field(1, b"") + _field(2, _OPSET)
        size = sum(len(part) for part in graph)
        return b"".join([_field(1, _IR_VERSION), _start(7, size), *graph, _field(8, opset)])

    def _new_name(self) -> str:
        self._count += 1
        return f"v{self._count}"


def _attribute(name: str, value: Attribute) -> bytes:
    content = _field(1, name.encode())
    if isinstance(value, float):
        number = _bytes_of(2 << 3 | 5) + struct.pack("<f", value)
        return content + number + _field(20, _FLOAT_ATTRIBUTE)
    if isinstance(value, int):
        return content + _field(3, value) + _field(20, _INT_ATTRIBUTE)
    return content + b"".join(_field(8, item) for item in value) + _field(20, _INTS_ATTRIBUTE)


def _value(value: Value) -> bytes:
    """Name and type of an input or output."""
    name, kind, shape = value
    sizes = b"".join(
        _field(1, _field(1, size) if isinstance(size, int) else _field(2, size.encode()))
        for size in shape
    )
    tensor = _field(1, _NUMBERS[kind]) + _field(2, sizes)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _bytes_of(number << 3) + _bytes_of(value & (1 << 64) - 1)
    return _start(number, len(value)) + value


def _start(number: int, size: int) -> bytes:
    """What stands before a field of that many bytes."""
    return _bytes_of(number << 3 | 2) + _bytes_of(size)


def _bytes_of(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
