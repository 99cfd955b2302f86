"""The SQLite file of the response cache."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from hashlib import blake2b

import pytest

from secondpass.storage import files, store_file
from secondpass.storage.store_file import SQLiteFileError
from secondpass.runtime import answer_file
from secondpass.runtime.answer_file import AnswerFile

KEYS = [blake2b(str(number).encode(), digest_size=32).digest() for number in range(1200)]
NEEDS_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
IGNORES_FORKS = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.sqlite"


def opened(path, max_bytes=10**9, max_age=None):
    return closing(AnswerFile(path, max_bytes, max_age))


@pytest.fixture
def file(path):
    with opened(path) as file:
        yield file


@pytest.fixture
def clock(monkeypatch):
    """The wall clock, in a list."""
    now = [1_000_000.0]
    monkeypatch.setattr(answer_file.time, "time", lambda: now[0])
    return now


def count(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM answers").fetchone()[0]


def test_texts_come_back(file):
    file.put_many({key: f"é {number}" for number, key in enumerate(KEYS) if number % 3})
    assert file.get_many(KEYS) == {k: f"é {n}" for n, k in enumerate(KEYS) if n % 3}
    assert file.get_many([KEYS[1], KEYS[0], KEYS[1]]) == {KEYS[1]: "é 1"}


def test_a_text_is_replaced_or_deleted(file):
    file.put_many({KEYS[0]: "a", KEYS[1]: "b"})
    file.put_many({KEYS[0]: "c", KEYS[1]: None, KEYS[2]: None})
    assert file.get_many(KEYS[:3]) == {KEYS[0]: "c"}


@pytest.mark.parametrize("mode", [None, 0o666, 0o644])
def test_only_the_owner_can_read_it(path, file, mode):
    if mode is not None:
        file.put_many({KEYS[1]: "b"})
        file.close()
        path.chmod(mode)
    file.put_many({KEYS[0]: "a"})
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    assert modes == dict.fromkeys([path.name, f"{path.name}-wal", f"{path.name}-shm"], 0o600)


def test_only_the_owner_can_read_the_target_of_a_link(path):
    target = path.with_name("target.sqlite")
    path.symlink_to(target)
    with opened(path) as file:
        file.put_many({KEYS[0]: "a"})
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_old_texts_are_not_found_and_are_deleted(path, clock):
    with opened(path, max_age=100.0) as file:
        file.put_many({KEYS[0]: "a"})
        clock[0] += 99
        assert file.get_many(KEYS[:1]) == {KEYS[0]: "a"}
        clock[0] += 2
        assert file.get_many(KEYS[:1]) == {}
        file.put_many({KEYS[1]: "b"})
        assert file.get_many(KEYS[:2]) == {KEYS[1]: "b"}
        file.put_many({KEYS[0]: "again"})
        clock[0] += 50
        assert file.get_many(KEYS[:2]) == {KEYS[0]: "again", KEYS[1]: "b"}
    assert count(path) == 2


def test_texts_stored_while_the_clock_was_ahead_are_not_found(path, clock):
    with opened(path, max_age=100.0) as file:
        clock[0] += 10_000
        file.put_many({KEYS[0]: "a"})
        clock[0] -= 9_800  # within what clocks of several machines may differ
        file.put_many({KEYS[1]: "b"})
        clock[0] -= 200
        assert file.get_many(KEYS[:2]) == {KEYS[1]: "b"}
        file.put_many({KEYS[0]: "again"})
        assert file.get_many(KEYS[:1]) == {KEYS[0]: "again"}
    with opened(path) as file:  # texts of any age
        clock[0] -= 10_000
        assert file.get_many(KEYS[:2]) == {KEYS[0]: "again", KEYS[1]: "b"}


def test_only_texts_before_a_time(file, clock):
    file.put_many({KEYS[0]: "a"})
    before, clock[0] = clock[0], clock[0] + 1
    file.put_many({KEYS[1]: "b"})
    assert file.get_many(KEYS[:2], clock[0]) == {KEYS[0]: "a"}
    assert file.get_many(KEYS[:2], before) == {}


def test_the_file_stays_within_its_size(path):
    with opened(path, max_bytes=200_000) as file:
        for start in range(0, 1200, 10):
            file.put_many(dict.fromkeys(KEYS[start : start + 10], "x" * 1000))
        assert set(file.get_many(KEYS[1100:])) == set(KEYS[1100:])  # the newest
        assert file.get_many(KEYS[:900]) == {}
    assert 100_000 < path.stat().st_size < 300_000


def test_what_is_read_stays(path):
    with opened(path, max_bytes=200_000) as file:
        for start in range(0, 1200, 10):
            file.put_many(dict.fromkeys(KEYS[start : start + 10], "x" * 1000))
            assert KEYS[0] in file.get_many(KEYS[:1])


def test_what_only_another_process_reads_stays(path):
    with opened(path, max_bytes=200_000) as writer, opened(path, max_bytes=200_000) as reader:
        for start in range(0, 1200, 10):
            writer.put_many(dict.fromkeys(KEYS[start : start + 10], "x" * 1000))
            assert KEYS[0] in reader.get_many(KEYS[:1])
            reader.close()  # as at the end of a process


def test_reading_a_lot_does_not_write(path, monkeypatch):
    monkeypatch.setattr(answer_file, "_MAX_READ_AGAIN", 3)
    with opened(path) as file, closing(sqlite3.connect(path, isolation_level=None)) as connection:
        file.put_many(dict.fromkeys(KEYS[:10], "a"))
        connection.execute("BEGIN IMMEDIATE")  # a write would wait
        file.get_many(KEYS[:3])
        assert file.is_due
        connection.execute("ROLLBACK")
        file.put_many({})
        assert not file.is_due
        rows = connection.execute("SELECT key FROM answers ORDER BY used DESC LIMIT 3")
        assert {key for (key,) in rows} == set(KEYS[:3])


def test_a_lower_limit_is_reached_step_by_step(path, monkeypatch):
    with opened(path) as file:
        file.put_many(dict.fromkeys(KEYS, "x" * 1000))
    monkeypatch.setattr(answer_file, "_MAX_DELETIONS", 2)
    before = count(path)
    with opened(path, max_bytes=200_000) as file:
        file.put_many({KEYS[0]: "y"})
        assert before - 2 * answer_file._DELETED_AT_ONCE <= count(path) < before
        for _ in range(40):
            file.put_many({KEYS[0]: "y"})
        assert count(path) < 200


DAMAGED = {
    "a broken header": lambda path: _overwrite(path, 16, b"\xff" * 40),
    "a broken page": lambda path: _overwrite(path, 4096, b"\xff" * 4096),
    "no table": lambda path: _change(path, "DROP TABLE answers"),
    "another column": lambda path: _change(path, "ALTER TABLE answers RENAME value TO v"),
    "an older version": lambda path: _change(path, "PRAGMA user_version = 0"),
}


def _overwrite(path, start, data):
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(data)


def _change(path, statement):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_file_that_is_of_no_use_is_set_aside(path, damage):
    with opened(path) as file:
        file.put_many(dict.fromkeys(KEYS[:100], "x" * 200))
    damage(path)
    before = path.read_bytes()
    with opened(path) as file:
        assert file.get_many(KEYS[:100]) == {}
        assert path.with_name(file.set_aside).read_bytes() == before
        file.put_many({KEYS[0]: "a"})
        assert file.get_many(KEYS[:2]) == {KEYS[0]: "a"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("used", [2**63 - 1, -1])
def test_a_file_without_room_for_further_texts_is_set_aside(path, used):
    with opened(path) as file:
        file.put_many({KEYS[0]: "a"})
    _change(path, f"UPDATE answers SET used = {used}")
    with opened(path) as file:
        file.put_many({KEYS[1]: "b"})
        assert file.set_aside is not None
        assert file.get_many(KEYS[:2]) == {KEYS[1]: "b"}


def test_damage_in_use_is_noticed_by_all(path):
    with opened(path) as first, opened(path) as second:
        first.put_many(dict.fromkeys(KEYS[:100], "x" * 200))
        second.get_many(KEYS[:1])
        first.close()
        second.close()
        _overwrite(path, 4096, b"\xff" * 8192)
        assert first.get_many(KEYS[:100]) == {}
        first.put_many({KEYS[0]: "a"})
        assert second.get_many(KEYS[:100]) == {KEYS[0]: "a"}
        assert (first.set_aside is None, second.set_aside) == (False, None)
    assert len([one for one in path.parent.iterdir() if "set-aside" in one.name]) == 1


OTHERS = {
    "no database": ("notes", "not a file of secondpass"),
    "another application": ("PRAGMA application_id = 7", "'answers.sqlite'.*another application"),
    "a table": ("CREATE TABLE notes (text)", "another application"),
    "a newer version": ("PRAGMA user_version = 1000", "of a newer version"),
}


@pytest.mark.parametrize(("statement", "message"), OTHERS.values(), ids=OTHERS)
def test_a_healthy_file_of_others_is_left_alone(path, statement, message):
    if "CREATE" not in statement:
        with opened(path) as file:
            file.put_many({KEYS[0]: "a"})
    if statement == "notes":
        path.write_text("some notes of the user\n" * 200)  # with the inode of a file of ours
    else:
        _change(path, statement)
    before = path.read_bytes()
    with opened(path) as file:
        for _ in range(2):
            with pytest.raises(SQLiteFileError, match=message):
                file.get_many(KEYS[:1])
        assert file.set_aside is None
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["missing/answers.sqlite", "", "a\0b"])
def test_a_path_that_cannot_be_a_file(tmp_path, name):
    with opened(tmp_path / name) as file, pytest.raises(SQLiteFileError, match="cannot be used"):
        file.get_many(KEYS[:1])


def test_a_full_disk_ends_writing_for_a_minute(path, file, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(store_file.time, "monotonic", lambda: now[0])
    file.put_many({KEYS[0]: "a"})
    update = AnswerFile._update

    def full(self, connection, *rest):
        connection.execute("PRAGMA max_page_count = 1")
        return update(self, connection, *rest)

    monkeypatch.setattr(AnswerFile, "_update", full)
    for _ in range(2):
        with pytest.raises(SQLiteFileError, match=r"'answers\.sqlite'.*full"):
            file.put_many(dict.fromkeys(KEYS[1:100], "x" * 1000))
        monkeypatch.setattr(AnswerFile, "_update", update)
    assert file.get_many(KEYS[:3]) == {KEYS[0]: "a"}  # reading goes on
    now[0] += 61
    file.put_many({KEYS[1]: "b"})
    assert file.get_many(KEYS[:3]) == {KEYS[0]: "a", KEYS[1]: "b"}


def test_a_file_that_can_only_be_read(path, file, monkeypatch):
    file.put_many({KEYS[0]: "a"})
    file.close()
    connect = sqlite3.connect

    def read_only(address, **settings):
        return connect(address.replace("mode=rwc", "mode=ro").replace("=rw", "=ro"), **settings)

    monkeypatch.setattr(sqlite3, "connect", read_only)
    assert file.get_many(KEYS[:2]) == {KEYS[0]: "a"}
    with pytest.raises(SQLiteFileError, match="readonly"):
        file.put_many({KEYS[1]: "b"})
    assert file.get_many(KEYS[:2]) == {KEYS[0]: "a"}


def test_a_locked_file_is_waited_for_a_moment_only(path, file, monkeypatch):
    monkeypatch.setattr("secondpass.storage.connections._WRITE_WITHIN", 0.05)
    file.put_many({KEYS[0]: "a"})
    file.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert file.get_many(KEYS[:1]) == {KEYS[0]: "a"}
        with pytest.raises(SQLiteFileError, match="locked"):
            file.put_many({KEYS[1]: "b"})


def test_a_file_that_cannot_be_opened_is_tried_once_a_minute(path, file, monkeypatch):
    """By one of the threads that read and write, not by each in turn."""
    now, tries = [0.0], []

    def locked(*_args):
        tries.append(1)
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(store_file.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(store_file, "prepare", locked)
    for expected in (1, 2):
        for call in (lambda: file.get_many(KEYS[:1]), lambda: file.put_many({KEYS[0]: "a"})) * 2:
            with pytest.raises(SQLiteFileError, match="locked"):
                call()
        assert len(tries) == expected
        now[0] += 61


def test_values_of_other_types_are_not_found(path, file):
    file.put_many(dict.fromkeys(KEYS[:3], "a"))
    _change(path, "UPDATE answers SET value = x'00ff' WHERE used = 1")
    _change(path, "UPDATE answers SET written = 'now' WHERE used = 2")
    assert list(file.get_many(KEYS[:3]).values()) == ["a"]


def test_a_removed_file_is_created_again(path, file):
    file.put_many({KEYS[0]: "a"})
    file.close()
    path.unlink()
    assert file.get_many(KEYS[:1]) == {}
    file.put_many({KEYS[0]: "b"})
    assert count(path) == 1


def test_many_threads_and_processes(path):
    code = """
