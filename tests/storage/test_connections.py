"""A connection to a SQLite file: failures, interrupts, threads and forks."""

import gc
import sqlite3
import threading
import weakref
from contextlib import closing

import pytest

from forked import IGNORES_FORKS, NEEDS_FORK, ended_well, run_child
from frozen_heap import frozen_heap  # noqa: F401
from secondpass.storage import files
from secondpass.storage.files import SqliteConnection, connect

pytestmark = pytest.mark.usefixtures("frozen_heap")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    connection = connect(path.as_uri() + "?mode=rwc", 1.0)
    connection.execute("CREATE TABLE notes (text)")
    connection.close()
    return path


@pytest.fixture
def connection(path):
    connection = SqliteConnection(path)
    yield connection
    connection.close()


def count(connection):
    return connection.execute("SELECT count(*) FROM notes").fetchone()[0]


def write(connection):
    connection.execute("INSERT INTO notes VALUES ('a')")


def test_garbage_in_a_cycle_is_closed_without_a_warning(path, recwarn):
    """From Python 3.13, an open connection of SQLite that is collected warns."""
    dropped = SqliteConnection(path)
    dropped.itself = dropped
    dropped.run(lambda one: one.execute("BEGIN IMMEDIATE"))
    del dropped
    gc.collect()
    with closing(sqlite3.connect(path, timeout=0)) as other:
        other.execute("BEGIN IMMEDIATE")  # raises if the file is still locked
    assert [str(warning.message) for warning in recwarn] == []


def test_a_missing_file_is_not_created(tmp_path):
    with pytest.raises(sqlite3.OperationalError):
        SqliteConnection(tmp_path / "absent").run(count)
    assert not [*tmp_path.iterdir()]


def test_a_failure_ends_it(connection):
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        connection.run(lambda one: one.execute("SELECT absent FROM notes"))
    assert not connection._opened
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        connection.run(count)


def test_an_interrupt_rolls_back(connection, path):
    def interrupted(one):
        one.execute("BEGIN IMMEDIATE")
        write(one)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        connection.run(interrupted)
    other = connect(path.as_uri() + "?mode=rw", 0.0)
    write(other)  # the file is not locked
    other.close()
    assert connection.run(count) == 1


def test_one_thread_at_a_time(connection):
    inside, most = [], []

    def work(one):
        inside.append(1)
        most.append(len(inside))
        write(one)
        inside.pop()

    threads = [threading.Thread(target=connection.run, args=(work,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (connection.run(count), set(most)) == (8, {1})


@NEEDS_FORK
@IGNORES_FORKS
def test_a_fork_closes_it_in_both(connection):
    connection.run(write)
    assert ended_well(run_child(lambda: not connection._opened and connection.run(count) == 1))
    assert not connection._opened
    assert connection.run(count) == 1


def test_garbage_is_not_collected_while_a_fork_holds_it(path):
    """It is locked then, and closing it would wait forever."""
    dropped = SqliteConnection(path)
    dropped.run(count)
    dropped.itself = dropped
    gone = weakref.ref(dropped)
    del dropped

    def fork():
        files._before_fork()
        gc.collect()
        files._after_fork_in_parent()

    thread = threading.Thread(target=fork, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    gc.collect()
    assert gone() is None
