"""The file of a store: what is found, kept, set aside, and never taken from others."""

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forked import IGNORES_FORKS, NEEDS_FORK, ended_well, run_child
from secondpass.storage import StoreFileError, files, store_file
from secondpass.storage.store_file import StoreFile
from store_kinds import KEYS, KINDS, PASSAGES

ANSWERS = KINDS["answers"]


@pytest.fixture
def file(path):
    """One of answers, where both kinds are the same."""
    with ANSWERS.opened(path) as file:
        yield file


@pytest.fixture
def clock(monkeypatch):
    """The wall clock, in a list."""
    now = [1_000_000.0]
    monkeypatch.setattr(store_file.time, "time", lambda: now[0])
    return now


@pytest.fixture
def monotonic(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(store_file.time, "monotonic", lambda: now[0])
    return now


# ---------------------------------------------------------------------- what is found


def test_values_come_back(kind, path):
    with kind.opened(path) as file:
        file.put_many(kind.values(1, 1200))
        assert file.get_many(KEYS) == kind.values(1, 1200)
        assert file.get_many([KEYS[1], KEYS[0], KEYS[1]]) == kind.values(1, 2)


WRITTEN_BEFORE = {
    "answers": (
        "CREATE TABLE answers (used INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, "
        "checksum INTEGER NOT NULL, value BLOB NOT NULL, written REAL NOT NULL);"
        "INSERT INTO answers VALUES (1, x'61', 2659403885, x'62', 1e9)",
        0x73707261,
    ),
    "scores": (
        "CREATE TABLE pairs (key BLOB PRIMARY KEY, used INTEGER NOT NULL, "
        "checksum INTEGER NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;"
        "CREATE INDEX pairs_by_use ON pairs (used);"
        "INSERT INTO pairs VALUES (x'61', 1, 2659403885, x'62')",
        0x73706373,
    ),
}


@pytest.mark.parametrize("name", WRITTEN_BEFORE)
def test_files_of_version_2_are_read_and_written(name, path):
    statements, application = WRITTEN_BEFORE[name]
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)
        connection.execute(f"PRAGMA application_id = {application}")
        connection.execute("PRAGMA user_version = 2")
    new = KINDS[name].values(0, 10)
    with KINDS[name].opened(path) as file:
        assert file.get_many([b"a"]) == {b"a": b"b"}
        file.put_many(new)
        assert file.get_many([b"a", *new]) == {b"a": b"b", **new}
        assert file.set_aside is None
    KINDS[name].fill(path.with_name("new"))
    assert schema_of(path) == schema_of(path.with_name("new"))


def schema_of(path):
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name"
        return connection.execute(query).fetchall()


def test_old_texts_are_not_found_and_are_deleted(path, clock):
    with ANSWERS.opened(path, max_age=100.0) as file:
        file.put_many({KEYS[0]: b"a"})
        clock[0] += 99
        assert file.get_many(KEYS[:1]) == {KEYS[0]: b"a"}
        clock[0] += 2
        assert file.get_many(KEYS[:1]) == {}
        file.put_many({KEYS[1]: b"b"})
        assert ANSWERS.count(path) == 1
        file.put_many({KEYS[0]: b"again"})
        clock[0] += 50
        assert file.get_many(KEYS[:2]) == {KEYS[0]: b"again", KEYS[1]: b"b"}


def test_texts_stored_while_the_clock_was_ahead_are_not_found(path, clock):
    with ANSWERS.opened(path, max_age=100.0) as file:
        clock[0] += 10_000
        file.put_many({KEYS[0]: b"a"})
        clock[0] -= 9_800  # within what clocks of several machines may differ
        file.put_many({KEYS[1]: b"b"})
        clock[0] -= 200
        assert file.get_many(KEYS[:2]) == {KEYS[1]: b"b"}
        file.put_many({KEYS[0]: b"again"})
        assert file.get_many(KEYS[:1]) == {KEYS[0]: b"again"}
    with ANSWERS.opened(path) as file:  # texts of any age
        clock[0] -= 10_000
        assert file.get_many(KEYS[:2]) == {KEYS[0]: b"again", KEYS[1]: b"b"}


def test_only_texts_before_a_time(file, clock):
    file.put_many({KEYS[0]: b"a"})
    before, clock[0] = clock[0], clock[0] + 1
    file.put_many({KEYS[1]: b"b"})
    assert file.get_many(KEYS[:2], clock[0]) == {KEYS[0]: b"a"}
    assert file.get_many(KEYS[:2], before) == {}