import sys
from secondpass.storage import connections
from secondpass.runtime.answer_file import AnswerFile
connections._WRITE_WITHIN = 30.0  # the machine may be busy
file = AnswerFile(sys.argv[1], 10**9, None)
for number in range(40):
    key = bytes([int(sys.argv[2])]) * 16 + number.to_bytes(16, "big")
    file.put_many({key: f"{sys.argv[2]} {number}"})
    assert file.get_many([key]) == {key: f"{sys.argv[2]} {number}"}
file.close()
"""
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(number)])
        for number in range(2)
    ]
    failed = []
    with opened(path) as file:

        def work(thread):
            try:
                for number in range(thread, 200, 4):
                    file.get_many([KEYS[number]])
            except SQLiteFileError as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert [child.wait(120) for child in children] == [0, 0]
    assert not failed
    assert count(path) == 80


@NEEDS_FORK
@IGNORES_FORKS
def test_a_forked_child_uses_the_file(path, file):
    file.put_many({KEYS[0]: "a"})
    child = os.fork()
    if child == 0:
        try:
            assert file.get_many(KEYS[:2]) == {KEYS[0]: "a"}
            file.put_many({KEYS[1]: "b"})
            file.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert file.get_many(KEYS[:2]) == {KEYS[0]: "a", KEYS[1]: "b"}


def test_a_file_is_not_replaced_by_one_that_is_older(path, file, monkeypatch):
    """Two processes find the same damage; the second must not set aside the file of the first."""
    with opened(path) as other:
        other.put_many({KEYS[0]: "x" * 9000})
    _overwrite(path, 16, b"\xff" * 40)
    prepare = files.prepare

    def replaced_meanwhile(*args):
        try:
            prepare(*args)
        except sqlite3.DatabaseError:
            path.rename(path.with_name("set-aside"))  # so that its inode is not used again
            with opened(path) as other:
                monkeypatch.setattr(store_file, "prepare", prepare)
                other.put_many({KEYS[0]: "a"})
            raise

    monkeypatch.setattr(store_file, "prepare", replaced_meanwhile)
    assert file.get_many(KEYS[:1]) == {KEYS[0]: "a"}
    assert file.set_aside is None
