"""Locks that an exception of a signal handler does not leave held, and that survive a fork."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from contextlib import AbstractContextManager
from typing import Any

WITH_MAY_SKIP_EXIT = sys.version_info[:2] == (3, 14)
"""Whether ``with`` may leave even a lock written in C held: it handles signals between entering it
and the block (https://github.com/python/cpython/issues/148874)."""

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def fork_lock() -> AbstractContextManager[bool]:
    """A reentrant lock that is free in a forked child, unless the forking thread holds it.

    It is Python's own ``RLock``, and ``with`` must see it itself. An exception of a signal handler
    (Ctrl-C, the time limit of a job) may come between any two instructions of a lock written in
    Python, and leave it held for ever; this one, written in C, is entered and left as a whole.

    The guarded state must be consistent at every moment: a child may be forked while another thread
    holds the lock, and that thread does not exist in the child; and garbage collection may take it
    again in the thread that holds it.
    """
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def release_left() -> None:
    """Release the locks that the main thread, if it is this one, holds in no block any more.

    To be called outside of all blocks with such a lock.
    """
    if threading.current_thread() is threading.main_thread():
        for lock in list(_locks):
            while lock._is_owned():
                lock.release()


def _free_in_child() -> None:
    """Free the locks of threads that do not exist here, before other threads run.

    Both methods are private. CPython has them in all versions from 3.9, and its own modules use
    them for this; nothing public tells who holds a lock, or frees that of another thread.
    """
    for lock in _locks:
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_in_child)
