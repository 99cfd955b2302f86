"""Passages in 2 bits a number: what a store keeps of each, and its comparison with a query.

A token vector ``x`` of length 1 becomes 384 codes and a scale::

    code = clip(⌊x / (0.9957 rms)⌋ + 2, 0, 3)        scale = 1 / sum_d x_d (code_d - 1.5)

A number is read as ``scale (code - 1.5)``. 0.9957 is the step of the best uniform quantizer with
four levels for normally distributed numbers (Max, "Quantizing for minimum distortion", 1960). With
this scale, the product of a vector and its packed form is 1, as that of the vector with itself.
Nothing is fitted to a collection. The mean of a passage has 8 bits a number.

Sums are exact: codes, and the numbers of a query in 12 bits, are integers, and their products add
up to less than 2^24, which float32 represents. So equal records have equal scores in every process
and list, with every BLAS.

A record is little-endian::

    flags u16, tokens u16, ids u16, sentences u16, scale of the mean f32,
    mean i8[384], scales f16[tokens], codes u8[tokens, 96], ids u32[ids],
    first tokens of sentences u16[sentences], their starts and stops u32[sentences, 2]

Bits 0 and 1 of a byte of codes are number ``d``, the next are ``d + 96``, ``d + 192`` and
``d + 288``. The ids of the passage's tokens are sorted, without repetitions, and enciphered by a
digest of the passage: who has the record without the passage cannot read its words from them.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from secondpass.scorers.embedding.encoder import DIMENSIONS
from secondpass.scorers.embedding.similarity import PassageMatch, Text, products_in_blocks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 2
"""Of records. It is part of the keys of stored records, so a record is always of this version."""

_HEADER = struct.Struct("<HHHHf")
_TRUNCATED = 1

_STEP = 0.9957
_NUMBERS_PER_BYTE = 4
_BYTES = DIMENSIONS // _NUMBERS_PER_BYTE
_QUERY_LEVELS = 2047
_MEAN_LEVELS = 32767
_BLOCK = 100
"""Passages that are compared at a time, which bounds the memory."""


class Record(NamedTuple):
    """A packed passage; see the module.

    Attributes:
        mean: int8, shape (384,); times ``mean_scale`` it has length 1, or is zeros.
        scales: float16, shape (tokens,).
        codes: bytes, 96 for each token.
        ids: uint32, the tokens' numbers in the vocabulary, enciphered.
        first: uint16, the first token of each sentence, at least one.
        sentences: uint32, shape (sentences, 2): where each starts and stops, in characters of the
            shortened text; shape (0, 2) for a passage without a readable token.
        truncated: whether the model did not read the passage whole.
    """

    mean: NDArray[np.int8]
    mean_scale: float
    scales: NDArray[np.float16]
    codes: bytes
    ids: NDArray[np.uint32]
    first: NDArray[np.uint16]
    sentences: NDArray[np.uint32]
    truncated: bool


# ---------------------------------------------------------------------- records


def pack(text: Text, passage: str) -> bytes:
    """The record of an encoded passage."""
    import numpy as np

    tokens = text.tokens.astype(np.float64)
    rms = 1 / np.sqrt(DIMENSIONS)
    codes = np.clip(np.floor(tokens / (_STEP * rms)) + 2, 0, 3)
    products = (tokens * (codes - 1.5)).sum(axis=1)
    scales = np.divide(1, products, out=np.zeros_like(products), where=products > 0)
    planes = codes.astype(np.uint8).reshape(len(codes), _NUMBERS_PER_BYTE, _BYTES)
    shifts = 2 * np.arange(_NUMBERS_PER_BYTE, dtype=np.uint8)
    packed_codes = np.bitwise_or.reduce(planes << shifts[:, None], axis=1)

    largest = float(np.abs(text.mean).max())
    mean = np.rint(text.mean * (127 / largest)) if largest else text.mean
    length = float(np.linalg.norm(mean))
    ids = np.unique(text.ids[text.ids >= 0]).astype("<u4")
    counts = _TRUNCATED if text.truncated else 0, len(codes), len(ids), len(text.sentences)
    return b"".join(
        (
            _HEADER.pack(*counts, 1 / length if length else 0.0),
            mean.astype(np.int8).tobytes(),
            scales.astype("<f2").tobytes(),
            packed_codes.tobytes(),
            (ids ^ _keystream(passage, len(ids))).tobytes(),
            np.asarray(text.first, dtype="<u2").tobytes(),
            np.asarray(text.sentences, dtype="<u4").tobytes(),
        )
    )


def largest_size(passage: str, max_tokens: int) -> int:
    """Maximum number of bytes of the record of a passage; several times that of usual ones."""
    tokens = min(len(passage) + 5, max_tokens)  # each but special ones and a prefix has a character
    return _HEADER.size + DIMENSIONS + tokens * (2 + _BYTES + 4 + 10)


def unpack(data: bytes) -> Record:
    """A record from the bytes that :func:`pack` has returned."""
    import numpy as np

    flags, tokens, ids, sentences, mean_scale = _HEADER.unpack_from(data)
    firsts = max(1, sentences)
    mean_at = _HEADER.size
    scales_at = mean_at + DIMENSIONS
    codes_at = scales_at + 2 * tokens
    ids_at = codes_at + _BYTES * tokens
    first_at = ids_at + 4 * ids
    spans_at = first_at + 2 * firsts
    return Record(
        mean=np.frombuffer(data, "<i1", DIMENSIONS, mean_at),
        mean_scale=mean_scale,
        scales=np.frombuffer(data, "<f2", tokens, scales_at),
        codes=data[codes_at:ids_at],
        ids=np.frombuffer(data, "<u4", ids, ids_at),
        first=np.frombuffer(data, "<u2", firsts, first_at),
        sentences=np.frombuffer(data, "<u4", 2 * sentences, spans_at).reshape(-1, 2),
        truncated=bool(flags & _TRUNCATED),
    )


def _keystream(passage: str, count: int) -> NDArray[np.uint32]:
    """Numbers that only the passage determines, to encipher its ids with."""
    import numpy as np

    stream = hashlib.shake_128(passage.encode("utf-8", "surrogatepass")).digest(4 * count)
    return np.frombuffer(stream, "<u4")


# ---------------------------------------------------------------------- comparison


class _PackedQuery:
    """The numbers of a query as integers, and their scales."""

    def __init__(self, query: Text) -> None:
        import numpy as np

        self.text = query
        largest = np.abs(query.tokens).max(axis=1, keepdims=True)
        factors = np.divide(_QUERY_LEVELS, largest, out=np.zeros_like(largest), where=largest > 0)
        self.tokens = np.rint(query.tokens * factors)  # float32, whole numbers
        self.sums = self.tokens.sum(axis=1)
        inverse = np.divide(1, factors, out=np.zeros_like(factors), where=factors > 0)
        self.scales = inverse[:, 0] / 2  # codes count in halves
        mean = query.mean.astype(np.float64)
        top = np.abs(mean).max()
        self.mean_scale = top / _MEAN_LEVELS
        self.mean = np.rint(mean * (_MEAN_LEVELS / top)) if top else mean


def matches(query: Text, records: Sequence[Record], passages: Sequence[str]) -> list[PassageMatch]:
    """Compare a query with packed passages by the rule of :func:`.similarity.match`.

    Spans are of the texts of which the records were made, as the ids' cipher is.
    """
    packed = _PackedQuery(query)
    found: list[PassageMatch] = []
    for start in range(0, len(records), _BLOCK):
        stop = start + _BLOCK
        found += _block_matches(packed, records[start:stop], passages[start:stop])
    return found


def _block_matches(
    query: _PackedQuery, records: Sequence[Record], passages: Sequence[str]
) -> list[PassageMatch]:
    import numpy as np

    text = query.text
    lengths = np.array([len(record.scales) for record in records])
    begins = np.cumsum(lengths) - lengths
    # By sentence, as some passages have none that is known: the largest cosine of each query token.
    counts = np.array([len(record.first) for record in records])
    firsts = np.concatenate([record.first for record in records]) + np.repeat(begins, counts)
    by_sentence = np.maximum.reduceat(_products(query, records), firsts, axis=0)
    sentence_begins = np.cumsum(counts) - counts
    best = np.maximum.reduceat(by_sentence, sentence_begins, axis=0)
    of_sentences = np.einsum("ij,j->i", by_sentence, text.weights)

    means = np.stack([record.mean for record in records])
    scales = np.array([record.mean_scale for record in records])
    exact = means.astype(np.float64) @ query.mean
    cosines_of_means = exact * scales * query.mean_scale
    unit_means = means * scales[:, None].astype(np.float32)
    present = _present(text, records, passages)
    found = []
    for index, record in enumerate(records):
        begin = sentence_begins[index]
        scores = of_sentences[begin : begin + counts[index]].tolist()
        spans = record.sentences.tolist()  # none without a readable token
        pieces = [(*span, score) for span, score in zip(spans, scores, strict=False)]
        cosine = float(cosines_of_means[index])
        found.append(
            PassageMatch(text, cosine, best[index], present[index], unit_means[index], pieces)
        )
    return found


def _products(query: _PackedQuery, records: Sequence[Record]) -> NDArray[np.float32]:
    """The cosine of each token of the passages with each of the query, shape (tokens, n)."""
    import numpy as np

    joined = b"".join([record.codes for record in records])
    codes = np.frombuffer(joined, np.uint8).reshape(-1, _BYTES)
    sums = -3 * query.sums[None, :]
    for plane in range(_NUMBERS_PER_BYTE):
        numbers = ((codes >> (2 * plane)) & 3).astype(np.float32)
        part = query.tokens[:, plane * _BYTES : (plane + 1) * _BYTES]
        sums = sums + 2 * products_in_blocks(numbers, part)
    scales = np.concatenate([record.scales for record in records]).astype(np.float32)
    products: NDArray[np.float32] = sums * scales[:, None] * query.scales[None, :]
    return products


def _present(query: Text, records: Sequence[Record], passages: Sequence[str]) -> NDArray[np.bool_]:
    """Whether each passage has each token of the query, shape (passages, n)."""
    import numpy as np

    counts = np.array([1 + len(record.ids) for record in records])
    begins = np.cumsum(counts) - counts
    ids = np.full(counts.sum(), -1, dtype=np.int64)  # one for each passage that is no id
    for begin, record, passage in zip(begins, records, passages, strict=True):
        count = len(record.ids)
        ids[begin + 1 : begin + 1 + count] = record.ids ^ _keystream(passage, count)
    present: NDArray[np.bool_] = np.logical_or.reduceat(
        ids[:, None] == query.ids[None, :], begins, axis=0
    )
    return present & (query.ids >= 0)
