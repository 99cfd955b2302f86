"""The input of a job: its blocks, and the hash by which a change is noticed."""

import gzip
import os

import pytest

from job_blocks import nothing, rows_of
from secondpass.errors import InputError
from secondpass.formats.errors import FormatError
from secondpass_ray.inputs import JobInput


def test_files_of_a_folder_are_one_input(tmp_path):
    for name, rows in {"b.jsonl": 2, "a/c.jsonl.gz": 3, "_d.jsonl": 1, ".e/f.jsonl": 1}.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = b'{"query": "x"}\n' * rows
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    (tmp_path / "in" / "notes.txt").write_text("not this one")
    (tmp_path / "out").mkdir()
    source = JobInput(str(tmp_path / "in"))
    blocks, _ = source.prepare(str(tmp_path / "out"), 2, nothing)
    assert [(block.first, block.rows) for block in blocks] == [(0, 2), (2, 1), (3, 2)]
    assert [row.number for row in rows_of(blocks)] == [*range(5)]
    # Messages about rows are part of the output, which says nothing of this machine.
    assert [block.source for block in blocks] == ["a/c.jsonl.gz"] * 2 + ["b.jsonl"]
    (block,), _ = JobInput(str(tmp_path / "in" / "b.jsonl")).prepare(str(tmp_path), 2, nothing)
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
    ],
    ids=["suffix", "list", "binary"],
)
def test_wrong_inputs(tmp_path, name, content, problem):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((FormatError, InputError)) as caught:
        JobInput(str(tmp_path / name)).prepare(str(tmp_path), 10, nothing)
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
