"""Connections to a SQLite file, safe across threads and forks."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet, finalize

T = TypeVar("T")

_WRITE_WITHIN = 2.0  # seconds, while other processes write; a ranking waits for it
_FORK_WITHIN = 5.0  # seconds; a fork waits for it


class Connection:
    """One connection, for one thread at a time, until an error of SQLite.

    It does not outlive a fork, as SQLite requires.

    Attributes:
        inode: device and inode of the file, from the beginning until it is closed; else None.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.inode = inode_of(path)
        self._lock = threading.Lock()
        self._opened: list[sqlite3.Connection] = []  # one, or none
        self._uri = path.as_uri() + "?mode=rw"
        self._failure: sqlite3.Error | None = None
        self._held_at_fork = False
        # Not by __del__: in a cycle, Python 3.13 may finalize the open connection first, and warn.
        finalize(self, _close, self._opened)
        with opening:
            _connections.add(self)

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of ``work``.

        Raises:
            sqlite3.Error: it failed now or, with the same error, before.
        """
        with self._lock:
            if self._failure is not None:  # threads that waited must not try one by one
                raise type(self._failure)(str(self._failure))
            try:
                if not self._opened:
                    self.inode = inode_of(self._path)
                    self._opened.append(connect(self._uri, _WRITE_WITHIN))
                return work(self._opened[0])
            except sqlite3.Error as error:
                self._failure = type(error)(str(error))  # a copy, without frames
                self._close()
                raise
            except BaseException:  # an interrupt must not leave the file locked for others
                self._close()
                raise

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
        """The same in the child, which can neither use nor close a connection of the parent."""
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


_connections: WeakSet[Connection] = WeakSet()
_left_open: list[sqlite3.Connection] = []


class _Gate:
    """Held while files are opened outside of a :class:`Connection`, and during a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held_at_fork = False
        self._locked: list[Connection] = []

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()

    def before_fork(self) -> None:
        self._held_at_fork = self._lock.acquire(timeout=_FORK_WITHIN)
        # Kept, or the garbage collector could close one that is locked, and wait forever.
        self._locked = list(_connections)
        for connection in self._locked:
            connection.before_fork()

    def after_fork_in_parent(self) -> None:
        locked, self._locked = self._locked, []
        for connection in locked:
            connection.after_fork_in_parent()
        if self._held_at_fork:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        locked, self._locked = self._locked, []
        for connection in locked:
            connection.after_fork_in_child()
        self._lock = threading.Lock()


opening = _Gate()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=opening.before_fork,
        after_in_parent=opening.after_fork_in_parent,
        after_in_child=opening.after_fork_in_child,
    )


def connect(uri: str, timeout: float) -> sqlite3.Connection:
    """Open a file by its URI, whose mode says whether it is created.

    Args:
        uri: of the file.
        timeout: seconds to wait for other processes that lock it.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    connection = sqlite3.connect(
        uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
    )
    try:
        # A power failure may lose the last writes, but does not damage the file.
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:  # of a damaged file
        connection.close()
        raise
    return connection
