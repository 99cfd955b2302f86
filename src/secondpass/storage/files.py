"""SQLite files of secondpass: created once by any number of processes, and checked when opened.

A path may be that of a user's file by mistake. Only files that do not exist, are empty, or have the
header of a file of the same kind are written.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet, finalize

from secondpass.storage import Layout, Readers

T = TypeVar("T")

_WRITE_WITHIN = 2.0  # seconds, while other processes write; a ranking waits for it
_FORK_WITHIN = 5.0  # seconds; a fork waits for it


class SqliteConnection:
    """One connection, for one thread at a time, until an error of SQLite.

    It does not outlive a fork, as SQLite requires.

    A file that is only read may lie in a folder in which SQLite cannot create its log. It is read
    without one then, and opened again when it has changed.

    Attributes:
        inode: device and inode of the file, from the beginning until it is closed; else None.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self._unlocked: tuple[object, ...] | None = None
        """The state of the file when it was opened without locks; None if it was not."""
        self.inode = inode_of(path)
        self._lock = threading.Lock()
        self._opened: list[sqlite3.Connection] = []  # one, or none
        self._failure: sqlite3.Error | None = None
        self._held_at_fork = False
        # Not by __del__: in a cycle, Python 3.13 may finalize the open connection first, and warn.
        finalize(self, _close, self._opened)
        with opening:
            _connections.add(self)

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of ``work``; raises sqlite3.Error if this or an earlier work failed."""
        with self._lock:
            if self._failure is not None:  # threads that waited must not try one by one
                raise type(self._failure)(str(self._failure))
            try:
                if self._unlocked is not None and self._unlocked != _state(self._path):
                    self._close()
                if not self._opened:
                    self.inode = inode_of(self._path)
                    self._opened.append(self._connect())
                return work(self._opened[0])
            except sqlite3.Error as error:
                self._failure = type(error)(str(error))  # a copy, without frames
                self._close()
                raise
            except BaseException:  # an interrupt must not leave the file locked for others
                self._close()
                raise

    @property
    def busy(self) -> bool:
        """Whether a thread uses it."""
        return self._lock.locked()

    def _connect(self) -> sqlite3.Connection:
        uri = self._path.as_uri()
        self._unlocked = None
        if not self._read_only:
            return connect(f"{uri}?mode=rw", _WRITE_WITHIN)
        try:
            return connect(f"{uri}?mode=ro", _WRITE_WITHIN)
        except sqlite3.OperationalError:
            self._unlocked = _state(self._path)
            return connect(f"{uri}?immutable=1", _WRITE_WITHIN)

    def close(self) -> None:
        """Close it; the next :meth:`run` opens it again."""
        with self._lock:
            self._close()

    def before_fork(self) -> None:
        """Close it, and prevent other threads from opening it."""
        self._held_at_fork = self._lock.acquire(timeout=_FORK_WITHIN)
        if self._held_at_fork:
            self._close()

    def after_fork_in_parent(self) -> None:
        """Let other threads open it again."""
        if self._held_at_fork:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Let the child open its own: it can neither use nor close the parent's connection."""
        self._lock = threading.Lock()
        if not self._held_at_fork:
            _left_open.extend(self._opened)
            self._opened.clear()
            self.inode = None
            self._failure = sqlite3.OperationalError("a fork interrupted it")

    def _close(self) -> None:
        _close(self._opened)
        self.inode = None


def _close(opened: list[sqlite3.Connection]) -> None:
    while opened:
        opened.pop().close()  # rolls back


def _state(path: Path) -> tuple[object, ...]:
    """What changes when a file or its log is written."""
    states: list[object] = []
    for suffix in ("", "-wal"):
        try:
            status = path.with_name(path.name + suffix).stat()
        except OSError:
            states.append(None)
        else:
            states.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(states)


def can_write(path: Path) -> bool:
    """Whether this user may write an existing file and beside it, and owns it; or there is none."""
    target = os.path.realpath(path)
    try:
        owner = os.stat(target).st_uid
    except (OSError, ValueError):
        return True
    is_owner = not hasattr(os, "geteuid") or owner == os.geteuid()
    return is_owner and os.access(target, os.W_OK) and os.access(os.path.dirname(target), os.W_OK)


