"""Files are replaced in an order that survives a crash at any point."""

import errno
import os
from collections import Counter
from pathlib import Path

import pytest

from secondpass import InputError
from secondpass.cli.resuming import Resumable
from secondpass.formats import files as module
from secondpass.formats.files import atomic_write, open_locked
from secondpass_evaluation import write_queries
from secondpass_evaluation.cli.first_stages import CachedEmbedder
from secondpass_evaluation.search.indexing import build_index


@pytest.fixture
def events(monkeypatch):
    """What is flushed and what is renamed, in order: (action, file name)."""
    seen: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(number: int) -> None:
        seen.append(("flush", Path(os.readlink(f"/proc/self/fd/{number}")).name))
        fsync(number)

    def noted_replace(source, target) -> None:
        seen.append(("rename", Path(target).name))
        seen.append(("from", Path(source).name))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    return seen


def check_order(events, name: str, folder: Path) -> None:
    renamed = events.index(("rename", name))
    draft = events[renamed + 1][1]
    assert ("flush", draft) in events[:renamed]
    assert ("flush", folder.name) in events[renamed:]


def test_a_file_that_its_writer_has_removed_meanwhile_is_not_written(tmp_path, monkeypatch) -> None:
    path = tmp_path / "file"
    lock = module.lock

    def late(file) -> None:
        path.unlink()
        lock(file)

    monkeypatch.setattr(module, "lock", late)
    with pytest.raises(InputError, match="another process is writing to it"):
        open_locked(path, "a+b")


linux = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files")


@linux
def test_lines(tmp_path: Path, events) -> None:
    write_queries(tmp_path / "queries.jsonl", {"q": "text"})
    check_order(events, "queries.jsonl", tmp_path)


@linux
def test_the_state_of_an_output(tmp_path: Path, events) -> None:
    with Resumable(tmp_path / "out", {}, resume=False, force=False) as output:
        output.count_done([b"digest"])
        events.clear()
        output.write("answer\n", Counter())
    check_order(events, "out.state", tmp_path)
    assert events.index(("flush", "out")) < events.index(("rename", "out.state"))


@linux
def test_kept_vectors(tmp_path: Path, events) -> None:
    import numpy as np

    class Embedder:
        name = "ones"

        def embed(self, texts):
            return np.ones((len(texts), 1), dtype=np.float32)

    CachedEmbedder(Embedder(), tmp_path, lambda _done, _count: None).embed(["a", "b"])
    (kept,) = tmp_path.iterdir()
    check_order(events, kept.name, tmp_path)


@linux
def test_an_index(tmp_path: Path, events) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("owls hunt at night")
    build_index(tmp_path / "docs", tmp_path / "index")
    check_order(events, "secondpass-index.json", tmp_path / "index")
    renamed = events.index(("rename", "secondpass-index.json"))
    (parts,) = (tmp_path / "index").glob("parts-*")
    for path in [parts, *parts.rglob("*")]:
        assert ("flush", path.name) in events[:renamed]


def test_after_an_exception_the_old_file_stays(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def fail() -> None:
        with atomic_write(target) as file:
            file.write(b"new")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert target.read_text() == "old"
    assert [*tmp_path.iterdir()] == [target]


@linux
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO])
def test_a_folder_that_cannot_be_flushed(tmp_path: Path, monkeypatch, number: int) -> None:
    fsync = os.fsync

    def of_folders(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", of_folders)
    if number == errno.EINVAL:  # a file system that cannot
        write_queries(tmp_path / "queries.tsv", {"q": "text"})
    else:
        with pytest.raises(OSError, match=os.strerror(number)):
            write_queries(tmp_path / "queries.tsv", {"q": "text"})
    assert (tmp_path / "queries.tsv").read_text() == "q\ttext\n"


def test_where_folders_cannot_be_opened_nothing_is_flushed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module.sys, "platform", "win32")
    monkeypatch.setattr(os, "O_DIRECTORY", None)
    write_queries(tmp_path / "queries.tsv", {"q": "text"})
    assert (tmp_path / "queries.tsv").read_text() == "q\ttext\n"
