"""SQLite files of secondpass: created once by any number of processes, and checked when opened."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secondpass.concurrency.sqlite_connection import connect, opening

_OPEN_WITHIN = 10.0  # seconds, while other processes create the same file
_KEYS_PER_SELECT = 500  # older versions of SQLite allow 999 parameters


@dataclass(frozen=True)
class Layout:
    """The layout of one kind of file.

    Attributes:
        application: SQLite's ``application_id``, which identifies the kind.
        version: of the schema, from 1.
        schema: statements that create its tables.
        checks: queries that succeed in a file of this layout.
        private: whether a new file is only for its owner (mode 0600).
    """

    application: int
    version: int
    schema: Sequence[str]
    checks: Sequence[str]
    private: bool = False


class WrongFileError(Exception):
    """A file is intact, but not of the expected layout.

    Attributes:
        version: of its schema if it is of the same kind, else None.
    """

    def __init__(self, version: int | None) -> None:
        super().__init__(version)
        self.version = version


def prepare(path: Path, layout: Layout) -> None:
    """Create the file if it does not exist or is empty, and check its layout.

    Raises:
        sqlite3.Error: it is damaged, or cannot be used.
        WrongFileError: it is another application's file, or of another version.
    """
    deadline = time.monotonic() + _OPEN_WITHIN
    while True:
        try:
            with opening:
                _prepare(path, layout)
            return
        except sqlite3.Error as error:
            # Switching to a write-ahead log fails at once if another process is doing the same.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _prepare(path: Path, layout: Layout) -> None:
    if layout.private:
        # SQLite gives its log the mode of the file. An existing file is never opened here: closing
        # it would end the locks of other connections of this process.
        with suppress(OSError):
            target = os.path.realpath(path)  # O_EXCL does not follow a link
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = connect(path.as_uri() + "?mode=rwc", _OPEN_WITHIN)
    try:
        execute = connection.execute
        if _mark(connection) == (0, 0):
            execute("BEGIN IMMEDIATE")
            [(tables,)] = execute("SELECT count(*) FROM sqlite_master")
            if tables == 0:  # still: another process may have created them
                for statement in layout.schema:
                    execute(statement)
                execute(f"PRAGMA application_id = {layout.application}")
                execute(f"PRAGMA user_version = {layout.version}")
            execute("COMMIT")
        application, version = _mark(connection)
        if application != layout.application:
            raise WrongFileError(None)
        if version != layout.version:
            raise WrongFileError(version)
        execute("PRAGMA journal_mode = WAL")
        for query in layout.checks:
            _check(connection, query)
    finally:
        connection.close()


def _check(connection: sqlite3.Connection, query: str) -> None:
    try:
        connection.execute(query).fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise sqlite3.DatabaseError(str(error)) from None  # a table or column is missing


def _mark(connection: sqlite3.Connection) -> tuple[int, int]:
    [(application,)] = connection.execute("PRAGMA application_id")
    [(version,)] = connection.execute("PRAGMA user_version")
    return application, version


def rows_of_keys(
    connection: sqlite3.Connection, table: str, columns: str, keys: Sequence[bytes]
) -> list[Any]:
    """The existing rows of a table with these values in its column ``key``.

    Args:
        connection: to the file.
        table: its name.
        columns: to return, as SQL.
        keys: distinct.
    """
    rows: list[Any] = []
    for start in range(0, len(keys), _KEYS_PER_SELECT):
        part = keys[start : start + _KEYS_PER_SELECT]
        names = ",".join(["(?)"] * len(part))
        # Faster than IN, than a temporary table, and than one SELECT for each key.
        rows += connection.execute(
            f"WITH wanted(name) AS (VALUES {names}) "
            f"SELECT {columns} FROM wanted CROSS JOIN {table} ON key = name",
            part,
        ).fetchall()
    return rows
