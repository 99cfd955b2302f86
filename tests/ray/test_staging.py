"""Copies of input that cannot be read from the middle."""

import gzip

import pytest

from secondpass.formats.errors import FormatError
from secondpass_ray.staging import packed_lines


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
