"""Keys and values in a SQLite file, for any number of threads and processes.

The file is opened at first use, and tried again a minute after a failure. One that is damaged, or
of an older version, is renamed and replaced. Files of others, and those of a newer version, are
left alone.

``used`` orders the rows by their last use: it is written with them and, once the file is half full,
again when one of the older half was read. Each write deletes a few of the least recently used.

A row has a checksum of its key and its value, so that neither a changed value nor the value of
another key is returned. A row whose checksum is wrong is as good as absent, and the next write
deletes it.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count, repeat
from pathlib import Path
from typing import Any, TypeVar

from secondpass.concurrency.locks import fork_lock
from secondpass.storage import Layout, Readers, StoreFileError
from secondpass.storage.files import (
    SqliteConnection,
    WrongFileError,
    can_write,
    check_kind,
    check_readable,
    inode_of,
    make_private,
    prepare,
)

T = TypeVar("T")

_READ, _WRITE, _OPEN = 0, 1, 2
_RETRY_AFTER = 60.0  # seconds after a failure, in which calls fail without touching the file
_CLOCK_ERROR = 300.0  # seconds by which the clocks of machines that share a file may differ
_KEYS_PER_SELECT = 500  # older versions of SQLite allow 999 parameters
_DELETED_AT_ONCE = 20  # rows that one statement deletes at least
_MAX_DELETIONS = 50  # such statements in one transaction
_MAX_READ_AGAIN = 1000
"""Number of old rows read since the last write at which their use should be recorded."""
_SIZE_FOR = 10.0
"""Seconds after which the size of a file is looked up again, which other processes may write."""
_MAX_READERS = 8
"""Connections that read side by side. Each is opened when it is needed."""
_MAX_COUNTER = 2**62  # SQLite's whole numbers end below 2**63
_WHOLE = f"used >= 0 AND used < {_MAX_COUNTER}"
"""Of rows whose ``used`` is not damaged: a text is larger than all numbers."""
_MAX_VALUE = 10_000_000
"""Bytes of a value that is read, a hundred times those of the longest passage."""


class StoreFile:
    """A file with several connections, for any number of threads, and for forked children.

    Its methods raise a StoreFileError if the file cannot be used.

    Args:
        path: of the file; created if it does not exist, readable by its owner only.
        layout: of the file.
        max_bytes: maximum size of the file, without SQLite's log of up to 4 MB.
        max_age: seconds after which a value is no longer returned, if ``layout`` has the time of
            writing; None for no limit.
        readers: who may read a file that is created.

    Attributes:
        set_aside: the new name of a file that was damaged or outdated; None if there was none.
    """

    def __init__(
        self,
        path: Path,
        layout: Layout,
        max_bytes: int,
        max_age: float | None = None,
        readers: Readers = "owner",
    ) -> None:
        self._path = path
        self._layout = layout
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._readers = readers
        self.set_aside: str | None = None
        self._read_again: dict[bytes, None] = {}
        self._damaged: dict[bytes, None] = {}
        self._size, self._size_until, self._page_size = 0, 0.0, 0
        self._lock = fork_lock()
        self._connections: _Connections | None = None
        self._inode: tuple[int, int] | None = None
        self._failures: dict[int, tuple[float, str]] = {}

    # ------------------------------------------------------------------ rows

    def get_many(self, keys: Sequence[bytes], before: float | None = None) -> dict[bytes, bytes]:
        """The stored values, by key: those written before a value of :func:`time.time`, or all."""
        found = self._run(_READ, lambda connection: self._select(connection, keys))
        assert found is not None
        rows, old = found
        if before is not None or self._max_age is not None:
            now = time.time()
            oldest = -math.inf if self._max_age is None else now - self._max_age
            # Rows from the future were written while a clock was ahead; their age is not known.
            newest = math.inf if self._max_age is None else now + _CLOCK_ERROR
            newest = newest if before is None else min(newest, before)
            rows = [row for row in rows if oldest <= row[4] < newest]
        if old and self._connections is not None and self._connections.writer is not None:
            self._read_again.update((row[0], None) for row in rows if row[1] < old)
        return {row[0]: row[3] for row in rows}

    @property
    def is_due(self) -> bool:
        """Whether :meth:`put_many` should record that many old rows were read."""
        return len(self._read_again) >= _MAX_READ_AGAIN

    def put_many(self, values: Mapping[bytes, bytes | None]) -> None:
        """Store values; None deletes that of its key. A file that is only read stays as it is."""
        read_again, self._read_again = self._read_again, {}
        damaged, self._damaged = self._damaged, {}
        # Copies: a thread that reads may still add to them.
        keys = list(read_again), list(damaged)
        self._run(_WRITE, lambda connection: self._update(connection, values, *keys))

    def free_bytes(self) -> int:
        """Bytes that can be written until the least recently used rows are deleted."""
        used = self._run(_READ, _bytes_in_use) or 0
        return self._max_bytes - used

    def contents(self) -> dict[str, Any]:
        """The number of rows, the bytes of the pages in use, and whether it can be written."""

        def measure(connection: sqlite3.Connection) -> tuple[int, int]:
            [(rows,)] = connection.execute(f"SELECT count(*) FROM {self._layout.table}")
            return rows, _bytes_in_use(connection)

        rows, size = self._run(_READ, measure) or (0, 0)
        opened = self._connections
        return {
            "rows": rows,
            "bytes": size,
            "max_bytes": self._max_bytes,
            "writable": opened is not None and opened.writer is not None,
        }

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        try:
            if self._read_again:
                self.put_many({})
        finally:
            with self._lock:
                self._close()

    def _select(
        self, connection: sqlite3.Connection, keys: Sequence[bytes]
    ) -> tuple[list[tuple[Any, ...]], float]:
        """The rows of keys, and a value of ``used``: the use of rows below it has to be recorded.

        A row has the columns of the layout.
        """
        table, columns = self._layout.table, _readable(self._layout)
        rows: list[tuple[Any, ...]] = []
        for start in range(0, len(keys), _KEYS_PER_SELECT):
            part = keys[start : start + _KEYS_PER_SELECT]
            names = ",".join(["(?)"] * len(part))
            # Faster than IN, than a temporary table, and than one SELECT for each key.
            rows += connection.execute(
                f"WITH wanted(name) AS (VALUES {names}) "
                f"SELECT {columns} FROM wanted CROSS JOIN {table} ON key = name",
                part,
            ).fetchall()
        rows, read = _whole(rows, self._layout), rows
        if len(rows) < len(read):
            damaged = {row[0] for row in read} - {row[0] for row in rows}
            self._damaged.update(dict.fromkeys(damaged))
        if time.monotonic() > self._size_until:
            self._size = self._size_of(connection)
        if not rows or self._size <= self._max_bytes / 2:  # nothing is deleted soon
            return rows, 0.0
        ends = (f"(SELECT {end}(used) FROM {table} WHERE {_WHOLE})" for end in ("min", "max"))
        [(oldest, newest)] = connection.execute(f"SELECT {', '.join(ends)}")
        if oldest is None:  # another process has deleted all of them
            return rows, 0.0
        return rows, (oldest + newest) / 2

    def _update(
        self,
        connection: sqlite3.Connection,
        values: Mapping[bytes, bytes | None],
        read_again: Sequence[bytes],
        damaged: Sequence[bytes],
    ) -> None:
        table, columns = self._layout.table, self._layout.columns
        execute, execute_all = connection.execute, connection.executemany
        now = time.time()
        execute("BEGIN IMMEDIATE")
        [(newest,)] = execute(f"SELECT coalesce(max(used), 0) FROM {table} WHERE {_WHOLE}")
        used = count(int(newest) + 1)
        again = [(next(used), key) for key in read_again]
        execute_all(f"UPDATE {table} SET used = ? WHERE key = ?", again)
        deleted = [*damaged, *(key for key, value in values.items() if value is None)]
        if deleted:
            execute("PRAGMA secure_delete = ON")  # what is deleted on request is overwritten
            execute_all(f"DELETE FROM {table} WHERE key = ?", zip(deleted))
            execute("PRAGMA secure_delete = OFF")
        new = {key: value for key, value in values.items() if value is not None}
        checksums = map(_checksum, new, new.values())
        times = [repeat(now)] if self._layout.dated else []
        conflict = "IGNORE" if self._layout.first_wins else "REPLACE"
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        execute_all(
            f"INSERT OR {conflict} INTO {table} ({names}) VALUES ({marks})",
            zip(new, used, checksums, new.values(), *times, strict=False),
        )
        oldest = f"key IN (SELECT key FROM {table} ORDER BY used LIMIT ?)"
        if self._max_age is not None:
            # Outdated rows are not returned, so they are among the least recently used.
            statement = f"DELETE FROM {table} WHERE {oldest} AND written < ?"
            execute(statement, (_DELETED_AT_ONCE, now - self._max_age))
        # Together more than were written, or the limit would not be reached.
        number = max(_DELETED_AT_ONCE, 2 * len(new) // _MAX_DELETIONS + 1)
        for _ in range(_MAX_DELETIONS):
            if self._size_of(connection) <= self._max_bytes:
                break
            execute(f"DELETE FROM {table} WHERE {oldest}", (number,))
        execute("COMMIT")

    def _size_of(self, connection: sqlite3.Connection) -> int:
        """Bytes of the file; of its pages in use, once it is half full. They are kept a while."""
        execute = connection.execute
        if not self._page_size:
            [(self._page_size,)] = execute("PRAGMA page_size")
        [(pages,)] = execute("PRAGMA page_count")
        if pages * self._page_size > self._max_bytes / 2:
            pages -= execute("PRAGMA freelist_count").fetchone()[0]
        self._size, self._size_until = pages * self._page_size, time.monotonic() + _SIZE_FOR
        return self._size

    # ------------------------------------------------------------------ the file

    def _run(self, number: int, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of ``work`` with a connection; once more after a useless file was replaced.

        ``number`` is _READ or _WRITE. None if the file is only read, and this would write.
        """
        self._check(number)
        try:
            opened = None
            try:
                opened = self._open()
                result = opened.run(number, work)
            except (sqlite3.DatabaseError, WrongFileError) as error:
                if not self._is_useless(error):
                    raise
                self._set_aside(opened)
                result = self._open().run(number, work)
        except (sqlite3.Error, OSError, ValueError, WrongFileError) as error:
            self._fail(number, error)
            with self._lock:
                self._close()
            raise StoreFileError(self._failures[number][1]) from None
        self._failures.pop(number, None)
        return result

    def _check(self, number: int) -> None:
        """Raise the error of the last minute again, if there was one."""
        until, message = self._failures.get(number, (0.0, ""))
        if time.monotonic() < until:
            raise StoreFileError(message)

    def _fail(self, number: int, error: Exception) -> None:
        """Remember an error for a minute."""
        reason = str(error)
        if isinstance(error, OSError):
            reason = error.strerror or type(error).__name__
        message = f"{self._path.name!r} cannot be used: {reason}"
        self._failures[number] = time.monotonic() + _RETRY_AFTER, message

    def _is_useless(self, error: Exception) -> bool:
        """Whether the file is one of ours that is damaged or outdated, and has to be replaced."""
        if self._is_read_only():
            return False
        if isinstance(error, WrongFileError):
            return error.version is not None and error.version < self._layout.version
        if type(error) is not sqlite3.DatabaseError:  # its subclasses: locks, disks, statements
            return False
        with suppress(WrongFileError):
            check_kind(self._path, self._layout, again=True)
            return True
        return False

    def _is_read_only(self) -> bool:
        """Whether the file is read, but cannot be written."""
        return self._layout.read_only and not can_write(self._path)

    def _open(self) -> _Connections:
        with self._lock:
            if self._connections is None:
                self._check(_OPEN)  # threads that waited for the lock must not try one by one
                self._inode = inode_of(self._path)  # for _set_aside, if the file is damaged
                read_only = self._is_read_only()
                try:
                    if read_only:
                        check_readable(self._path, self._layout)
                    else:
                        prepare(self._path, self._layout, self._readers)
                except Exception as error:
                    if not self._is_useless(error):
                        self._fail(_OPEN, error)
                    raise
                self._inode = inode_of(self._path)
                self._size_until, self._page_size = 0.0, 0
                self._connections = _Connections(self._path, read_only=read_only)
            return self._connections

    def _close(self) -> None:
        connections, self._connections = self._connections, None
        if connections is not None:
            connections.close()

    def _set_aside(self, opened: _Connections | None) -> None:
        """Rename the file, unless another thread or process has done so already.

        ``opened`` are the connections that met the damage; None if it prevented opening.
        """
        with self._lock:
            if self._connections is not opened and self._connections is not None:
                return
            self._close()
            if self._inode is not None and inode_of(self._path) == self._inode:
                make_private(self._path)
                target = Path(os.path.realpath(self._path))  # its log is beside it
                name = f"{target.name}.set-aside-{time.strftime('%Y%m%d-%H%M%S')}"
                for suffix in ("-wal", "-shm", ""):  # its log first: a new file must not read it
                    with suppress(FileNotFoundError):
                        source = target.with_name(target.name + suffix)
                        source.replace(target.with_name(name + suffix))
                self.set_aside = name


