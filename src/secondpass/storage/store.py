"""A store in a file: keys with values, of which those used least recently are dropped.

No error of the file makes a ranking fail: it is an issue of the report. The file is opened at the
first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from secondpass.concurrency.left_behind import GuardedCall
from secondpass.concurrency.locks import fork_lock
from secondpass.concurrency.waiting import start
from secondpass.errors import ConfigurationError
from secondpass.storage import Layout, Readers, StoreFileError
from secondpass.types import Issue

if TYPE_CHECKING:
    from secondpass.storage.store_file import StoreFile  # imports sqlite3

T = TypeVar("T")

_MAX_WAIT = 1.0
"""Seconds that an event loop's work waits for the file at most, to read and to write."""
_MAX_SHARE = 0.25
"""Share of the time to a deadline that it waits at most, to leave enough for a service."""
_MAX_WAITING = 10_000


class Store:
    """A map from keys to values in a file, and the values that wait to be written.

    Threads of the caller use :meth:`get_many` and :meth:`put_many`. Event loops use :meth:`read`,
    :meth:`write_soon` and :meth:`written`, which wait for the file in other threads.

    Args:
        path: of the file; relative to the current working directory.
        layout: of the file.
        max_bytes: maximum size of the file.
        max_age: seconds after which a value is no longer returned; None for no limit.
        max_waiting: values that wait to be written; further ones are dropped while the file does
            not respond. None is 10,000.
        readers: who may read the file: its owner alone, or its group, too.

    Attributes:
        found_before: only values stored before this value of :func:`time.time` are returned; None
            returns all.
        created_by_reading: whether reading creates the file; writing always does.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        layout: Layout,
        max_bytes: int,
        max_age: float | None = None,
        *,
        max_waiting: int | None = None,
        readers: Readers = "owner",
    ) -> None:
        self._path = Path(path).absolute()  # the working directory may change
        self._layout = layout
        self._limits = max_bytes, max_age, readers
        self._max_waiting = max_waiting
        self.found_before: float | None = None
        self.created_by_reading = True
        self._lock, self._writing = fork_lock(), fork_lock()
        self._file: StoreFile | None = None
        self._waiting: dict[bytes, bytes | None] = {}
        self._write_scheduled = False
        self._failures: dict[str, str] = {}
        """By method of the file: why its last call failed."""
        self._late: dict[str, GuardedCall[Any]] = {}
        """By "read" or "write": the last call that timed out."""

    def check(self) -> None:
        """Raise a ConfigurationError if its path is that of something else."""
        from secondpass.storage.files import WrongFileError, check_kind

        try:
            check_kind(self._path, self._layout)
        except WrongFileError as error:
            kind = f"{str(self._path)!r} cannot be a {self._layout.name}"
            raise ConfigurationError(f"{kind}: {error}; it was not touched") from None

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values by key, including those that wait to be written."""
        waiting: dict[bytes, bytes | None] = {}
        if self._waiting and self.found_before is None:
            with self._lock:
                waiting = {key: self._waiting[key] for key in keys if key in self._waiting}
        stored: dict[bytes, bytes] = {}
        if keys and (self.created_by_reading or self._file is not None or self._path.exists()):
            stored = self._call("get_many", keys, self.found_before) or stored
        if self._file is not None and self._file.is_due:
            self.write_soon({})
        if not waiting:
            return stored
        return {key: value for key, value in {**stored, **waiting}.items() if value is not None}

    def put_many(self, values: Mapping[bytes, bytes | None]) -> None:
        """Store values; None deletes that of its key."""
        if values:
            self._call("put_many", values)

    def free_bytes(self) -> int:
        """Bytes that can be written until the least recently used values are deleted."""
        return self._call("free_bytes") or 0

    def contents(self) -> dict[str, Any] | None:
        """Number of values, size, limit, and whether it can be written; None if it is unusable."""
        contents: dict[str, Any] | None = self._call("contents")
        return contents

    async def read(self, keys: Sequence[bytes], seconds: float | None) -> dict[bytes, bytes]:
        """The stored values by key; none if the file does not respond by the deadline."""
        if not keys:
            return {}
        return await self._in_thread("read", lambda: self.get_many(keys), seconds) or {}

    def write_soon(self, values: Mapping[bytes, bytes | None]) -> None:
        """Store values in a thread; None deletes. Those that arrive meanwhile are written together.

        The process waits for the write before it exits.
        """
        most = self._max_waiting or _MAX_WAITING
        with self._lock:
            for key, value in values.items():
                if value is None or key in self._waiting or len(self._waiting) < most:
                    self._waiting[key] = value
            if not self._write_scheduled:
                call = GuardedCall(self._write)
                call.leave()
                with suppress(RuntimeError):  # no thread: written() writes them, or says so
                    start(call)
                    # Within the lock, which the call needs, and last: an interruption before it
                    # leads to a second call.
                    self._write_scheduled = True

    async def written(self, seconds: float | None) -> None:
        """Wait until all values are written: for a second at most, or until the deadline."""
        if self._waiting:
            await self._in_thread("write", self._write, seconds)

    def flush(self) -> None:
        """Write what is not yet written, in this thread."""
        self._write()

    def close(self) -> None:
        """Write what is not yet written, and close the file. A later call opens it again.

        Does nothing if the file did not respond, and threads still wait for it.
        """
        if not all(call.ended(_MAX_WAIT) for call in self._late.values()):
            return
        self._write()
        if self._file is not None:
            self._call("close")

    def delete(self) -> None:
        """Close and remove the file; raises an OSError if that is not possible."""
        from secondpass.storage.files import WrongFileError, remove

        self.close()
        try:
            remove(self._path, self._layout)
        except WrongFileError as error:
            raise OSError(f"{self._path.name!r} is not removed: {error}") from None

    def issues(self) -> list[Issue]:
        """What is wrong with the file, for a report.

        ``cache_set_aside`` is in the first report after it only.
        """
        late = self._failures.pop("wait", None)
        failures = dict.fromkeys(filter(None, [late, *list(self._failures.values())]))
        kind = self._layout.name
        issues = [Issue("cache_failed", f"the {kind} {failure}") for failure in failures]
        if self._file is not None and self._file.set_aside is not None:
            name, self._file.set_aside = self._file.set_aside, None
            message = f"a damaged or outdated file was renamed to {name!r}, and replaced"
            issues.append(Issue("cache_set_aside", message))
        return issues

    def _write(self) -> None:
        with self._writing:  # one thread at a time, so that no value is written twice
            with self._lock:
                values = dict(self._waiting)
                self._write_scheduled = False
            if not values and not (self._file is not None and self._file.is_due):
                return
            self._call("put_many", values)
            with self._lock:  # removed last, so that they are always found here or in the file
                for key, value in values.items():
                    if self._waiting.get(key) is value:
                        self._waiting.pop(key, None)

    def _call(self, method: str, *args: Any) -> Any:
        """The result of a method of the file; None if the file cannot be used."""
        try:
            if self._file is None:
                from secondpass.storage.store_file import StoreFile

                with self._lock:
                    self._file = self._file or StoreFile(self._path, self._layout, *self._limits)
            result = getattr(self._file, method)(*args)
        except StoreFileError as error:
            self._failures[method] = str(error)
            return None
        except Exception as error:
            self._failures[method] = self._cannot_be_used(f"it raised {type(error).__name__}")
            return None
        self._failures.pop(method, None)
        return result

    async def _in_thread(self, kind: str, call: Callable[[], T], seconds: float | None) -> T | None:
        """The result of a call in a thread; None if it takes too long.

        At once while an earlier call of the same kind, read or write, is still running.
        """
        from secondpass.concurrency.threads import in_thread, with_timeout

        if seconds == 0:
            return None
        wait = _MAX_WAIT if seconds is None else min(_MAX_WAIT, seconds * _MAX_SHARE)
        work = GuardedCall(call)
        reason = "it did not answer in time"
        try:
            if kind not in self._late or self._late[kind].ended():
                return await with_timeout(in_thread(work), wait)
        except TimeoutError:
            work.leave()
            self._late[kind] = work
        except RuntimeError:
            reason = "no thread could be started"
        self._failures["wait"] = self._cannot_be_used(reason)
        return None

    def _cannot_be_used(self, reason: str) -> str:
        return f"{self._path.name!r} cannot be used: {reason}"
