"""Files that are compressed by their name."""

import gzip
import io

import pytest

from secondpass.formats.errors import FormatError
from secondpass.formats.files import (
    compress_into,
    compressed,
    find_file,
    open_input,
    uncompressed_name,
)

LINES = [b"one\n", b"two\n"]


def written(path, data):
    path.write_bytes(data)
    return path


def read(path):
    with open_input(path) as file:
        return [*file]


def test_lines_are_read_back(tmp_path):
    whole = io.BytesIO()
    compress_into(whole, LINES)
    parts = b"".join(map(compressed, LINES))
    for data in (whole.getvalue(), parts):
        assert read(written(tmp_path / "a.gz", data)) == LINES
    assert read(written(tmp_path / "a", b"".join(LINES))) == LINES


def test_equal_lines_make_equal_files():
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        compress_into(file, LINES)
    assert files[0].getvalue() == files[1].getvalue()
    assert gzip.decompress(files[0].getvalue()) == b"".join(LINES)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is a gzip file that ends too early"),
        (compressed(b"one\ntwo\n")[:-6], "is a gzip file that ends too early"),
        (b"one\ntwo\n", "is not a gzip file, or damaged"),
    ],
    ids=["empty", "cut", "text"],
)
def test_damaged_files_are_named(tmp_path, data, problem):
    path = written(tmp_path / "a.gz", data)
    with pytest.raises(FormatError, match=rf"a\.gz.* {problem}"):
        read(path)
    with open_input(path) as file, pytest.raises(FormatError, match=problem):
        file.read()


def test_the_first_file_of_a_folder(tmp_path):
    assert find_file(tmp_path, ["a", "b"]) is None
    last = written(tmp_path / "b.gz", b"")
    assert find_file(tmp_path, ["a", "b"]) == last
    first = written(tmp_path / "a", b"")
    assert find_file(tmp_path, ["a", "b"]) == first
    assert uncompressed_name(last) == tmp_path / "b"
