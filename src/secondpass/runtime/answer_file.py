"""Answers in a SQLite file, for any number of threads and processes.

``used`` orders the answers by their last use. Each write deletes a few of the least recently used,
so that no call deletes many. A file that is damaged, or of an older version, is renamed and
replaced.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from secondpass.concurrency.lazy import ForkLock
from secondpass.concurrency.sqlite_connection import Connection
from secondpass.concurrency.sqlite_files import Layout, WrongFileError, prepare, rows_of_keys

T = TypeVar("T")

LAYOUT = Layout(
    application=0x73707261,
    version=1,
    schema=(
        "CREATE TABLE answers (used INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, "
        "value TEXT NOT NULL, written REAL NOT NULL)",
    ),
    checks=("SELECT used, key, value, written FROM answers LIMIT 1",),
    private=True,
)

_RETRY_AFTER = 60.0
"""Seconds after a failure, in which calls fail without touching the file."""
_CLOCK_ERROR = 300.0
"""Seconds by which the clocks of machines that share a file may differ."""
_DELETED_AT_ONCE = 20
"""Answers that one statement deletes."""
_MAX_DELETIONS = 50
"""Such statements in one transaction."""
_MAX_READ_AGAIN = 256
"""Number of old answers read since the last write at which their use should be recorded."""
_READ, _WRITE, _OPEN = 0, 1, 2


class AnswerFileError(Exception):
    """The file cannot be used now. The message names it without its folder."""


class AnswerFile:
    """A bounded map from keys to texts, which drops the least recently used entries.

    Args:
        path: of the file, absolute; created if it does not exist, readable by its owner only.
        max_bytes: maximum size of the file, without SQLite's log of up to 4 MB.
        max_age: seconds after which an answer is no longer returned; None for no limit.

    Attributes:
        set_aside: the new name of a file that was damaged or outdated; None if there was none.
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int, max_age: float | None) -> None:
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._max_age = max_age
        self.set_aside: str | None = None
        self._lock = ForkLock()
        # To read and to write, so that reading does not wait while another process writes.
        self._connections: tuple[Connection, Connection] | None = None
        self._inode: tuple[int, int] | None = None
        self._failures: dict[int, tuple[float, str]] = {}
        self._read_again: dict[bytes, None] = {}

    def get_many(self, keys: Sequence[bytes], before: float | None = None) -> dict[bytes, str]:
        """The stored texts, by key.

        Args:
            keys: at least one.
            before: return only texts written before this value of :func:`time.time`.

        Raises:
            AnswerFileError: the file cannot be used.
        """
        rows, old = self._run(_READ, lambda connection: _select(connection, keys))
        now = time.time()
        oldest = -math.inf if self._max_age is None else now - self._max_age
        # Rows from the future were written while a clock was ahead; their age is not known.
        newest = math.inf if self._max_age is None else now + _CLOCK_ERROR
        newest = newest if before is None else min(newest, before)
        texts: dict[bytes, str] = {}
        for key, text, written, used in rows:
            # SQLite does not check types: a damaged file may hold anything.
            if isinstance(text, str) and isinstance(written, float) and oldest <= written < newest:
                texts[key] = text
                if used < old:
                    self._read_again[key] = None
        return texts

    @property
    def is_due(self) -> bool:
        """Whether :meth:`put_many` should record that many old answers were read."""
        return len(self._read_again) >= _MAX_READ_AGAIN

    def put_many(self, texts: Mapping[bytes, str | None]) -> None:
        """Store texts; None deletes that of its key.

        Raises:
            AnswerFileError: the file cannot be written.
        """
        read_again, self._read_again = self._read_again, {}
        # A copy: a thread that reads may still add to it.
        keys = list(read_again)
        self._run(_WRITE, lambda connection: self._update(connection, texts, keys))

    def close(self) -> None:
        """Close the file; a later call opens it again.

        Raises:
            AnswerFileError: the file cannot be written.
        """
        try:
            if self._read_again:
                self.put_many({})
        finally:
            with self._lock:
                self._close()

    def _close(self) -> None:
        connections, self._connections = self._connections, None
        for connection in connections or ():
            connection.close()

    def _run(self, number: int, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of ``work``; a damaged or outdated file is replaced first.

        Args:
            number: _READ or _WRITE, each with its own connection.
            work: is passed the connection; called again after the file was replaced.

        Raises:
            AnswerFileError: the work failed now, or less than a minute ago.
        """
        self._check(number)
        try:
            try:
                result = self._open()[number].run(work)
            except (sqlite3.DatabaseError, WrongFileError) as error:
                if not _is_useless(error):
                    raise
                self._set_aside()
                result = self._open()[number].run(work)
        except (sqlite3.Error, OSError, ValueError, WrongFileError) as error:
            raise self._failed(number, error) from None
        if result is None:  # the connection failed in another thread
            raise self._failed(number, sqlite3.OperationalError("it failed a moment ago"))
        self._failures.pop(number, None)
        return result

    def _check(self, number: int) -> None:
        """Raise the error of the last minute again.

        Raises:
            AnswerFileError: there was one.
        """
        until, message = self._failures.get(number, (0.0, ""))
        if time.monotonic() < until:
            raise AnswerFileError(message)

    def _failed(self, number: int, error: Exception) -> AnswerFileError:
        message = self._message(error)
        self._failures[number] = time.monotonic() + _RETRY_AFTER, message
        with self._lock:
            self._close()
        return AnswerFileError(message)

    def _message(self, error: Exception) -> str:
        reason = str(error)
        if isinstance(error, WrongFileError):
            newer = "of a newer version of secondpass"
            reason = "another application's file" if error.version is None else newer
        elif isinstance(error, OSError):
            reason = error.strerror or type(error).__name__
        return f"{self._path.name!r} cannot be used: {reason}"

    def _open(self) -> tuple[Connection, Connection]:
        """The connections to read and to write.

        Raises:
            sqlite3.Error | OSError | ValueError | WrongFileError: the file cannot be used.
            AnswerFileError: it could not be opened less than a minute ago.
        """
        with self._lock:
            if self._connections is None:
                self._check(_OPEN)  # threads that waited for the lock must not try one by one
                if self._path.exists():
                    self._inode = _inode(self._path)  # for _set_aside, if the file is damaged
                try:
                    prepare(self._path, LAYOUT)
                except Exception as error:
                    if not _is_useless(error):
                        self._failures[_OPEN] = (
                            time.monotonic() + _RETRY_AFTER,
                            self._message(error),
                        )
                    raise
                self._inode = _inode(self._path)
                self._connections = Connection(self._path), Connection(self._path)
            return self._connections

    def _set_aside(self) -> None:
        """Rename the file, unless another process has done so already.

        Raises:
            OSError: it cannot be renamed.
        """
        with self._lock:
            self._close()
            if self._path.exists() and _inode(self._path) == self._inode:
                name = f"{self._path.name}.set-aside-{time.strftime('%Y%m%d-%H%M%S')}"
                for suffix in ("-wal", "-shm", ""):  # its log first: a new file must not read it
                    with suppress(FileNotFoundError):
                        source = self._path.with_name(self._path.name + suffix)
                        source.replace(self._path.with_name(name + suffix))
                self.set_aside = name

    def _update(
        self,
        connection: sqlite3.Connection,
        texts: Mapping[bytes, str | None],
        read_again: Collection[bytes],
    ) -> bool:
        execute = connection.execute
        now = time.time()
        execute("BEGIN IMMEDIATE")
        used: int
        [(used,)] = execute("SELECT coalesce(max(used), 0) FROM answers")
        for number, key in enumerate(read_again, used + 1):
            execute("UPDATE answers SET used = ? WHERE key = ?", (number, key))
        used += len(read_again)
        for number, (key, text) in enumerate(texts.items(), used + 1):
            if text is None:
                execute("DELETE FROM answers WHERE key = ?", (key,))
            else:
                row = (number, key, text, now)
                execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", row)
        if self._max_age is not None:
            # Outdated answers are not returned, so they are among the least recently used.
            execute(f"DELETE FROM answers WHERE {_OLDEST} AND written < ?", (now - self._max_age,))
        for _ in range(_MAX_DELETIONS):
            if _size(connection) <= self._max_bytes:
                break
            execute(f"DELETE FROM answers WHERE {_OLDEST}")
        execute("COMMIT")
        return True


def _is_useless(error: Exception) -> bool:
    """Whether the file is damaged or of an older version, so that it has to be replaced."""
    if isinstance(error, WrongFileError):
        return error.version is not None and error.version < LAYOUT.version
    return type(error) is sqlite3.DatabaseError  # subclasses are about locks, disks and statements


_OLDEST = f"used IN (SELECT used FROM answers ORDER BY used LIMIT {_DELETED_AT_ONCE})"


def _size(connection: sqlite3.Connection) -> int:
    """Bytes of the pages in use."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _select(
    connection: sqlite3.Connection, keys: Sequence[bytes]
) -> tuple[list[tuple[bytes, str, float, int]], float]:
    """The rows of keys, and a value of ``used`` below which a row is among the older half."""
    rows = rows_of_keys(connection, "answers", "key, value, written, used", keys)
    query = "SELECT (SELECT min(used) FROM answers), (SELECT max(used) FROM answers)"
    [(oldest, newest)] = connection.execute(query)
    return rows, 0 if oldest is None else (oldest + newest) / 2


def _inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
