"""SQLite files of secondpass: created once by any number of processes, and checked when opened.

A path may be that of a user's file by mistake. Only files that do not exist, are empty, or have the
header of a file of the same kind are written.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from contextlib import suppress
from pathlib import Path

from secondpass.storage.connections import connect, is_open, opening
from secondpass.storage.layout import Layout

_OPEN_WITHIN = 10.0  # seconds, while other processes create the same file
_LEAST_SIZE = 4096  # bytes: a page
_SUFFIXES = ("", "-wal", "-shm")  # of the file, and of SQLite's log


class WrongFileError(Exception):
    """A file must not be used: it is not of the expected layout, or of another user.

    Attributes:
        version: of its schema if it is of the same kind, else None.
    """

    def __init__(self, reason: str, version: int | None = None) -> None:
        super().__init__(reason)
        self.version = version


def check_kind(path: Path, layout: Layout, *, again: bool = False) -> None:
    """Check that the file does not exist, is empty, or is of this kind.

    Args:
        path: of the file.
        layout: of its kind.
        again: whether to read a file that is open, and not intact.

    Raises:
        WrongFileError: it is something else.
    """
    with opening:
        _check_kind(path, layout, again)


def _check_kind(path: Path, layout: Layout, again: bool = False) -> None:
    try:
        status = path.stat()
        # Closing a file ends the locks of this process's other connections to it, so one that has
        # any was checked before, and is not opened again. If it was overwritten by a short one,
        # SQLite would take that for an empty database; by a longer one, it fails.
        known = status.st_size >= _LEAST_SIZE and not again
        known = known and is_open((status.st_dev, status.st_ino))
        if not status.st_size or known:
            header = None
        elif not stat.S_ISREG(status.st_mode):
            header = b""
        else:
            with open(path, "rb") as file:
                header = file.read(72)
    except (OSError, ValueError):  # SQLite will say so
        return
    if stat.S_ISDIR(status.st_mode):
        raise WrongFileError("it is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise WrongFileError("it is not a file")
    if header is None:
        return
    if not header.startswith(b"SQLite format 3\0"):
        raise WrongFileError("it is not a file of secondpass")
    if int.from_bytes(header[68:72], "big") != layout.application:
        raise WrongFileError("it is another application's file")


def remove(path: Path, layout: Layout) -> None:
    """Remove a closed file and its log.

    Raises:
        WrongFileError: it is something else.
        OSError: it cannot be removed.
    """
    check_kind(path, layout, again=True)
    for suffix in _SUFFIXES:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def prepare(path: Path, layout: Layout) -> None:
    """Create the file if it does not exist or is empty, and check its layout.

    Only its owner can read and write it: a new file has the mode 0600, and an existing one gets it.

    Raises:
        sqlite3.Error: it is damaged, or cannot be used.
        OSError: its mode cannot be changed.
        WrongFileError: it is something else, of another version, or of another user.
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
    _check_kind(path, layout)
    target = os.path.realpath(path)  # O_EXCL does not follow a link
    # SQLite gives its log the mode of the file.
    with suppress(OSError):
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    _check_owner(target)
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
            raise WrongFileError("it is another application's file")
        if version != layout.version:
            age = "a newer" if version > layout.version else "an older"
            raise WrongFileError(f"it is of {age} version of secondpass", version)
        make_private(path)
        execute("PRAGMA journal_mode = WAL")
        _check(connection, f"SELECT {layout.columns} FROM {layout.table} LIMIT 1")
    finally:
        connection.close()


def _check_owner(target: str) -> None:
    for suffix in _SUFFIXES:
        with suppress(FileNotFoundError):
            if hasattr(os, "geteuid") and os.stat(target + suffix).st_uid != os.geteuid():
                raise WrongFileError("it belongs to another user")


def make_private(path: Path) -> None:
    """Take the rights to a file of secondpass and its log from others.

    Raises:
        OSError: that is not possible.
    """
    target = os.path.realpath(path)
    for suffix in _SUFFIXES:
        with suppress(FileNotFoundError):
            if hasattr(os, "geteuid") and os.stat(target + suffix).st_mode & 0o077:
                os.chmod(target + suffix, 0o600)


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
