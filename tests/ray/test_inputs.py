"""The input of a job: its files and blocks, and the hash by which a change is noticed."""

import gzip
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.errors import InputError
from secondpass.formats.errors import FormatError
from secondpass.types import no_progress
from secondpass_ray import inputs
from secondpass_ray.blocks import LINES, PARQUET, read_rows, record_text
from secondpass_ray.inputs import PACKED_LINES, JobInput
from secondpass_ray.running import JobFolder

BLANK = st.sampled_from([b"\n", b"  \r\n", "\u00a0\n".encode(), b"\t\n"])
OBJECT = st.builds(
    lambda number, end: json.dumps({"query": number}).encode() + end,
    st.integers(),
    st.sampled_from([b"\n", b"\r\n"]),
)


def prepared(path, folder, size=10):
    """The blocks of an input, of at most this number of rows."""
    return JobInput(str(path)).prepare(str(folder), size, no_progress)[0]


def rows_of(blocks):
    return [row for block in blocks for row in read_rows(block, block.first)]


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
    blocks, digest = JobInput(str(path)).prepare(str(folder), size, no_progress)
    expected = [
        (number, text.encode().strip())
        for number, text in enumerate(content.decode("utf-8-sig").split("\n"), 1)
        if text.strip()
    ]
    rows = rows_of(blocks)
    found = [(row.line, row.content.strip().removeprefix(b"\xef\xbb\xbf")) for row in rows]
    assert found == expected
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
    blocks = prepared(path, tmp_path)
    path.write_bytes(change)
    with pytest.raises(FormatError, match="has changed since the job was started"):
        rows_of(blocks)


def test_copies_that_are_gone_are_noticed(tmp_path):
    path, folder = tmp_path / "in.jsonl.gz", tmp_path / "out"
    path.write_bytes(gzip.compress(b'{"query": "x"}\n' * 3))
    with JobFolder(str(folder)) as job:
        blocks = prepared(path, folder, 2)
        assert not job.lacks_copies(blocks)
        next(folder.glob("input-*")).unlink()
        assert job.lacks_copies(blocks)


# ---------------------------------------------------------------------- rows as text


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
        rows = rows_of(prepared(path, tmp_path))
        assert b'"candidates": ["a"]' in rows[0].content
        assert str(rows[1].content).startswith(f"{name}.parquet:2: Python cannot hold its values (")


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.jsonl", LINES), ("a.NDJSON", LINES), ("a.json.gz", PACKED_LINES), ("a.parquet", PARQUET)],
)
def test_formats_by_name(tmp_path, name, form):
    (tmp_path / name).touch()
    path = str(tmp_path / name)
    assert JobInput(path).files() == [(path, form)]


def test_long_lines_end_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 8)
    (tmp_path / "in.jsonl").write_bytes(b'{"a": 1}\n' * 3)
    assert [block.rows for block in prepared(tmp_path / "in.jsonl", tmp_path)] == [1, 1, 1]


def test_a_column_that_is_there_twice(tmp_path):
    """Of which one would be taken."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "in.parquet"
    names = ["query", "candidates", "query"]
    pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * 3, names=names), path)
    with pytest.raises(FormatError, match="has the column 'query' twice"):
        prepared(path, tmp_path)


def test_files_of_a_folder_are_one_input(tmp_path):
    for name, rows in {"b.jsonl": 2, "a/c.jsonl.gz": 3, "_d.jsonl": 1, ".e/f.jsonl": 1}.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = b'{"query": "x"}\n' * rows
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    (tmp_path / "in" / "notes.txt").write_text("not this one")
    (tmp_path / "out").mkdir()
    blocks = prepared(tmp_path / "in", tmp_path / "out", 2)
    assert [(block.first, block.rows) for block in blocks] == [(0, 2), (2, 1), (3, 2)]
    assert [row.number for row in rows_of(blocks)] == [*range(5)]
    # Messages about rows are part of the output, which says nothing of this machine.
    assert [block.source for block in blocks] == ["a/c.jsonl.gz"] * 2 + ["b.jsonl"]
    (block,) = prepared(tmp_path / "in" / "b.jsonl", tmp_path)
    assert (block.source, block.file) == ("b.jsonl", str(tmp_path / "in" / "b.jsonl"))


def test_an_input_that_changes_or_moves_is_another(tmp_path):
    """Blocks are read by name and place: of a file that took the name, they would be other rows."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"query": "x"}\n')
    source = JobInput(str(path))
    before, stamps = source.hash(), source.stamps()
    assert (source.hash(), source.stamps()) == (before, stamps)
    with path.open("ab") as file:
        file.write(b'{"query": "y"}\n')
    assert source.stamps() != stamps
    path.write_bytes(b'{"query": "x"}\n')
    assert source.hash() == before
    path.rename(tmp_path / "other.jsonl")
    assert JobInput(str(tmp_path / "other.jsonl")).hash() != before


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("in.csv", b"", "its format is not known; the name must end in .jsonl"),
        ("in.jsonl", b'{"a": 1}\n[]\n', ":2: must be a JSON object, which begins with {"),
        ("in.jsonl", b"PAR1\x00\xff", ":1: must be a JSON object"),
        ("in.jsonl.gz", b"", "ends too early"),
        ("in.jsonl.gz", gzip.compress(b"{}\n" * 99)[:-9], "ends too early"),
        ("in.jsonl.gz", b"{}", "is not a gzip file"),
        ("in.jsonl.gz", gzip.compress(b"query\n"), ":1: must be a JSON object"),
    ],
    ids=["suffix", "list", "binary", "packed-empty", "packed-cut", "not-packed", "packed-text"],
)
def test_wrong_inputs(tmp_path, name, content, problem):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((FormatError, InputError)) as caught:
        prepared(tmp_path / name, tmp_path)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert problem in str(caught.value)


def test_checks_without_reading(tmp_path):
    path = tmp_path / "in.jsonl"
    with pytest.raises(InputError, match="there is no such file"):
        JobInput(str(path)).check()
    path.write_text("this is not read")
    JobInput(str(path)).check()
    run = JobInput(run=path, queries=path, corpus=tmp_path / "absent")
    with pytest.raises(InputError, match="absent: there is no such file"):
        run.check()
    assert run.stamps() == {}  # it is copied before anything is ranked
    assert run.names() == [str(path), str(path), str(tmp_path / "absent")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("argument", ["name", "run"])
def test_a_pipe_as_input_is_an_error(tmp_path, argument):
    pipe = tmp_path / "requests.jsonl"
    os.mkfifo(pipe)
    source = JobInput(str(pipe)) if argument == "name" else JobInput(run=pipe)
    with pytest.raises(InputError, match=r"must be a regular file: .* a pipe cannot"):
        source.check()
