"""Blocks of an input have its rows, each once, wherever they are cut."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_blocks import nothing, rows_of
from secondpass.formats.errors import FormatError
from secondpass_ray.blocks import read_rows, record_text
from secondpass_ray.inputs import JobInput
from secondpass_ray.running import JobFolder
from secondpass_ray.scanning import LINES, InputFile, scan

BLANK = st.sampled_from([b"\n", b"  \r\n", "\u00a0\n".encode(), b"\t\n"])
OBJECT = st.builds(
    lambda number, end: json.dumps({"query": number}).encode() + end,
    st.integers(),
    st.sampled_from([b"\n", b"\r\n"]),
)


def same_lines(rows):
    return [(row.line, row.content.strip().removeprefix(b"\xef\xbb\xbf")) for row in rows]


@given(
    lines=st.lists(st.one_of(BLANK, OBJECT), max_size=30),
    size=st.integers(1, 8),
    mark=st.booleans(),
    ended=st.booleans(),
    packed=st.booleans(),
)
def test_rows_are_the_lines_that_are_not_blank(tmp_path_factory, lines, size, mark, ended, packed):
    content = b"".join(lines)
    content = content if ended else content.rstrip(b"\n")
    content = b"\xef\xbb\xbf" * mark + content
    folder = tmp_path_factory.mktemp("job")
    path = folder / ("in.jsonl.gz" if packed else "in.jsonl")
    path.write_bytes(gzip.compress(content) if packed else content)
    blocks, digest = JobInput(str(path)).prepare(str(folder), size, nothing)
    expected = [
        (number, text.encode().strip())
        for number, text in enumerate(content.decode("utf-8-sig").split("\n"), 1)
        if text.strip()
    ]
    rows = rows_of(blocks)
    assert same_lines(rows) == expected
    assert [row.number for row in rows] == [*range(len(expected))]
    assert all(0 < block.rows <= size for block in blocks)
    assert digest == JobInput(str(path)).hash()
    for block in blocks:
        for first in range(block.first, block.first + block.rows + 1):
            assert [row.number for row in read_rows(block, first)] == [
                *range(first, block.first + block.rows)
            ]


@pytest.mark.parametrize("change", [b"", b'{"query": "x"}\n' * 2], ids=["shorter", "longer"])
def test_a_file_that_changes_is_noticed(tmp_path, change):
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"query": "a longer line"}\n')
    blocks, _ = scan(InputFile(str(path), LINES), "in", 10, 0, nothing)
    path.write_bytes(change)
    with pytest.raises(FormatError, match="has changed since the job was started"):
        rows_of(blocks)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"request": '{"a" :1}', "other": 1}, b'{"a" :1}'),
        (
            {"query": "é", "top_k": None, "candidates": [{"text": "a", "score": None}]},
            b'{"query": "\\u00e9", "candidates": [{"text": "a"}]}',
        ),
    ],
    ids=["text", "nulls-are-absent"],
)
def test_records_as_text(record, text):
    assert record_text(record, "file", 1) == text


@pytest.mark.parametrize(
    "value", [b"bytes", float("nan"), object()], ids=["bytes", "nan", "object"]
)
def test_records_that_json_cannot_hold(value):
    error = record_text({"query": value}, "file", 3)
    assert str(error).startswith("file:3: JSON cannot hold its values")


def test_copies_that_are_gone_are_noticed(tmp_path):
    path, folder = tmp_path / "in.jsonl.gz", tmp_path / "out"
    path.write_bytes(gzip.compress(b'{"query": "x"}\n' * 3))
    with JobFolder(str(folder)) as job:
        blocks, _ = JobInput(str(path)).prepare(str(folder), 2, nothing)
        assert not job.lacks_copies(blocks)
        next(folder.glob("input-*")).unlink()
        assert job.lacks_copies(blocks)


def test_a_row_that_python_cannot_hold_does_not_fail_others(tmp_path):
    """A map with a key twice, a time far away, and bytes that are not UTF-8."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    wrong = {
        "map": pa.array([[("a", 1)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
        "time": pa.array([1, 2**62], pa.timestamp("us")),
        "text": pa.array([b"ab", b"\xff\xfe"]).view(pa.string()),
    }
    for name, column in wrong.items():
        path = tmp_path / f"{name}.parquet"
        columns = {"query": pa.array(["q", "q"]), "candidates": pa.array([["a"], ["b"]])}
        pq.write_table(pa.table({**columns, "extra": column}), path)
        rows = rows_of(JobInput(str(path)).prepare(str(tmp_path), 10, nothing)[0])
        assert b'"candidates": ["a"]' in rows[0].content
        assert str(rows[1].content).startswith(f"{name}.parquet:2: Python cannot hold its values (")
