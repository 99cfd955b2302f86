"""Parts of the output: what is done is never asked for again, what is not, always."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_blocks import blocks_of, written
from secondpass_ray import storage
from secondpass_ray.parts import Part, PartWriter, count_parts, missing, parts_in
from secondpass_ray.storage import files_in
from secondpass_ray.worker import describe_error


@given(
    sizes=st.lists(st.integers(1, 9), max_size=8),
    done=st.sets(st.integers(0, 60), max_size=40),
    piece=st.integers(1, 10),
)
def test_what_is_missing_and_what_is_done_are_all_rows(sizes, done, piece):
    blocks = blocks_of(sizes)
    parts = [Part(row, row) for row in sorted(done) if row < sum(sizes)]
    todo = [*missing(blocks, parts, piece)]
    rows = [row for one in todo for row in range(one.part.first, one.part.last + 1)]
    assert sorted([*rows, *(part.first for part in parts)]) == [*range(sum(sizes))]
    for one in todo:
        block = one.block
        assert block.first <= one.part.first <= one.part.last < block.first + block.rows
        assert (one.part.first - block.first) // piece == (one.part.last - block.first) // piece


def test_a_block_is_not_divided_more_often_than_it_can_be_read():
    (block,) = blocks_of([1_000_000])
    assert len([*missing([block], [], 1)]) == 64


def test_a_part_is_there_whole_or_not_at_all(tmp_path):
    with PartWriter(str(tmp_path), 3) as writer:
        writer.write(["{}\n"], {"ok": 1})
    assert not files_in(str(tmp_path))
    written(tmp_path, 3, 2)
    files = files_in(str(tmp_path))
    ((part,), useless) = parts_in(str(tmp_path), files)
    assert not useless
    assert (part.first, part.last, part.name) == (3, 4, "part-000000000003-000000000004.jsonl")
    assert count_parts(str(tmp_path), [part], files) == {"ok": 2}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's /dev/full")
@pytest.mark.parametrize("size", [1, 100_000], ids=["at the end", "while it is written"])
def test_a_full_disk_is_named(tmp_path, monkeypatch, size):
    """By the folder of the job, as the name of the incomplete file says nothing."""
    real = open
    monkeypatch.setattr(
        storage, "open", lambda name, mode: real("/dev/full" if "x" in mode else name, "wb"), False
    )

    def write():
        with PartWriter(str(tmp_path), 0) as writer:
            writer.write(["x" * size + "\n"], {"ok": 1})
            writer.finish()

    with pytest.raises(OSError, match="No space left") as caught:
        write()
    assert describe_error(caught.value) == f"{tmp_path}: No space left on device"
