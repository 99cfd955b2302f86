"""The folder of a monitor: what is added, what is deleted, and what is left alone."""

import os

import pytest

from monitored_days import days_of
from secondpass.formats.files import lock
from secondpass.monitoring import ranking_days
from secondpass.monitoring.ranking_days import DayFiles, read_days

DAY = "2026-11-23"


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def rankings(folder):
    return sum(counts.rankings for counts in read_days(folder).values())


def add(files, *days):
    for day in days:
        files.add(day, days_of(1, day=day))


def test_days_are_added_up(tmp_path):
    add(DayFiles(tmp_path, None), DAY, DAY)
    add(DayFiles(tmp_path, None), DAY)
    assert (names(tmp_path), rankings(tmp_path)) == ([f"{DAY}.jsonl"], 3)


def test_the_lock_is_free_although_a_forked_child_has_it_open(tmp_path, monkeypatch):
    copies = []

    def locked(file):
        lock(file)
        copies.append(os.dup(file.fileno()))

    monkeypatch.setattr(ranking_days, "lock", locked)
    add(DayFiles(tmp_path, None), DAY)
    try:
        with open(tmp_path / ".lock", "a+b") as file:
            lock(file)
    finally:
        os.close(*copies)


@pytest.mark.parametrize("content", ["not ours\n", '{"format": 2}\n', "{", "\0"])
def test_a_file_of_something_else_gets_one_neighbour(tmp_path, caplog, content):
    path = tmp_path / f"{DAY}.jsonl"
    path.write_text(content)
    add(DayFiles(tmp_path, None), DAY, DAY, DAY)
    assert path.read_text() == content
    assert len(caplog.records) == 1
    assert str(path) in caplog.text
    (other,) = set(names(tmp_path)) - {path.name}
    assert rankings(tmp_path / other) == 3


def test_its_own_file_is_spoiled_too(tmp_path, caplog):
    files = DayFiles(tmp_path, None)
    (tmp_path / f"{DAY}.jsonl").write_text("not ours")
    add(files, DAY)
    for path in tmp_path.glob("*.jsonl"):
        path.write_text("not ours")
    add(files, DAY, DAY)
    assert len(names(tmp_path)) == 3
    assert len(caplog.records) == 2


def test_what_a_killed_process_left_is_overwritten(tmp_path):
    (tmp_path / f".{DAY}.jsonl.tmp").write_text("half a li")
    add(DayFiles(tmp_path, None), DAY)
    assert (names(tmp_path), rankings(tmp_path)) == ([f"{DAY}.jsonl"], 1)


def test_days_are_kept_although_the_clock_was_wrong(tmp_path):
    files = DayFiles(tmp_path, 3)
    add(files, "2026-11-21", "2026-11-22", "2099-01-01")
    files.delete_old()
    assert names(tmp_path) == ["2026-11-21.jsonl", "2026-11-22.jsonl", "2099-01-01.jsonl"]
    add(files, "2026-11-23")
    files.delete_old()
    assert names(tmp_path) == ["2026-11-22.jsonl", "2026-11-23.jsonl", "2099-01-01.jsonl"]


@pytest.mark.parametrize("name", ["2001-01-01.jsonl", "2001-01-01-notes.jsonl", "2001-01-01.log"])
def test_the_files_of_something_else_are_not_deleted(tmp_path, name):
    (tmp_path / name).write_text("not ours\n")
    files = DayFiles(tmp_path, 1)
    add(files, "2026-11-22", "2026-11-23")
    files.delete_old()
    assert names(tmp_path) == [name, "2026-11-23.jsonl"]
