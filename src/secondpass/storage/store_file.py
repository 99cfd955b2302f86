"""A SQLite file of secondpass: opened at first use, and tried again a minute after a failure.

A file that is damaged, or of an older version, is renamed and replaced. Files of others, and those
of a newer version, are left alone.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from secondpass.concurrency.lazy import ForkLock
from secondpass.storage.connections import Connection, inode_of
from secondpass.storage.files import (
    Layout,
    WrongFileError,
    check_kind,
    make_private,
    prepare,
)
from secondpass.types import Issue

T = TypeVar("T")

READ, WRITE = 0, 1
_OPEN = 2
_RETRY_AFTER = 60.0
"""Seconds after a failure, in which calls fail without touching the file."""


class SQLiteFileError(Exception):
    """The file cannot be used now. The message names it without its folder."""


class SQLiteFile:
    """A file with two connections, for any number of threads, and for forked children.

    Args:
        path: of the file; created at first use if it does not exist.
        layout: of the file.

    Attributes:
        set_aside: the new name of a file that was damaged or outdated; None if there was none.
    """

    def __init__(self, path: str | os.PathLike[str], layout: Layout) -> None:
        self._path = Path(path).absolute()  # the working directory may change
        self._layout = layout
        self.set_aside: str | None = None
        self._lock = ForkLock()
        # To read and to write, so that reading does not wait while another process writes.
        self._connections: tuple[Connection, Connection] | None = None
        self._inode: tuple[int, int] | None = None
        self._failures: dict[int, tuple[float, str]] = {}

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        with self._lock:
            self._close()

    def set_aside_issues(self) -> list[Issue]:
        """The issue of a file that was set aside, for the first report after it."""
        name, self.set_aside = self.set_aside, None
        if name is None:
            return []
        message = f"a damaged or outdated file was renamed to {name!r}, and replaced"
        return [Issue("cache_set_aside", message)]

    def _close(self) -> None:
        connections, self._connections = self._connections, None
        for connection in connections or ():
            connection.close()

    def run(self, number: int, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of ``work``; a damaged or outdated file is replaced first.

        Args:
            number: READ or WRITE, each with its own connection.
            work: is passed the connection; called again after the file was replaced.

        Raises:
            SQLiteFileError: the work failed now, or less than a minute ago.
        """
        self._check(number)
        try:
            try:
                result = self._open()[number].run(work)
            except (sqlite3.DatabaseError, WrongFileError) as error:
                if not self._is_useless(error):
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
            SQLiteFileError: there was one.
        """
        until, message = self._failures.get(number, (0.0, ""))
        if time.monotonic() < until:
            raise SQLiteFileError(message)

    def _failed(self, number: int, error: Exception) -> SQLiteFileError:
        message = self._message(error)
        self._failures[number] = time.monotonic() + _RETRY_AFTER, message
        with self._lock:
            self._close()
        return SQLiteFileError(message)

    def _message(self, error: Exception) -> str:
        reason = str(error)
        if isinstance(error, OSError):
            reason = error.strerror or type(error).__name__
        return f"{self._path.name!r} cannot be used: {reason}"

    def _is_useless(self, error: Exception) -> bool:
        """Whether the file is one of ours that is damaged or outdated, and has to be replaced."""
        if isinstance(error, WrongFileError):
            return error.version is not None and error.version < self._layout.version
        if type(error) is not sqlite3.DatabaseError:  # its subclasses: locks, disks, statements
            return False
        with suppress(WrongFileError):
            check_kind(self._path, self._layout, again=True)
            return True
        return False

    def _open(self) -> tuple[Connection, Connection]:
        """The connections to read and to write.

        Raises:
            sqlite3.Error | OSError | ValueError | WrongFileError: the file cannot be used.
            SQLiteFileError: it could not be opened less than a minute ago.
        """
        with self._lock:
            if self._connections is None:
                self._check(_OPEN)  # threads that waited for the lock must not try one by one
                self._inode = inode_of(self._path)  # for _set_aside, if the file is damaged
                try:
                    prepare(self._path, self._layout)
                except Exception as error:
                    if not self._is_useless(error):
                        self._failures[_OPEN] = (
                            time.monotonic() + _RETRY_AFTER,
                            self._message(error),
                        )
                    raise
                self._inode = inode_of(self._path)
                self._connections = Connection(self._path), Connection(self._path)
            return self._connections

    def _set_aside(self) -> None:
        """Rename the file, unless another process has done so already.

        Raises:
            OSError: it cannot be renamed.
        """
        with self._lock:
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