def inode_of(path: Path) -> tuple[int, int] | None:
    """Device and inode of a file; None if there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def is_open(inode: tuple[int, int]) -> bool:
    """Whether a connection of this process has this file open. For use under :data:`opening`."""
    return any(connection.inode == inode for connection in list(_connections))


opening = threading.Lock()
"""Held while files are opened outside of a :class:`SqliteConnection`, and during a fork."""
_held_at_fork = False
_locked_at_fork: list[SqliteConnection] = []
_connections: WeakSet[SqliteConnection] = WeakSet()
_left_open: list[sqlite3.Connection] = []


def _before_fork() -> None:
    global _held_at_fork, _locked_at_fork  # noqa: PLW0603
    _held_at_fork = opening.acquire(timeout=_FORK_WITHIN)
    # Kept, or the garbage collector could close one that is locked, and wait forever.
    _locked_at_fork = list(_connections)
    for connection in _locked_at_fork:
        connection.before_fork()


def _after_fork_in_parent() -> None:
    while _locked_at_fork:
        _locked_at_fork.pop().after_fork_in_parent()
    if _held_at_fork:
        opening.release()


def _after_fork_in_child() -> None:
    global opening  # noqa: PLW0603
    while _locked_at_fork:
        _locked_at_fork.pop().after_fork_in_child()
    opening = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


def connect(uri: str, timeout: float) -> sqlite3.Connection:
    """Open a file by its URI; wait ``timeout`` seconds for other processes that lock it."""
    connection = sqlite3.connect(
        uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
    )
    try:
        connection.text_factory = bytes  # else a text that is not UTF-8 is an error with its bytes
        # A power failure may lose the last writes, but does not damage the file.
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:  # of a damaged file
        connection.close()
        raise
    return connection


_OPEN_WITHIN = 10.0  # seconds, while other processes create the same file
_LEAST_SIZE = 4096  # bytes: a page
_SUFFIXES = ("", "-wal", "-shm")  # of the file, and of SQLite's log


class WrongFileError(Exception):
    """A file is not of the expected layout, or of another user.

    ``version`` is that of its schema if it is of the same kind, else None.
    """

    def __init__(self, reason: str, version: int | None = None) -> None:
        super().__init__(reason)
        self.version = version


def check_kind(path: Path, layout: Layout, *, again: bool = False) -> None:
    """Raise a WrongFileError unless the file is of this kind, is empty, or does not exist.

    ``again``: read it even if it is open, since it is not intact.
    """
    with opening:
        _check_kind(path, layout, again)


def _check_kind(path: Path, layout: Layout, again: bool = False) -> None:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise WrongFileError("it is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise WrongFileError("it is not a file")
        # Closing a file ends the locks of this process's other connections to it, so one that has
        # any was checked before, and is not opened again. If it was overwritten by a short one,
        # SQLite would take that for an empty database; by a longer one, it fails.
        known = status.st_size >= _LEAST_SIZE and is_open((status.st_dev, status.st_ino))
        if not status.st_size or (known and not again):
            return
        with open(path, "rb") as file:
            header = file.read(72)
    except (OSError, ValueError):  # SQLite will say so
        return
    if not header.startswith(b"SQLite format 3\0"):
        raise WrongFileError("it is not a file of secondpass")
    if int.from_bytes(header[68:72], "big") != layout.application:
        raise WrongFileError("it is another application's file")


def remove(path: Path, layout: Layout) -> None:
    """Remove a closed file and its log; raises a WrongFileError if it is something else."""
    check_kind(path, layout, again=True)
    for suffix in _SUFFIXES:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def check_readable(path: Path, layout: Layout) -> None:
    """Check the layout of a file that is only read.

    Raises:
        sqlite3.Error | OSError: it is damaged, or cannot be used.
        WrongFileError: it is something else, or of another version.
    """
    check_kind(path, layout)
    connection = SqliteConnection(path, read_only=True)
    try:
        connection.run(lambda opened: _check_version(opened, layout))
    finally:
        connection.close()


def prepare(path: Path, layout: Layout, readers: Readers = "owner") -> None:
    """Create the file if it does not exist or is empty, and check its layout.

    A new file has the mode 0600, and an existing one gets it; for ``readers`` of the group 0640.

    Raises:
        sqlite3.Error | OSError: it is damaged, or cannot be used.
        WrongFileError: it is something else, of another version, or of another user.
    """
    deadline = time.monotonic() + _OPEN_WITHIN
    while True:
        try:
            with opening:
                return _prepare(path, layout, _MODES[readers])
        except sqlite3.Error as error:
            # Switching to a write-ahead log fails at once if another process is doing the same.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _prepare(path: Path, layout: Layout, mode: int) -> None:
    _check_kind(path, layout)
    target = os.path.realpath(path)  # O_EXCL does not follow a link
    # SQLite gives its log the mode of the file.
    with suppress(OSError):
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode))
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
        _check_version(connection, layout)
        make_private(path, mode)
        execute("PRAGMA journal_mode = WAL")
        _check(connection, f"SELECT {', '.join(layout.columns)} FROM {layout.table} LIMIT 0")
    finally:
        connection.close()


def _check_version(connection: sqlite3.Connection, layout: Layout) -> None:
    application, version = _mark(connection)
    if application != layout.application:
        raise WrongFileError("it is another application's file")
    if version != layout.version:
        age = "a newer" if version > layout.version else "an older"
        raise WrongFileError(f"it is of {age} version of secondpass", version)


def _check_owner(target: str) -> None:
    for suffix in _SUFFIXES:
        with suppress(FileNotFoundError):
            if hasattr(os, "geteuid") and os.stat(target + suffix).st_uid != os.geteuid():
                raise WrongFileError("it belongs to another user")


_MODES: dict[Readers, int] = {"owner": 0o600, "group": 0o640}


def make_private(path: Path, mode: int = 0o600) -> None:
    """Give a file of secondpass and its log this mode, if others have other rights."""
    target = os.path.realpath(path)
    for suffix in _SUFFIXES:
        with suppress(FileNotFoundError):
            if hasattr(os, "geteuid") and (os.stat(target + suffix).st_mode ^ mode) & 0o077:
                os.chmod(target + suffix, mode)


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