# ---------------------------------------------------------------------- what is kept


@pytest.mark.parametrize("at_once", [10, 600])
def test_the_file_stays_within_its_size(kind, path, at_once, monkeypatch):
    monkeypatch.setattr(store_file, "_DELETED_AT_ONCE", 1)
    with kind.opened(path, kind.max_bytes) as file:
        for _ in range(3):
            for start in range(0, 1200, at_once):
                file.put_many(kind.values(start, start + at_once))
        assert set(file.get_many(KEYS[1100:])) == set(KEYS[1100:])  # the newest
        assert file.get_many(KEYS[:300]) == {}
    assert kind.max_bytes / 2 < path.stat().st_size < 2.5 * kind.max_bytes


@pytest.mark.parametrize("other", [False, True], ids=["the writer", "another process"])
def test_what_is_read_stays(kind, path, other):
    with kind.opened(path, kind.max_bytes) as writer, kind.opened(path, kind.max_bytes) as reader:
        for start in range(0, 1200, 10):
            writer.put_many(kind.values(start, start + 10))
            assert KEYS[0] in (reader if other else writer).get_many(KEYS[:1])
            reader.close()  # as at the end of a process
        assert writer.get_many(KEYS[1:300]) == {}


def test_a_size_is_looked_up_again(kind, path, monotonic):
    """Other processes may write, while this one only reads."""
    with kind.opened(path, kind.max_bytes) as writer, kind.opened(path, kind.max_bytes) as reader:
        writer.put_many(kind.values(0, 10))
        reader.get_many(KEYS[:1])
        writer.put_many(kind.values(10, 400))
        reader.get_many(KEYS[:1])
        assert not reader._read_again
        monotonic[0] += 11
        reader.get_many(KEYS[:1])
        assert [*reader._read_again] == KEYS[:1]


def test_reading_a_lot_does_not_write(kind, path, monkeypatch):
    monkeypatch.setattr(store_file, "_MAX_READ_AGAIN", 3)
    with (
        kind.opened(path, 24_000) as file,
        closing(sqlite3.connect(path, isolation_level=None)) as connection,
    ):
        file.put_many(kind.values(0, 10))
        connection.execute("BEGIN IMMEDIATE")  # a write would wait
        file.get_many(KEYS[:3])
        assert file.is_due
        connection.execute("ROLLBACK")
        file.put_many({})
        assert not file.is_due
        query = f"SELECT key FROM {kind.layout.table} ORDER BY used DESC LIMIT 3"
        assert {key for (key,) in connection.execute(query)} == set(KEYS[:3])


def test_a_lower_limit_is_reached_step_by_step(kind, path, monkeypatch):
    kind.fill(path)
    monkeypatch.setattr(store_file, "_MAX_DELETIONS", 2)
    with kind.opened(path, kind.max_bytes) as file:
        file.put_many({KEYS[0]: kind.value(0)})
        assert 1200 - 2 * store_file._DELETED_AT_ONCE <= kind.count(path) < 1200
        for _ in range(40):
            file.put_many({KEYS[0]: kind.value(0)})
        assert kind.count(path) < 800


# ---------------------------------------------------------------------- damage


def overwrite(path, start, data):
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(data)


def break_pages(_kind, path):
    overwrite(path, 4096, b"\xff" * (path.stat().st_size - 4096))


def _sql(statement):
    return lambda kind, path: kind.change(path, statement)


DAMAGE = {
    # the damage; the kinds of stores that can have it
    "a broken header": (lambda _, path: overwrite(path, 16, b"\xff" * 40), KINDS),
    "broken pages": (break_pages, KINDS),
    "cut": (lambda _, path: os.truncate(path, path.stat().st_size // 2), KINDS),
    "an older version": (_sql("PRAGMA user_version = 0"), KINDS),
    "no table": (_sql("DROP TABLE {table}"), KINDS),
    "another column": (_sql("ALTER TABLE {table} RENAME key TO name"), KINDS),
}


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        pytest.param(damage, KINDS[name], id=f"{name}, {what}")
        for what, (damage, names) in DAMAGE.items()
        for name in names
    ],
)
def test_a_damaged_file_is_set_aside_and_replaced(path, damage, kind):
    kind.fill(path)
    damage(kind, path)
    path.chmod(0o666)
    before = path.read_bytes()
    with kind.opened(path) as file:
        file.get_many(KEYS)
        file.put_many(kind.values(0, 1))
        old = path.with_name(file.set_aside)
        assert old.read_bytes() == before
        file.put_many(kind.values(0, 1))
        assert file.get_many(KEYS) == kind.values(0, 1)
    assert {stat.S_IMODE(one.stat().st_mode) for one in (path, old)} == {0o600}


