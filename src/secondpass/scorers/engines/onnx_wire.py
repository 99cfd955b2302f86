"""Reads the tensors of an ONNX file and writes small ONNX models, without the package ``onnx``.

ONNX files are protocol buffers: a message is a sequence of fields, each with a number and a value.
The numbers here are those of ``onnx.proto3``. Only what :mod:`secondpass.scorers.minilm_graph`
needs is supported.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TYPES = {1: "float32", 3: "int8", 7: "int64", 9: "bool"}
"""ONNX's numbers of element types."""
_NUMBERS = {name: number for number, name in _TYPES.items()}
_IR_VERSION, _OPSET = 8, 17
_FLOAT, _INT, _INTS = 1, 2, 7
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

    def model(self, output: str, size: int) -> bytes:
        """The model whose output is that value, float32 of the shape (batch, tokens, size)."""
        graph = b"".join(self._nodes) + _field(2, b"graph") + b"".join(self._tensors)
        graph += b"".join(
            _field(11, _value(name, "int64", ("batch", "tokens"))) for name in self.inputs
        )
        graph += _field(12, _value(output, "float32", ("batch", "tokens", size)))
        opset = _field(1, b"") + _field(2, _OPSET)
        return _field(1, _IR_VERSION) + _field(7, graph) + _field(8, opset)

    def _new_name(self) -> str:
        self._count += 1
        return f"v{self._count}"


def _attribute(name: str, value: Attribute) -> bytes:
    content = _field(1, name.encode())
    if isinstance(value, float):
        return content + _bytes_of(2 << 3 | 5) + struct.pack("<f", value) + _field(20, _FLOAT)
    if isinstance(value, int):
        return content + _field(3, value) + _field(20, _INT)
    return content + b"".join(_field(8, item) for item in value) + _field(20, _INTS)


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
