"""Copies of input that cannot be read from the middle."""

import gzip

import pytest

from secondpass.formats.errors import FormatError
from secondpass_ray.blocks import read_rows
from secondpass_ray.staging import is_copy, packed_lines, staged
from secondpass_ray.storage import files_in


def test_blocks_are_files(tmp_path):
    lines = [*enumerate([b'{"a": 0}\n', b"\n", b'{"a": 1}\n', b'{"a": 2}'], 1)]
    blocks = [*staged(str(tmp_path), "in.jsonl.gz", lines, 10, 2)]
    assert [(one.first, one.rows, one.line) for one in blocks] == [(10, 2, 1), (12, 1, 4)]
    assert {one.source for one in blocks} == {"in.jsonl.gz"}
    rows = [row for one in blocks for row in read_rows(one, one.first)]
    assert [(row.number, row.line, row.content.strip()) for row in rows] == [
        (10, 1, b'{"a": 0}'),
        (11, 3, b'{"a": 1}'),
        (12, 4, b'{"a": 2}'),
    ]
    assert all(map(is_copy, files_in(str(tmp_path))))
    assert not is_copy("input.jsonl")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "ends too early"),
        (gzip.compress(b"{}\n" * 99)[:-9], "ends too early"),
        (b"{}", "is not a gzip file"),
        (gzip.compress(b"query\n"), ":1: must be a JSON object"),
    ],
    ids=["empty", "cut", "plain", "text"],
)
def test_wrong_gzip_files(tmp_path, content, problem):
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=problem):
        [*packed_lines(str(path))]