DAMAGED_ROWS = {
    "the value of another key": "value = (SELECT value FROM {table} WHERE used = 3)",
    "the row of another key": (
        "(checksum, value) = (SELECT checksum, value FROM {table} WHERE used = 3)"
    ),
    "a changed value": "value = x'00' || substr(value, 2)",
    "a changed key": "key = (SELECT key FROM {table} WHERE used = 1200) || x'00'",
    "a whole number": "value = 7",
    "a real number": "value = 0.5",
    "a text": "value = CAST(value AS TEXT)",
    "a text that is not UTF-8": "value = CAST(x'ff00fe' AS TEXT)",
    "a huge value": "value = zeroblob(10000001)",
    "a huge text": "value = CAST(zeroblob(10000001) AS TEXT)",
    "a checksum that is a text": "checksum = CAST(x'ff00fe' AS TEXT)",
}


@pytest.mark.parametrize("kind", [*KINDS.values(), PASSAGES], ids=[*KINDS, "passages"])
@pytest.mark.parametrize("change", DAMAGED_ROWS.values(), ids=DAMAGED_ROWS)
def test_a_damaged_row_is_not_found_and_is_replaced(path, change, kind):
    """Nor is the row of another key, such as one that a damaged index leads to."""
    kind.fill(path)
    kind.change(path, f"UPDATE {{table}} SET {change} WHERE used = 2")
    with kind.opened(path) as file:
        found = file.get_many(KEYS)
        assert found == {**kind.values(0, 1), **kind.values(2, 1200)}
        file.put_many(kind.values(1, 2))
        assert file.get_many(KEYS) == kind.values(0, 1200)
        assert file.set_aside is None


@pytest.mark.parametrize("kind", [KINDS["scores"], PASSAGES], ids=["scores", "passages"])
@pytest.mark.parametrize("use", ["'x'", "x'00'", "-1", "0.5", "9223372036854775807"])
def test_a_damaged_order_of_use_costs_no_other_row(path, kind, use):
    kind.fill(path)
    kind.change(path, f"UPDATE {{table}} SET used = {use} WHERE used = 2")
    with kind.opened(path) as file:
        file.get_many(KEYS)
        file.put_many(kind.values(0, 1))
        others = {**kind.values(0, 1), **kind.values(2, 1200)}
        assert others.items() <= file.get_many(KEYS).items()
        file.put_many(kind.values(1, 2))
        assert file.get_many(KEYS) == kind.values(0, 1200)
        assert file.set_aside is None


@pytest.mark.parametrize("kind", [*KINDS.values(), PASSAGES], ids=[*KINDS, "passages"])
@given(data=st.data())
def test_after_a_flipped_bit_no_key_has_a_wrong_value(kind, data):
    """Wherever it is: in a row, in an index, in what SQLite keeps of its pages."""
    with tempfile.TemporaryDirectory() as folder:
        path, values = Path(folder) / "file", kind.values(0, 40)
        with kind.opened(path) as file:
            file.put_many(values)
        place = data.draw(st.integers(100, path.stat().st_size - 1))
        whole = path.read_bytes()[place]
        overwrite(path, place, bytes([whole ^ 1 << data.draw(st.integers(0, 7))]))
        for _ in range(2):
            with kind.opened(path) as file, suppress(StoreFileError):
                found = file.get_many(KEYS[:40])
                assert found == {key: values[key] for key in found}
                file.put_many({key: values[key] for key in values if key not in found})


def test_damage_in_use_is_noticed_by_all(path):
    ANSWERS.fill(path)
    with ANSWERS.opened(path) as first, ANSWERS.opened(path) as second:
        second.get_many(KEYS[:1])
        first.close()
        second.close()
        break_pages(ANSWERS, path)
        assert first.get_many(KEYS) == {}
        first.put_many(ANSWERS.values(0, 1))
        assert second.get_many(KEYS) == ANSWERS.values(0, 1)
        assert (first.set_aside is None, second.set_aside) == (False, None)
    assert len([one for one in path.parent.iterdir() if "set-aside" in one.name]) == 1


def test_threads_that_meet_the_same_damage_go_on(path):
    """Those that waited for the connection use the new file."""
    ANSWERS.fill(path)
    break_pages(ANSWERS, path)
    with ANSWERS.opened(path) as file, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: file.get_many(KEYS), range(16), timeout=60))
    assert found == [{}] * 16


