"""Scores of pairs in a SQLite file, for any number of threads and processes.

``used`` orders the pairs by their last use: it is the number of the transaction that wrote the
pair, and it is updated when an old pair is read. Each write deletes the least recently used pairs
above the capacity, so that no call deletes many.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import TypeVar

from secondpass.storage.store_file import READ, WRITE, SQLiteFile, SQLiteFileError
from secondpass.storage.files import Layout, counter, rows_of_keys
from secondpass.runtime import diagnostics
from secondpass.types import Issue

T = TypeVar("T")

CAPACITY = 1_000_000
"""Pairs that a file keeps."""

LAYOUT = Layout(
    application=0x73706373,
    version=1,
    schema=(
        # A column of no type: REAL would turn -0.0 into 0.0.
        "CREATE TABLE pairs (key BLOB PRIMARY KEY, score, used INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE INDEX pairs_by_use ON pairs (used)",
        "CREATE TABLE state (pairs INTEGER NOT NULL)",
        "INSERT INTO state VALUES (0)",
    ),
    checks=("SELECT pairs FROM state", "SELECT key, score, used FROM pairs LIMIT 1"),
)

_MAX_READ_AGAIN = 10_000
"""Old pairs that were read since the last write, whose use is recorded by the next one."""


class SQLiteScores(SQLiteFile):
    """A :class:`~secondpass.scorers.engines.score_cache.ScoreCache` in a SQLite file.

    Args:
        path: of the file; created if it does not exist, readable by its owner only.
        capacity: number of pairs; about 150 bytes each.
    """

    def __init__(self, path: str | os.PathLike[str], capacity: int = CAPACITY) -> None:
        super().__init__(path, LAYOUT)
        self._capacity = capacity
        self._old = 0
        self._read_again: dict[bytes, None] = {}
        self._problems: dict[int, str] = {}
        """Why the last call to read or to write failed."""
        self._logged = False

    def issues(self) -> list[Issue]:
        """What is wrong with the file, for a report."""
        reasons = dict.fromkeys(list(self._problems.values()))
        issues = [Issue("cache_failed", f"the score cache {reason}") for reason in reasons]
        return issues + self.set_aside_issues()

    def get_many(self, keys: Sequence[bytes]) -> list[float | None]:
        """The score of each pair, or None."""
        if not keys:
            return []
        rows = self._tried(READ, lambda connection: _select(connection, keys)) or []
        for key, _, used in rows:
            if used < self._old and len(self._read_again) < _MAX_READ_AGAIN:
                self._read_again[key] = None
        scores = {key: score for key, score, _ in rows}
        return [scores.get(key) for key in keys]

    def put_many(self, pairs: Iterable[tuple[bytes, float]]) -> None:
        """Keep finite scores. A pair that is known keeps its score."""
        kept = [(key, float(score)) for key, score in pairs if isfinite(score)]
        if kept:
            self._write(kept)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        if self._read_again:
            self._write([])
        super().close()

    def _write(self, pairs: list[tuple[bytes, float]]) -> None:
        read_again, self._read_again = self._read_again, {}

        def work(connection: sqlite3.Connection) -> int:
            return _update(connection, pairs, list(read_again), self._capacity)

        self._old = self._tried(WRITE, work) or self._old

    def _tried(self, number: int, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of ``work``; None if the file cannot be used."""
        try:
            result = self.run(number, work)
        except SQLiteFileError as error:
            problem = str(error)
        except Exception as error:
            problem = f"{self._path.name!r} cannot be used: it raised {type(error).__name__}"
        else:
            self._problems.pop(number, None)
            return result
        self._problems[number] = problem
        if not self._logged:
            self._logged = True
            diagnostics.log("warning", "the score cache %s", problem)
        return None


def _select(
    connection: sqlite3.Connection, keys: Sequence[bytes]
) -> list[tuple[bytes, float, int]]:
    rows = rows_of_keys(connection, "pairs", "key, score, used", keys)
    for _, score, used in rows:
        counter(used)
        if not isinstance(score, float) or not isfinite(score):
            raise sqlite3.DatabaseError("a score in it is damaged")
    return rows


def _update(
    connection: sqlite3.Connection,
    pairs: Sequence[tuple[bytes, float]],
    read_again: Sequence[bytes],
    capacity: int,
) -> int:
    """Write pairs, and delete the oldest ones above the capacity.

    Returns:
        a value of ``used`` below which a pair is among the older half.
    """
    execute = connection.execute
    execute("BEGIN IMMEDIATE")
    [(newest,)] = execute("SELECT coalesce(max(used), 0) FROM pairs")
    used = counter(newest) + 1
    connection.executemany(
        "UPDATE pairs SET used = ? WHERE key = ?", [(used, key) for key in read_again]
    )
    added = connection.executemany(
        "INSERT OR IGNORE INTO pairs VALUES (?, ?, ?)", [(key, score, used) for key, score in pairs]
    ).rowcount
    state = execute("SELECT pairs FROM state").fetchone()
    if state is None:
        raise sqlite3.DatabaseError("the number of pairs is missing")
    count = counter(state[0]) + max(added, 0)
    if count > capacity:
        deleted = execute(
            "DELETE FROM pairs WHERE key IN (SELECT key FROM pairs ORDER BY used LIMIT ?)",
            (count - capacity,),
        ).rowcount
        count -= deleted
        if count > capacity:
            raise sqlite3.DatabaseError("the number of pairs is wrong")
    execute("UPDATE state SET pairs = ?", (count,))
    [(oldest,)] = execute("SELECT coalesce(min(used), 0) FROM pairs")
    execute("COMMIT")
    return (counter(oldest) + used) // 2
