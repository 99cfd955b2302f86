"""Answers that are read and written in threads, and never make a ranking fail."""

import asyncio
import threading

import pytest

from secondpass.storage import store as storing
from secondpass.runtime.answer_file import LAYOUT, AnswerFile
from secondpass.storage.store import AnswerStore

KEYS = [bytes([number]) * 32 for number in range(4)]


@pytest.fixture
def store(tmp_path):
    opened = AnswerStore(str(tmp_path / "answers"), 10**8, None)
    yield opened
    opened.close()


def read(store, *keys, seconds=None):
    return asyncio.run(store.read(keys or KEYS, seconds))


def write(store, texts, seconds=None):
    store.write_soon(texts)
    asyncio.run(store.written(seconds))


def test_texts_come_back(store, tmp_path):
    write(store, {KEYS[0]: "a", KEYS[1]: "b"})
    assert read(store) == {KEYS[0]: "a", KEYS[1]: "b"}
    store.close()
    assert read(AnswerStore(str(tmp_path / "answers"), 10**8, None)) == {KEYS[0]: "a", KEYS[1]: "b"}
    assert store.issues() == []


def test_none_deletes(store):
    write(store, {KEYS[0]: "a", KEYS[1]: "b"})
    write(store, {KEYS[0]: None})
    assert read(store) == {KEYS[1]: "b"}


def test_nothing_is_opened_before_it_is_used(store, tmp_path):
    assert asyncio.run(store.read([], None)) == {}
    asyncio.run(store.written(None))
    assert list(tmp_path.iterdir()) == []


def test_without_time_nothing_is_read(store):
    write(store, {KEYS[0]: "a"})
    assert read(store, seconds=0) == {}
    assert store.issues() == []


@pytest.fixture
def blocked_writes(monkeypatch):
    """Nothing is written until the test ends."""
    release, put_many = threading.Event(), AnswerFile.put_many

    def slow(self, *arguments):
        assert release.wait(60)
        return put_many(self, *arguments)

    monkeypatch.setattr(AnswerFile, "put_many", slow)
    monkeypatch.setattr(storing, "_MAX_WAIT", 0.02)
    yield
    release.set()
    monkeypatch.setattr(storing, "_MAX_WAIT", 60.0)


def test_texts_that_wait_are_found(store, request):
    write(store, {KEYS[0]: "a", KEYS[1]: "b"})
    request.getfixturevalue("blocked_writes")
    write(store, {KEYS[0]: None, KEYS[2]: "c"})
    assert {issue.code for issue in store.issues()} == {"cache_failed"}
    assert store._waiting == {KEYS[0]: None, KEYS[2]: "c"}
    assert store._read(KEYS) == {KEYS[1]: "b", KEYS[2]: "c"}


def test_few_texts_wait(store, blocked_writes, monkeypatch):
    monkeypatch.setattr(storing, "_MAX_WAITING", 2)
    store.write_soon(dict.fromkeys(KEYS, "a"))
    store.write_soon({KEYS[3]: None})
    assert store._waiting == {KEYS[0]: "a", KEYS[1]: "a", KEYS[3]: None}


def test_a_write_that_fails_is_reported(store, monkeypatch):
    monkeypatch.setattr(AnswerFile, "put_many", lambda *_: 1 / 0)
    write(store, {KEYS[0]: "a"})
    (issue,) = store.issues()
    assert issue.code == "cache_failed"
    assert "'answers' cannot be used: put_many raised ZeroDivisionError" in issue.message
    monkeypatch.undo()
    write(store, {KEYS[1]: "b"})
    assert store.issues() == []
    assert read(store, KEYS[1]) == {KEYS[1]: "b"}


def test_a_file_that_does_not_respond_is_not_waited_for(store, monkeypatch):
    release = threading.Event()
    get_many = AnswerFile.get_many

    def slow(self, *arguments):
        assert release.wait(60)
        return get_many(self, *arguments)

    write(store, {KEYS[0]: "a"})
    monkeypatch.setattr(AnswerFile, "get_many", slow)
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
    assert read(store) == {KEYS[0]: "a"}


def test_older_texts_are_not_found_before_a_time(store):
    write(store, {KEYS[0]: "a"})
    store.found_before = 0.0
    assert read(store) == {}


def test_delete(store, tmp_path):
    write(store, {KEYS[0]: "a"})
    store.delete()
    assert list(tmp_path.iterdir()) == []
    assert read(store) == {}


def test_a_file_that_was_set_aside_is_reported_once(tmp_path):
    header = b"SQLite format 3\0" + bytes(52) + LAYOUT.application.to_bytes(4, "big")
    (tmp_path / "answers").write_bytes(header + b"damaged" * 900)
    store = AnswerStore(str(tmp_path / "answers"), 10**8, None)
    write(store, {KEYS[0]: "a"})
    (issue,) = store.issues()
    assert issue.code == "cache_set_aside"
    assert store.issues() == []
    assert read(store) == {KEYS[0]: "a"}
    store.close()