def test_the_target_of_a_link_is_set_aside_with_its_log(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    link.symlink_to(target)
    with ANSWERS.opened(link) as file:
        file.put_many({KEYS[0]: b"a"})
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        file.close()
        overwrite(target, 16, b"\xff" * 40)
        assert file.get_many(KEYS[:1]) == {}
        name = file.set_aside
    assert link.is_symlink()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["folder", "link"]
    assert [item for item in os.listdir(target.parent) if "set-aside" in item] == [name]


def test_a_file_is_not_replaced_by_one_that_is_older(path, file, monkeypatch):
    """Two processes find the same damage; the second must not set aside the file of the first."""
    ANSWERS.fill(path)
    overwrite(path, 16, b"\xff" * 40)
    prepare = files.prepare

    def replaced_meanwhile(*args):
        try:
            prepare(*args)
        except sqlite3.DatabaseError:
            path.rename(path.with_name("set-aside"))  # so that its inode is not used again
            with ANSWERS.opened(path) as other:
                monkeypatch.setattr(store_file, "prepare", prepare)
                other.put_many({KEYS[0]: b"a"})
            raise

    monkeypatch.setattr(store_file, "prepare", replaced_meanwhile)
    assert file.get_many(KEYS[:1]) == {KEYS[0]: b"a"}
    assert file.set_aside is None


# ---------------------------------------------------------------------- files of others

OTHERS = {
    "no database": (b"notes of the user\n" * 500, "not a file of secondpass"),
    "a short text": (b"x", "not a file of secondpass"),
    "half a header": (b"SQLite format 3\0 is it", "another application"),
    "another application": ("PRAGMA application_id = 7", "another application"),
    "a newer version": ("PRAGMA user_version = 1000", "of a newer version"),
    "a database": (None, "another application"),
}


@pytest.mark.parametrize(("content", "message"), OTHERS.values(), ids=OTHERS)
def test_a_file_of_others_is_left_alone(path, content, message):
    """Even with the inode of the file that was there."""
    if content is None:
        ANSWERS.change(path, "CREATE TABLE {table} (key)")
    else:
        ANSWERS.fill(path)
    with ANSWERS.opened(path) as file:
        if isinstance(content, str):
            ANSWERS.change(path, content)
        elif content is not None:
            file.get_many(KEYS[:1])
            file.close()
            path.write_bytes(content)
        before = path.read_bytes()
        for use in (
            lambda: file.get_many(KEYS[:1]),
            lambda: file.put_many(ANSWERS.values(0, 1)),
        ) * 2:
            with pytest.raises(StoreFileError, match=f"'file' cannot be used: .*{message}"):
                use()
        assert file.set_aside is None
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("mode", [None, 0o666, 0o644])
def test_only_the_owner_can_read_it(path, mode):
    with ANSWERS.opened(path) as file:
        if mode is not None:
            file.put_many(ANSWERS.values(1, 2))
            file.close()
            path.chmod(mode)
        file.put_many(ANSWERS.values(0, 1))
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    assert modes == dict.fromkeys(["file", "file-wal", "file-shm"], 0o600)


# ---------------------------------------------------------------------- when it fails


@pytest.mark.parametrize("name", ["missing/answers.sqlite", "", "a\0b"])
def test_a_path_that_cannot_be_a_file(tmp_path, name):
    with ANSWERS.opened(tmp_path / name) as file, pytest.raises(StoreFileError, match="be used"):
        file.get_many(KEYS[:1])


def test_a_full_disk_ends_writing_for_a_minute(path, monotonic, monkeypatch):
    update = StoreFile._update

    def full(self, connection, *rest):
        connection.execute("PRAGMA max_page_count = 1")
        return update(self, connection, *rest)

    with ANSWERS.opened(path) as file:
        file.put_many(ANSWERS.values(0, 1))
        monkeypatch.setattr(StoreFile, "_update", full)
        for _ in range(2):
            with pytest.raises(StoreFileError, match=r"'file'.*full"):
                file.put_many(ANSWERS.values(1, 1200))
            monkeypatch.setattr(StoreFile, "_update", update)
        assert file.get_many(KEYS[:3]) == ANSWERS.values(0, 1)  # reading goes on
        monotonic[0] += 61
        file.put_many(ANSWERS.values(1, 2))
        assert file.get_many(KEYS[:3]) == ANSWERS.values(0, 2)


def test_another_process_that_holds_the_lock_is_waited_for_a_moment(path, monkeypatch):
    monkeypatch.setattr(files, "_WRITE_WITHIN", 0.05)
    with ANSWERS.opened(path) as file:
        file.put_many(ANSWERS.values(0, 1))
        file.close()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreFileError, match="locked"):
                file.put_many(ANSWERS.values(1, 2))
            assert file.get_many(KEYS[:2]) == ANSWERS.values(0, 1)
        assert file.set_aside is None


