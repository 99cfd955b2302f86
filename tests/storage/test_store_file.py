"""A SQLite file that is opened at first use, replaced if damaged, and never taken from others."""

import os
import sqlite3
from contextlib import closing

import pytest

from secondpass.storage.store_file import READ, WRITE, SQLiteFile, SQLiteFileError
from secondpass.storage.files import Layout

LAYOUT = Layout(0x1234, 2, ("CREATE TABLE notes (text)",), ("SELECT text FROM notes LIMIT 1",))


def write(file, text):
    file.run(WRITE, lambda connection: connection.execute("INSERT INTO notes VALUES (?)", (text,)))


def read(file):
    return file.run(READ, lambda connection: connection.execute("SELECT * FROM notes").fetchall())


def break_header(path):
    with open(path, "r+b") as file:
        file.seek(16)
        file.write(b"\xff" * 40)


def test_nothing_is_opened_before_the_first_use(tmp_path):
    path = tmp_path / "file"
    with closing(SQLiteFile(path, LAYOUT)) as file:
        assert not path.exists()
        write(file, "a")
        assert read(file) == [("a",)]
        assert file.set_aside_issues() == []


def test_the_target_of_a_link_is_set_aside_with_its_log(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    link.symlink_to(target)
    with closing(SQLiteFile(link, LAYOUT)) as file:
        write(file, "a")
        file.close()
        break_header(target)
        assert read(file) == []
        (issue,) = file.set_aside_issues()
    assert issue.code == "cache_set_aside"
    assert link.is_symlink()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["folder", "link"]
    (name,) = [name for name in os.listdir(target.parent) if "set-aside" in name]
    assert name in issue.message


@pytest.mark.parametrize(
    "content", [b"x", b"notes of the user\n" * 500, b"SQLite format 3\0 is it"]
)
def test_a_file_of_the_user_in_the_place_of_ours_is_not_touched(tmp_path, content):
    """Even with the inode of the file that was there."""
    path = tmp_path / "file"
    with closing(SQLiteFile(path, LAYOUT)) as file:
        write(file, "a")
        file.close()
        path.write_bytes(content)
        for use in (read, lambda file: write(file, "b")):
            with pytest.raises(SQLiteFileError, match="'file' cannot be used"):
                use(file)
        assert file.set_aside is None
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(tmp_path):
    tmp_path.chmod(0o500)
    file = SQLiteFile(tmp_path / "file", LAYOUT)
    with pytest.raises(SQLiteFileError, match="unable to open"):
        write(file, "a")
    tmp_path.chmod(0o700)


def test_another_process_that_holds_the_lock_is_waited_for_a_moment(tmp_path, monkeypatch):
    monkeypatch.setattr("secondpass.storage.connections._WRITE_WITHIN", 0.05)
    path = tmp_path / "file"
    with closing(SQLiteFile(path, LAYOUT)) as file:
        write(file, "a")
        file.close()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(SQLiteFileError, match="locked"):
                write(file, "b")
            assert read(file) == [("a",)]
        assert file.set_aside is None
