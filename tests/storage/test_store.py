"""A store: read and written by threads or event loops, it never makes a ranking fail."""

import asyncio
import os
import sqlite3
import threading
import time
from unittest.mock import Mock

import pytest

from secondpass.errors import ConfigurationError
from secondpass.storage import store as storing
from secondpass.storage import store_file
from secondpass.storage.store import Store
from secondpass.storage.store_file import StoreFile
from store_kinds import KEYS, KINDS


@pytest.fixture
def opened(kind, path):
    """Opens stores, and closes them at the end."""
    stores = []

    def opened(max_bytes=10**8):
        stores.append(Store(path, kind.layout, max_bytes))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


@pytest.fixture
def store(opened):
    return opened()


def read(store, keys=KEYS, seconds=None):
    return asyncio.run(store.read(keys, seconds))


def write(store, values, seconds=None):
    store.write_soon(values)
    asyncio.run(store.written(seconds))


def get(store):
    return store.get_many(KEYS)


def put(store, values):
    store.put_many(values)


WAYS = pytest.mark.parametrize(
    ("get", "put"), [(get, put), (read, write)], ids=["of a thread", "of an event loop"]
)


@WAYS
def test_values_come_back_and_none_deletes(opened, kind, get, put):
    store, values = opened(), kind.values(0, 3)
    put(store, values)
    assert get(store) == values
    put(store, {KEYS[0]: None})
    del values[KEYS[0]]
    assert get(store) == values
    store.close()
    assert get(opened()) == values
    assert store.issues() == []


def test_nothing_is_opened_before_it_is_used(store, tmp_path):
    assert read(store, []) == store.get_many([]) == {}
    asyncio.run(store.written(None))
    store.put_many({})
    store.check()
    assert list(tmp_path.iterdir()) == []


def test_without_time_nothing_is_read(store, kind):
    write(store, kind.values(0, 1))
    assert read(store, seconds=0) == {}
    assert store.issues() == []


@pytest.fixture
def blocked_writes(monkeypatch):
    """Nothing is written until the test ends."""
    release, put_many = threading.Event(), StoreFile.put_many

    def slow(self, *arguments):
        assert release.wait(60)
        return put_many(self, *arguments)

    monkeypatch.setattr(StoreFile, "put_many", slow)
    monkeypatch.setattr(storing, "_MAX_WAIT", 0.02)
    yield
    release.set()
    monkeypatch.setattr(storing, "_MAX_WAIT", 60.0)


def test_values_that_wait_are_found(store, kind, request):
    write(store, kind.values(0, 2))
    request.getfixturevalue("blocked_writes")
    write(store, {KEYS[0]: None, **kind.values(2, 3)})
    assert {issue.code for issue in store.issues()} == {"cache_failed"}
    assert store._waiting == {KEYS[0]: None, **kind.values(2, 3)}
    assert store.get_many(KEYS) == kind.values(1, 3)


def test_few_values_wait(store, kind, blocked_writes, monkeypatch):
    monkeypatch.setattr(storing, "_MAX_WAITING", 2)
    store.write_soon(kind.values(0, 4))
    store.write_soon({KEYS[3]: None})
    assert store._waiting == {**kind.values(0, 2), KEYS[3]: None}


def test_a_file_that_does_not_respond_is_not_waited_for(store, kind, monkeypatch):
    release = threading.Event()
    get_many = StoreFile.get_many

    def slow(self, *arguments):
        assert release.wait(60)
        return get_many(self, *arguments)

    write(store, kind.values(0, 1))
    monkeypatch.setattr(StoreFile, "get_many", slow)
    monkeypatch.setattr(storing, "_MAX_WAIT", 0.02)
    try:
        for _ in range(2):  # the second is not tried while the first is late
            assert read(store) == {}
            (issue,) = store.issues()
            assert issue.message.endswith("cannot be used: it did not answer in time")
    finally:
        release.set()
    monkeypatch.setattr(storing, "_MAX_WAIT", 60.0)
    for call in store._late.values():
        assert call.ended(60)
    assert read(store) == kind.values(0, 1)


@pytest.mark.parametrize("kind", [KINDS["answers"]], ids=["answers"])
def test_newer_values_are_not_found_before_a_time(store, kind):
    write(store, kind.values(0, 1))
    store.found_before = 0.0
    store._waiting = kind.values(1, 2)
    assert store.get_many(KEYS) == {}


def test_uses_are_written_in_the_background(opened, kind, path, monkeypatch):
    """Those of a store that only reads, too."""
    monkeypatch.setattr(store_file, "_MAX_READ_AGAIN", 3)
    opened().put_many(kind.values(0, 10))
    assert opened(24_000).get_many(KEYS[:4]) == kind.values(0, 4)
    until, newest = time.monotonic() + 60, 0
    while newest <= 10 and time.monotonic() < until:
        time.sleep(0.01)
        with sqlite3.connect(path) as connection:
            query = f"SELECT max(used) FROM {kind.layout.table}"
            [(newest,)] = connection.execute(query)
        connection.close()
    assert newest == 14


def test_delete(store, kind, tmp_path):
    write(store, kind.values(0, 1))
    store.delete()
    assert list(tmp_path.iterdir()) == []
    assert read(store) == {}


@WAYS
def test_a_file_that_was_set_aside_is_reported_once(store, kind, path, get, put):
    mark = kind.layout.application.to_bytes(4, "big")
    path.write_bytes(b"SQLite format 3\0" + bytes(52) + mark + b"damaged" * 900)
    put(store, kind.values(0, 1))
    (issue,) = store.issues()
    assert issue.code == "cache_set_aside"
    assert "renamed to 'file.set-aside-" in issue.message
    assert store.issues() == []
    assert get(store) == kind.values(0, 1)


FAILURES = {
    "a full disk": (sqlite3.OperationalError("disk is full"), "disk is full"),
    "another user's file": (PermissionError(1, "Not permitted", "/home/a"), "Not permitted"),
    "an unexpected error": (OverflowError("passage"), "it raised OverflowError"),
}


@WAYS
@pytest.mark.parametrize(("error", "reason"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_reported_until_it_ends(store, kind, get, put, error, reason, monkeypatch):
    put(store, kind.values(0, 1))
    monkeypatch.setattr(StoreFile, "_update", Mock(side_effect=error))
    put(store, kind.values(1, 2))
    assert get(store) == kind.values(0, 1)  # reading goes on
    for _ in range(2):
        (issue,) = store.issues()
        assert issue.code == "cache_failed"
        assert issue.message == f"the {kind.layout.name} 'file' cannot be used: {reason}"
    monkeypatch.undo()
    store._file._failures.clear()  # a minute later
    put(store, kind.values(2, 3))
    assert store.issues() == []


@pytest.mark.parametrize("create", [os.mkdir, os.mkfifo], ids=["a folder", "a pipe"])
def test_a_path_of_something_else_is_an_error(store, kind, path, create):
    create(path)
    with pytest.raises(ConfigurationError) as caught:
        store.check()
    message = str(caught.value)
    assert message.startswith(f"{str(path)!r} cannot be a {kind.layout.name}: it is ")
    assert message.endswith("; it was not touched")
