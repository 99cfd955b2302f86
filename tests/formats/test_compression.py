"""Files that are compressed by their name."""

import pytest

from secondpass.formats.errors import FormatError
from secondpass.formats.files import compressed, find_file, open_input, uncompressed_name
from secondpass.formats.lines import write_lines

LINES = [b"one\n", b"two\n"]


def written(path, data):
    path.write_bytes(data)
    return path


def read(path):
    with open_input(path) as file:
        return [*file]


def test_equal_lines_make_equal_files_and_are_read_back(tmp_path):
    for name in ("a.gz", "b.gz", "a"):
        write_lines(tmp_path / name, ["one\n", "two\n"])
        assert read(tmp_path / name) == LINES
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert (tmp_path / "a").read_bytes() == b"".join(LINES)


def test_parts_of_a_compressed_file_are_read(tmp_path):
    parts = b"".join(map(compressed, LINES))
    assert read(written(tmp_path / "a.gz", parts)) == LINES


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
