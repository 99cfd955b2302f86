"""Answers in a SQLite file, for any number of threads and processes.

``used`` orders the answers by their last use. Each write deletes a few of the least recently used,
so that no call deletes many.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence

from secondpass.storage.store_file import READ, WRITE, SQLiteFile
from secondpass.storage.files import Layout, counter, rows_of_keys

LAYOUT = Layout(
    application=0x73707261,
    version=1,
    schema=(
        "CREATE TABLE answers (used INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, "
        "value TEXT NOT NULL, written REAL NOT NULL)",
    ),
    checks=("SELECT used, key, value, written FROM answers LIMIT 1",),
)

_CLOCK_ERROR = 300.0
"""Seconds by which the clocks of machines that share a file may differ."""
_DELETED_AT_ONCE = 20
"""Answers that one statement deletes."""
_MAX_DELETIONS = 50
"""Such statements in one transaction."""
_MAX_READ_AGAIN = 256
"""Number of old answers read since the last write at which their use should be recorded."""


class AnswerFile(SQLiteFile):
    """A bounded map from keys to texts, which drops the least recently used entries.

    Args:
        path: of the file; created if it does not exist, readable by its owner only.
        max_bytes: maximum size of the file, without SQLite's log of up to 4 MB.
        max_age: seconds after which an answer is no longer returned; None for no limit.
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int, max_age: float | None) -> None:
        super().__init__(path, LAYOUT)
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._read_again: dict[bytes, None] = {}

    def get_many(self, keys: Sequence[bytes], before: float | None = None) -> dict[bytes, str]:
        """The stored texts, by key.

        Args:
            keys: at least one.
            before: return only texts written before this value of :func:`time.time`.

        Raises:
            SQLiteFileError: the file cannot be used.
        """
        rows, old = self.run(READ, lambda connection: _select(connection, keys))
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
            SQLiteFileError: the file cannot be written.
        """
        read_again, self._read_again = self._read_again, {}
        # A copy: a thread that reads may still add to it.
        keys = list(read_again)
        self.run(WRITE, lambda connection: self._update(connection, texts, keys))

    def close(self) -> None:
        """Close the file; a later call opens it again.

        Raises:
            SQLiteFileError: the file cannot be written.
        """
        try:
            if self._read_again:
                self.put_many({})
        finally:
            super().close()

    def _update(
        self,
        connection: sqlite3.Connection,
        texts: Mapping[bytes, str | None],
        read_again: Collection[bytes],
    ) -> bool:
        execute = connection.execute
        now = time.time()
        execute("BEGIN IMMEDIATE")
        [(newest,)] = execute("SELECT coalesce(max(used), 0) FROM answers")
        used = counter(newest)
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
