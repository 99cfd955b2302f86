"""The folder of a job and its parts: what is done is never asked for again, what is not, always."""

import itertools
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.errors import InputError
from secondpass_ray import storage
from secondpass_ray.blocks import Block
from secondpass_ray.coordination import SPENT
from secondpass_ray.parts import Part, PartWriter, missing
from secondpass_ray.running import STATE, JobFolder
from secondpass_ray.storage import files_in
from secondpass_ray.worker import describe_error

MADE_OF = {"input": "a", "configuration": "b"}


def blocks_of(sizes):
    """Consecutive blocks of these numbers of rows."""
    firsts = itertools.accumulate(sizes, initial=0)
    return [
        Block("f", "f", "lines", 0, 0, 1, first, size)
        for first, size in zip(firsts, sizes, strict=False)
    ]


def written(folder, first, rows):
    """Write a part."""
    with PartWriter(str(folder), first) as writer:
        writer.write([f'{{"row": {first + index}}}\n' for index in range(rows)], {"ok": rows})
        writer.finish()


# ---------------------------------------------------------------------- rows and parts


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
    ((part,), counts) = JobFolder(str(tmp_path)).done()
    assert (part.first, part.last, part.name) == (3, 4, "part-000000000003-000000000004.jsonl")
    assert counts == {"ok": 2}


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


def test_of_two_parts_with_the_same_rows_the_larger_one_stays(tmp_path):
    """As where a worker of a driver that was killed ends what the next driver has begun again."""
    for first, rows in [(0, 4), (0, 2), (4, 2), (2, 2)]:
        written(tmp_path, first, rows)
    folder = JobFolder(str(tmp_path))
    parts, counts = folder.done()
    assert ([(part.first, part.last) for part in parts], counts) == ([(0, 3), (4, 5)], {"ok": 6})
    written(tmp_path, 5, 1)
    folder.finish(6)
    assert len(files_in(str(tmp_path))) == 4
    assert folder.done() == (parts, counts)
    for rows in (5, 7):
        with pytest.raises(InputError, match=f"its parts have 6 rows, and the input has {rows}"):
            folder.finish(rows)


def test_counts_stay_with_their_part(tmp_path):
    """Two workers write the same rows, of which the counts of one come between."""
    with PartWriter(str(tmp_path), 0) as writer, PartWriter(str(tmp_path), 0) as other:
        writer.write(["{}\n"], {"ok": 1})
        other.write(['{"longer": 1}\n'], {"partial": 1})
        writer.finish()
        kept = (tmp_path / "part-000000000000-000000000000.jsonl").read_bytes()
        other.finish()
        (tmp_path / "part-000000000000-000000000000.jsonl").write_bytes(kept)
    _, counts = JobFolder(str(tmp_path)).done()
    assert counts == {"ok": 1}
    assert len(files_in(str(tmp_path))) == 2


# ---------------------------------------------------------------------- folders

PART = "part-000000000000-000000000001"
REFUSED = {
    # change of the folder, problem
    "changed part": (
        lambda folder: (folder / f"{PART}.jsonl").write_text("{}\n"),
        f"{PART}.jsonl was changed since it was written",
    ),
    "without counts": (
        lambda folder: next(folder.glob(f"{PART}.*.json")).unlink(),
        "was changed since it was written; delete it to rank its rows again",
    ),
    "overlapping": (
        lambda folder: written(folder, 1, 2),
        "which have rows in common; delete one of them",
    ),
    "broken state": (
        lambda folder: (folder / STATE).write_text("{"),
        "is not a valid state of a job; use --force",
    ),
    "other version": (
        lambda folder: (folder / STATE).write_text(
            json.dumps({**json.loads((folder / STATE).read_text()), "format": 99})
        ),
        "is not a valid state of a job; use --force",
    ),
    "broken amounts": (
        lambda folder: (folder / SPENT).write_text('{"tokens": 1}'),
        "spent.json was changed since it was written",
    ),
    "no state": (
        lambda folder: (folder / STATE).unlink(),
        "is not the folder of a job: it has no job.json",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_folders(tmp_path, case):
    change, problem = REFUSED[case]
    with JobFolder(str(tmp_path)) as folder:
        assert folder.state(resume=False, force=False) is None
        folder.begin(MADE_OF, blocks_of([2, 2]), 2)
    written(tmp_path, 0, 2)
    change(tmp_path)
    with JobFolder(str(tmp_path)) as folder:
        with pytest.raises(InputError) as caught:  # noqa: PT012 - any of them
            folder.state(resume=True, force=False)
            folder.done()
            folder.spent()
        assert problem in str(caught.value)
        assert folder.state(resume=False, force=True) is None
    assert not files_in(str(tmp_path))


@pytest.mark.parametrize("name", MADE_OF)
def test_another_job_is_not_continued(tmp_path, name):
    with JobFolder(str(tmp_path)) as folder:
        folder.begin(MADE_OF, blocks_of([2]), 2)
        state = folder.state(resume=True, force=False)
        folder.check(state, MADE_OF)
        with pytest.raises(InputError, match=f"was begun with another {name}; use --force"):
            folder.check(state, {**MADE_OF, name: "other"})
        with pytest.raises(InputError, match="use --resume to continue it, or --force"):
            folder.state(resume=False, force=False)


def test_two_jobs_at_a_time_and_files(tmp_path):
    with (
        JobFolder(str(tmp_path / "job")),
        pytest.raises(InputError, match="another process is writing"),
    ):
        JobFolder(str(tmp_path / "job")).__enter__()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; name a folder"):
        JobFolder(str(tmp_path / "file")).__enter__()


@pytest.mark.parametrize(
    "name",
    "mine.txt input-2024.jsonl input-a/b.jsonl part-00000.parquet part-a/b part-0-9.jsonl".split(),
)
def test_files_named_like_those_of_a_job_stay(tmp_path, name):
    """Such as the input itself, or what another program has written."""
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("x")
    with JobFolder(str(tmp_path)) as folder:
        for force in (False, True):
            with pytest.raises(InputError, match="is not the folder of a job"):
                folder.state(resume=False, force=force)
        folder.begin(MADE_OF, blocks_of([2]), 2)
        folder.finish(0)
    assert file.read_text() == "x"


def test_the_lock_is_gone_before_it_is_free(tmp_path):
    """Or another process, which has just locked it, loses its own."""
    folder = JobFolder(str(tmp_path)).__enter__()
    seen = []
    folder._stack.callback(lambda: seen.append(files_in(str(tmp_path))))
    folder.__exit__()
    assert seen == [{}]


def test_what_is_not_whole_at_a_uri_is_deleted(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    uri = tmp_path.as_uri()
    with monkeypatch.context() as patch:
        system = storage._resolved(f"{uri}/x")[0]
        kept = type("Kept", (), {"__getattr__": lambda _, name: getattr(system, name)})()
        kept.move = lambda *_: None
        patch.setattr(storage, "_resolved", lambda name: (kept, name.removeprefix("file://")))
        storage.write_whole(uri, STATE, b"{}")
    assert len(files_in(str(tmp_path))) == 1
    with JobFolder(uri) as folder:
        assert folder.state(resume=False, force=False) is None
    assert not files_in(str(tmp_path))
