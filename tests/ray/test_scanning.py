"""What files an input has, and where the blocks of a file begin."""

import pytest

from job_blocks import nothing
from secondpass.formats.errors import FormatError
from secondpass_ray import scanning
from secondpass_ray.inputs import JobInput
from secondpass_ray.scanning import LINES, PACKED_LINES, PARQUET, InputFile, input_files, scan


def test_a_column_that_is_there_twice(tmp_path):
    """Of which one would be taken."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "in.parquet"
    names = ["query", "candidates", "query"]
    pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * 3, names=names), path)
    with pytest.raises(FormatError, match="has the column 'query' twice"):
        JobInput(str(path)).prepare(str(tmp_path), 10, nothing)


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.jsonl", LINES), ("a.NDJSON", LINES), ("a.json.gz", PACKED_LINES), ("a.parquet", PARQUET)],
)
def test_formats_by_name(tmp_path, name, form):
    (tmp_path / name).touch()
    path = str(tmp_path / name)
    assert input_files(path) == [InputFile(path, form)]


def test_long_lines_end_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(scanning, "BLOCK_BYTES", 8)
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"a": 1}\n' * 3)
    blocks, _ = scan(InputFile(str(path), LINES), "in", 100, 0, nothing)
    assert [one.rows for one in blocks] == [1, 1, 1]
