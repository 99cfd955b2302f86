"""Reads and writes answers in threads, so that no error of the file makes a ranking fail.

The file is opened at the first use. A round of questions waits for it one second at most, before
the questions are asked, and one second after them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from secondpass.concurrency.lazy import ForkLock
from secondpass.concurrency.left_behind import Call
from secondpass.errors import ConfigurationError
from secondpass.types import Issue

if TYPE_CHECKING:
    from secondpass.runtime.answer_file import AnswerFile

T = TypeVar("T")

_MAX_WAIT = 1.0
"""Seconds that a round of questions waits for the file at most, before it and after it."""
_MAX_SHARE = 0.25
"""Share of the time to a deadline that it waits at most, to leave enough for the service."""
_MAX_WAITING = 10_000
"""Texts that wait to be written; further ones are dropped while the file does not respond."""


class AnswerStore:
    """A map from keys to texts in a file, and the texts that wait to be written.

    Args:
        path: of the file; relative to the current working directory.
        max_bytes: maximum size of the file.
        max_age: seconds after which a text is no longer returned; None for no limit.

    Attributes:
        found_before: only texts stored before this value of :func:`time.time` are returned; None
            returns all.
    """

    def __init__(self, path: str, max_bytes: int, max_age: float | None) -> None:
        self._path = Path(path).absolute()  # the working directory may change
        self._limits = max_bytes, max_age
        self.found_before: float | None = None
        self._lock, self._writing = ForkLock(), ForkLock()
        self._file: AnswerFile | None = None
        self._waiting: dict[bytes, str | None] = {}
        self._write_scheduled = False
        self._failures: dict[str, str] = {}
        """By method of the file: why its last call failed."""
        self._late: dict[str, Call[Any]] = {}
        """By "read" or "write": the last call that timed out."""

    def check(self) -> None:
        """Check that the path is not that of something else.

        Raises:
            ConfigurationError: it is.
        """
        from secondpass.storage.files import WrongFileError, check_kind
        from secondpass.runtime.answer_file import LAYOUT

        try:
            check_kind(self._path, LAYOUT)
        except WrongFileError as error:
            message = f"{str(self._path)!r} cannot be a response cache: {error}; it was not touched"
            raise ConfigurationError(message) from None

    async def read(self, keys: Sequence[bytes], seconds: float | None) -> dict[bytes, str]:
        """The stored texts by key; none if the file does not respond in time.

        Args:
            keys: to look up.
            seconds: until the deadline; None without one.
        """
        if not keys:
            return {}
        return await self._in_thread("read", lambda: self._read(keys), seconds) or {}

    def write_soon(self, texts: Mapping[bytes, str | None]) -> None:
        """Store texts in a thread; None deletes. Texts that arrive meanwhile are written together.

        The process waits for the write before it exits.
        """
        from secondpass.concurrency.threads import start

        with self._lock:
            for key, text in texts.items():
                if text is None or key in self._waiting or len(self._waiting) < _MAX_WAITING:
                    self._waiting[key] = text
            scheduled, self._write_scheduled = self._write_scheduled, True
        if not scheduled:
            call = Call(self._write)
            call.leave()
            with suppress(RuntimeError):  # no thread: written() writes them, or reports the error
                start(call)

    async def written(self, seconds: float | None) -> None:
        """Wait until all texts are written, for a second at most.

        Args:
            seconds: until the deadline; None without one.
        """
        if self._waiting:
            await self._in_thread("write", self._write, seconds)

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
        """Close and remove the file.

        Raises:
            OSError: it cannot be removed, or is something else.
        """
        from secondpass.storage.files import WrongFileError, remove
        from secondpass.runtime.answer_file import LAYOUT

        self.close()
        try:
            remove(self._path, LAYOUT)
        except WrongFileError as error:
            raise OSError(f"{self._path.name!r} is not removed: {error}") from None

    def issues(self) -> list[Issue]:
        """What is wrong with the file, for a report.

        ``cache_set_aside`` is in the first report after it only.
        """
        late = self._failures.pop("wait", None)
        failures = dict.fromkeys(filter(None, [late, *self._failures.values()]))
        issues = [Issue("cache_failed", f"the response cache {failure}") for failure in failures]
        return issues if self._file is None else issues + self._file.set_aside_issues()

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """The texts of these keys, including those that wait to be written."""
        with self._lock:
            waiting = {key: self._waiting[key] for key in keys if key in self._waiting}
        if self.found_before is not None:
            waiting = {}
        stored: dict[bytes, str | None] = self._call("get_many", keys, self.found_before) or {}
        if self._file is not None and self._file.is_due:
            self.write_soon({})
        return {key: text for key, text in {**stored, **waiting}.items() if text is not None}

    def _write(self) -> None:
        with self._writing:  # one thread at a time, so that no text is written twice
            with self._lock:
                texts = dict(self._waiting)
                self._write_scheduled = False
            if not texts and not (self._file is not None and self._file.is_due):
                return
            self._call("put_many", texts)
            with self._lock:  # removed last, so that they are always found here or in the file
                for key, text in texts.items():
                    if self._waiting.get(key) is text:
                        self._waiting.pop(key, None)

    def _call(self, method: str, *args: Any) -> Any:
        """The result of a method of the file; None if the file cannot be used."""
        from secondpass.storage.store_file import SQLiteFileError  # imports sqlite3
        from secondpass.runtime.answer_file import AnswerFile

        with self._lock:
            if self._file is None:
                self._file = AnswerFile(self._path, *self._limits)
            file = self._file
        try:
            result = getattr(file, method)(*args)
        except SQLiteFileError as error:
            self._failures[method] = str(error)
            return None
        except Exception as error:
            self._failures[method] = self._cannot_be_used(f"{method} raised {type(error).__name__}")
            return None
        self._failures.pop(method, None)
        return result

    async def _in_thread(self, kind: str, call: Callable[[], T], seconds: float | None) -> T | None:
        """The result of a call in a thread; None if it takes too long.

        None at once while an earlier call of the same kind, read or write, is still running.
        """
        from secondpass.concurrency.threads import in_thread, with_timeout

        if seconds == 0:
            return None
        wait = _MAX_WAIT if seconds is None else min(_MAX_WAIT, seconds * _MAX_SHARE)
        work = Call(call)
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