class _Connections:
    """Connections to read, one for each thread up to a number, and one to write.

    Reading does not wait while another process writes, nor for other threads.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._readers = [SqliteConnection(path, read_only=read_only) for _ in range(_MAX_READERS)]
        self.writer = None if read_only else SqliteConnection(path)

    def run(self, number: int, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of ``work`` with a connection to read or to write; None if none can write."""
        if number == _READ:
            free = (reader for reader in self._readers if not reader.busy)
            return next(free, self._readers[0]).run(work)
        return None if self.writer is None else self.writer.run(work)

    def close(self) -> None:
        for connection in (*self._readers, self.writer):
            if connection is not None:
                connection.close()


def _readable(layout: Layout) -> str:
    """The columns of a layout to select, without values that are too large to be read."""
    value = f"CASE WHEN typeof(value) = 'blob' AND length(value) <= {_MAX_VALUE} THEN value END"
    return ", ".join(value if name == "value" else name for name in layout.columns)


def _checksum(key: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key))


def _whole(rows: Sequence[tuple[Any, ...]], layout: Layout) -> list[tuple[Any, ...]]:
    """The rows that are as they were written. SQLite does not check types."""
    dated = layout.dated
    return [
        row
        for row in rows
        if type(row[3]) is bytes
        and row[2] == _checksum(row[0], row[3])
        and type(row[1]) is int
        and (not dated or type(row[4]) is float)
    ]


def _bytes_in_use(connection: sqlite3.Connection) -> int:
    [(pages,)] = connection.execute("PRAGMA page_count")
    [(free,)] = connection.execute("PRAGMA freelist_count")
    [(size,)] = connection.execute("PRAGMA page_size")
    used: int = (pages - free) * size
    return used