def test_a_file_that_cannot_be_opened_is_tried_once_a_minute(file, monotonic, monkeypatch):
    """By one of the threads that read and write, not by each in turn."""
    tries = []

    def locked(*_args):
        tries.append(1)
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(store_file, "prepare", locked)
    for expected in (1, 2):
        for call in (lambda: file.get_many(KEYS[:1]), lambda: file.put_many({KEYS[0]: b"a"})) * 2:
            with pytest.raises(StoreFileError, match="locked"):
                call()
        assert len(tries) == expected
        monotonic[0] += 61


def test_opening_waits_for_another_process(path, file, monkeypatch):
    tries = []
    create = files._prepare

    def locked_twice(*where):
        tries.append(where)
        if len(tries) < 3:
            raise sqlite3.OperationalError("database is locked")
        create(*where)

    monkeypatch.setattr(files, "_prepare", locked_twice)
    file.put_many({KEYS[0]: b"a"})
    assert len(tries) == 3
    monkeypatch.setattr(files, "_OPEN_WITHIN", 0.0)
    tries.clear()
    with ANSWERS.opened(path) as other, pytest.raises(StoreFileError, match="is locked"):
        other.get_many(KEYS[:1])


# ---------------------------------------------------------------------- threads and processes

WRITER = """
import sys
from pathlib import Path
from secondpass.storage import files
from store_kinds import KINDS

files._WRITE_WITHIN = 30.0  # the machine may be busy
kind = KINDS[sys.argv[2]]
with kind.opened(Path(sys.argv[1])) as file:
    for number in range(40):
        key = bytes([int(sys.argv[3])]) * 16 + number.to_bytes(16, "big")
        file.put_many({key: kind.value(number)})
        assert file.get_many([key]) == {key: kind.value(number)}
"""


@pytest.mark.parametrize("name", ["answers", pytest.param("scores", marks=pytest.mark.long)])
def test_many_threads_and_processes_open_one_new_file(name, path):
    call = [sys.executable, "-c", WRITER, str(path), name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    children = [subprocess.Popen([*call, str(number)], env=environment) for number in range(2)]
    failed = []
    with KINDS[name].opened(path) as file:

        def work(thread):
            try:
                for number in range(thread, 200, 4):
                    file.get_many([KEYS[number]])
            except StoreFileError as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert [child.wait(120) for child in children] == [0, 0]
    assert not failed
    assert KINDS[name].count(path) == 80


@NEEDS_FORK
@IGNORES_FORKS
def test_forks_while_threads_write(path):
    stop = threading.Event()
    with ANSWERS.opened(path) as file:

        def write(start):
            number = start
            while not stop.is_set():
                number += 2
                file.put_many({number.to_bytes(4, "big"): ANSWERS.value(number)})

        threads = [threading.Thread(target=write, args=[start]) for start in range(2)]
        for thread in threads:
            thread.start()
        try:
            for start in range(0, 50, 10):
                some = ANSWERS.values(start, start + 10)

                def child(some=some):
                    file.put_many(some)
                    return file.get_many(list(some)) == some

                assert ended_well(run_child(child))
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        assert file.get_many(KEYS[:50]) == ANSWERS.values(0, 50)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@NEEDS_FORK
@IGNORES_FORKS
def test_a_fork_during_a_long_write(path, file, monkeypatch):
    """The child cannot write then: a connection of its parent must not be touched."""
    monkeypatch.setattr(files, "_FORK_WITHIN", 0.05)
    file.put_many({KEYS[0]: b"a"})

    def child():
        with pytest.raises(StoreFileError):
            file.put_many({KEYS[1]: b"b"})
        return file.get_many(KEYS[:2]) == {KEYS[0]: b"a"}

    with file._connections.writer._lock:
        child = run_child(child)
    assert ended_well(child)
    file.put_many({KEYS[2]: b"c"})
    assert file.get_many(KEYS[:3]) == {KEYS[0]: b"a", KEYS[2]: b"c"}
