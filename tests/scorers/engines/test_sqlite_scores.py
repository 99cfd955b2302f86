"""Scores in a SQLite file: what is deleted, damaged files, other processes and forks."""

import gc
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import weakref
from contextlib import closing

import pytest

from forked import IGNORES_FORKS, NEEDS_FORK, ended_well, run_child
from secondpass.storage import connections, files
from secondpass.scorers.engines import sqlite_scores
from secondpass.scorers.engines.score_cache import namespace, open_cache, pair_keys
from secondpass.scorers.engines.sqlite_scores import SQLiteScores

KEYS = pair_keys(namespace({"model": "m"}), "query", [f"passage {n}" for n in range(1200)])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "scores.sqlite"


def test_a_file_outlives_the_cache(path):
    first = open_cache(path)
    first.put_many([(KEYS[0], 0.5)])
    first.close()
    assert first.get_many(KEYS[:1]) == [0.5]
    second = open_cache(str(path))
    assert second.get_many(KEYS[:2]) == [0.5, None]
    second.put_many([(KEYS[1], 0.25)])
    assert first.get_many(KEYS[:2]) == [0.5, 0.25]
    first.close()
    second.close()


def test_no_text_in_the_file(path):
    cache = open_cache(path)
    cache.put_many([(key, 1.0) for key in pair_keys(namespace({}), "secret query", ["passage"])])
    cache.close()
    data = path.read_bytes()
    assert b"secret" not in data
    assert b"passage" not in data


def count(path):
    connection = sqlite3.connect(path)
    [(pairs,)] = connection.execute("SELECT count(*) FROM pairs")
    [(stated,)] = connection.execute("SELECT pairs FROM state")
    connection.close()
    assert pairs == stated
    return pairs


def test_oldest_pairs_are_deleted(path):
    cache = SQLiteScores(path, 10)
    for number in range(25):
        cache.put_many([(KEYS[number], float(number)), (KEYS[number], 9.0)])
        assert count(path) == min(number + 1, 10)
    assert cache.get_many(KEYS[:25]) == [None] * 15 + [float(n) for n in range(15, 25)]
    cache.put_many((key, 1.0) for key in KEYS[100:200])
    assert count(path) == 10
    cache.close()


def test_pairs_in_use_stay(path):
    cache = SQLiteScores(path, 10)
    for number in range(100):
        cache.put_many([(KEYS[number], 1.0)])
        assert cache.get_many(KEYS[:1]) == [1.0]
    cache.close()
    assert count(path) == 10


def test_uses_are_written_at_the_end(path):
    first = SQLiteScores(path, 4)
    for number in range(4):
        first.put_many([(KEYS[number], 1.0)])
    first.get_many(KEYS[:1])
    first.close()
    second = SQLiteScores(path, 4)
    second.put_many([(KEYS[4], 1.0)])
    assert second.get_many(KEYS[:5]) == [1.0, None, 1.0, 1.0, 1.0]
    second.close()


def change(path, statement):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


def overwrite(path, start, data):
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(data)


LEFT_ALONE = {
    "a short text": (lambda path: path.write_bytes(b"x" * 100), "not a file of secondpass"),
    "a long text": (lambda path: path.write_bytes(b"x" * 5000), "not a file of secondpass"),
    "a database": (lambda path: change(path, "CREATE TABLE pairs (a)"), "another application's"),
    "a newer version": (
        lambda path: (filled(path), change(path, "PRAGMA user_version = 99")),
        "a newer version",
    ),
}


def filled(path):
    with closing(open_cache(path)) as cache:
        cache.put_many((key, 1.0) for key in KEYS)


