"""Files are replaced in an order that survives a crash at any point."""

import errno
import os
from collections import Counter
from pathlib import Path

import pytest

from flushed_files import check_order, events, linux
from secondpass import InputError
from secondpass.cli.resuming import Resumable
from secondpass.formats import files as module
from secondpass.formats.files import open_locked
from secondpass.formats.lines import write_lines

__all__ = ["events"]


def test_a_file_that_its_writer_has_removed_meanwhile_is_not_written(tmp_path, monkeypatch) -> None:
    path = tmp_path / "file"
    lock = module.lock

    def late(file) -> None:
        path.unlink()
        lock(file)

    monkeypatch.setattr(module, "lock", late)
    with pytest.raises(InputError, match="another process is writing to it"):
        open_locked(path, "a+b")


@linux
def test_lines(tmp_path: Path, events) -> None:
    write_lines(tmp_path / "queries.jsonl", ["text\n"])
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
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO])
def test_a_folder_that_cannot_be_flushed(tmp_path: Path, monkeypatch, number: int) -> None:
    fsync = os.fsync

    def of_folders(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", of_folders)
    if number == errno.EINVAL:  # a file system that cannot
        write_lines(tmp_path / "queries.tsv", ["q\ttext\n"])
    else:
        with pytest.raises(OSError, match=os.strerror(number)):
            write_lines(tmp_path / "queries.tsv", ["q\ttext\n"])
    assert (tmp_path / "queries.tsv").read_text() == "q\ttext\n"


def test_where_folders_cannot_be_opened_nothing_is_flushed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module.sys, "platform", "win32")
    monkeypatch.setattr(os, "O_DIRECTORY", None)
    write_lines(tmp_path / "queries.tsv", ["q\ttext\n"])
    assert (tmp_path / "queries.tsv").read_text() == "q\ttext\n"