@pytest.mark.parametrize(("create", "message"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_other_files_are_not_touched(path, caplog, create, message):
    create(path)
    before = path.read_bytes()
    with closing(open_cache(path)) as cache:
        cache.put_many([(KEYS[0], 1.0)])
        assert cache.get_many(KEYS[:2]) == [None, None]
        (issue,) = cache.issues()
    assert issue.code == "cache_failed"
    assert message in issue.message
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == [path.name]
    [record] = caplog.records
    assert (record.name, record.levelname) == ("secondpass", "WARNING")
    assert "the score cache 'scores.sqlite' cannot be used" in record.getMessage()


DAMAGE = {
    "a broken header": lambda path: overwrite(path, 16, b"\xff" * 40),
    "broken pages": lambda path: overwrite(path, 4096, b"\xff" * (path.stat().st_size - 4096)),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "an older version": lambda path: change(path, "PRAGMA user_version = 0"),
    "no table": lambda path: change(path, "DROP TABLE pairs"),
    "no state": lambda path: change(path, "DELETE FROM state"),
    "no number of pairs": lambda path: change(path, "UPDATE state SET pairs = 'x'"),
    "a wrong number of pairs": lambda path: change(path, "UPDATE state SET pairs = 1e15"),
    "far too many pairs": lambda path: change(path, f"UPDATE state SET pairs = {2**60}"),
    "a negative number of pairs": lambda path: change(path, "UPDATE state SET pairs = -1"),
    "a use that is no number": lambda path: change(path, "UPDATE pairs SET used = 'zz'"),
    "the last use": lambda path: change(path, f"UPDATE pairs SET used = {2**63 - 1}"),
    "a score that is no number": lambda path: change(path, "UPDATE pairs SET score = 'high'"),
    "no score": lambda path: change(path, "UPDATE pairs SET score = NULL"),
    "an infinite score": lambda path: change(path, "UPDATE pairs SET score = 9e999"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_damaged_file_is_set_aside_and_replaced(path, damage, mode):
    filled(path)
    damage(path)
    path.chmod(mode)
    with closing(open_cache(path)) as cache:
        cache.put_many((key, 2.0) for key in KEYS)
        cache.get_many(KEYS)
        assert [issue.code for issue in cache.issues()] == ["cache_set_aside"]
        assert cache.issues() == []
        cache.put_many((key, 2.0) for key in KEYS)
        assert cache.get_many(KEYS) == [2.0] * len(KEYS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_disk_that_is_full_ends_writing_only(path, monkeypatch):
    filled(path)

    def full(*_args):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite_scores, "_update", full)
    with closing(open_cache(path)) as cache:
        cache.put_many([(KEYS[0], 2.0)])
        assert cache.get_many(KEYS[:2]) == [1.0, 1.0]
        assert [issue.code for issue in cache.issues()] == ["cache_failed"]


@pytest.mark.parametrize("name", ["_select", "_update"])
def test_an_unexpected_error_does_not_reach_the_scorer(path, monkeypatch, name):
    filled(path)
    monkeypatch.setattr(sqlite_scores, name, lambda *_: 1 / 0)
    with closing(open_cache(path)) as cache:
        cache.put_many([(KEYS[0], 2.0)])
        assert cache.get_many(KEYS[:2]) in ([1.0, 1.0], [None, None])
        (issue,) = cache.issues()
    assert issue.message.endswith("cannot be used: it raised ZeroDivisionError")


def test_a_file_that_is_gone_is_created_again(path):
    cache = open_cache(path)
    cache.put_many([(KEYS[0], 1.0)])
    cache.close()
    path.unlink()
    assert cache.get_many(KEYS[:1]) == [None]
    cache.put_many([(KEYS[0], 2.0)])
    assert cache.get_many(KEYS[:1]) == [2.0]
    cache.close()


def test_a_writer_that_does_not_end(path, caplog, monkeypatch):
    monkeypatch.setattr(connections, "_WRITE_WITHIN", 0.05)
    cache = open_cache(path)
    cache.put_many([(KEYS[0], 1.0)])
    cache.close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    cache.put_many([(KEYS[1], 1.0)])
    assert cache.get_many(KEYS[:2]) == [1.0, None]  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    cache.close()
    assert "locked" in caplog.text


WRITER = """
import sys
from secondpass.storage import connections
from secondpass.scorers.engines.score_cache import open_cache, pair_keys

connections._WRITE_WITHIN = 30.0  # the machine may be busy
cache = open_cache(sys.argv[1])
for number in range(20):
    keys = pair_keys(b"n" * 16, f"query {sys.argv[2]} {number}", ["a", "b"])
    cache.put_many((key, 1.0) for key in keys)
    assert cache.get_many(keys) == [1.0, 1.0]
cache.close()
"""


def test_many_processes_open_one_new_file(path):
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, str(n)], stderr=subprocess.PIPE) for n in range(3)]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert (writer.returncode, errors) == (0, b"")
    assert count(path) == 3 * 20 * 2


@NEEDS_FORK
@IGNORES_FORKS
def test_forks_while_threads_write(path):
    cache = open_cache(path)
    stop = threading.Event()

    def write(thread):
        number = 0
        while not stop.is_set():
            number += 1
            cache.put_many((key, 1.0) for key in pair_keys(b"n" * 16, f"{thread} {number}", "ab"))

    threads = [threading.Thread(target=write, args=[n]) for n in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(5):
            some = KEYS[number * 10 : number * 10 + 10]

            def child(some=some):
                cache.put_many((key, 1.0) for key in some)
                return cache.get_many(some) == [1.0] * 10

            assert ended_well(run_child(child))
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert cache.get_many(KEYS[:50]) == [1.0] * 50
    cache.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    count(path)


@NEEDS_FORK
@IGNORES_FORKS
def test_a_fork_during_a_long_write(path, monkeypatch):
    """The child has no cache then: a connection of its parent must not be touched."""
    monkeypatch.setattr(connections, "_FORK_WITHIN", 0.05)
    cache = open_cache(path)
    cache.put_many([(KEYS[0], 1.0)])
    with cache._connections[1]._lock:
        child = run_child(
            lambda: (
                cache.put_many([(KEYS[1], 1.0)]) is None and cache.get_many(KEYS[:2]) == [1.0, None]
            )
        )
    assert ended_well(child)
    cache.put_many([(KEYS[2], 1.0)])
    assert cache.get_many(KEYS[:3]) == [1.0, None, 1.0]
    cache.close()


def test_opening_waits_for_another_process(path, monkeypatch):
    tries = []
    create = files._prepare

    def locked_twice(*where):
        tries.append(where)
        if len(tries) < 3:
            raise sqlite3.OperationalError("database is locked")
        create(*where)

    monkeypatch.setattr(files, "_prepare", locked_twice)
    filled(path)
    assert len(tries) == 3
    monkeypatch.setattr(files, "_OPEN_WITHIN", 0.0)
    tries.clear()
    with closing(open_cache(path)) as cache:
        assert cache.get_many(KEYS[:1]) == [None]
        assert "cannot be used: database is locked" in cache.issues()[0].message


def test_an_interrupt_does_not_leave_the_file_locked(path):
    from secondpass.storage.connections import Connection

    filled(path)
    connection = Connection(path)

    def interrupted(file):
        file.execute("BEGIN IMMEDIATE")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        connection.run(interrupted)
    with closing(sqlite3.connect(path, timeout=0)) as other:
        other.execute("BEGIN IMMEDIATE")  # raises if the file is locked


def test_garbage_is_not_collected_while_a_fork_holds_it(path):
    """Its connection is locked then, and closing it would wait forever."""
    cache = open_cache(path)
    cache.put_many([(KEYS[0], 1.0)])
    cache.itself = cache
    gone = weakref.ref(cache._connections[1])
    del cache

    def fork():
        connections.opening.before_fork()
        gc.collect()
        connections.opening.after_fork_in_parent()

    thread = threading.Thread(target=fork, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    gc.collect()
    assert gone() is None
