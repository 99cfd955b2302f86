"""The folder of a monitor: a file for each day, shared by many processes."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import IO
from uuid import uuid4

from secondpass.formats.errors import FormatError
from secondpass.formats.files import atomic_write, lock, unlock
from secondpass.monitoring.ranking_days import (
    SUFFIX,
    Days,
    days_to_lines,
    line_of,
    merge_days,
    read_days,
)
from secondpass.ranking.diagnostics import log

_LOCK_WITHIN = 5.0
"""Seconds to wait for other processes that write to the folder."""

_NAME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(\.[0-9a-f]{12})?" + re.escape(SUFFIX))


class DayFiles:
    """Files named by day, or by day and process if the process cannot share the file of the day.

    Args:
        folder: where they are.
        keep: number of days to keep; None keeps all.
    """

    def __init__(self, folder: Path, keep: int | None) -> None:
        self.folder = folder
        self.keep = keep
        self._own_name = _new_name()
        self._foreign: set[Path] = set()

    def add(self, day: str, days: Days) -> None:
        """Add rankings to the file of a day.

        To a separate file, if that cannot be locked, or another program has written to it.

        Raises:
            OSError: nothing can be written.
        """
        with open(self.folder / ".lock", "a+b") as file:
            is_locked = _locked(file)
            try:
                if is_locked and self._add_to(f"{day}{SUFFIX}", days):
                    return
                while not self._add_to(f"{day}.{self._own_name}{SUFFIX}", days):
                    self._own_name = _new_name()
            finally:
                if is_locked:
                    unlock(file)

    def delete_old(self) -> None:
        """Delete the files of the oldest days, except those that other programs have written.

        Counts the days that have files, because the clock may be wrong for a while.

        Raises:
            OSError: a file cannot be read or deleted.
        """
        if self.keep is None:
            return
        paths = [path for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]
        old = sorted({path.name[:10] for path in paths})[: -self.keep]
        for path in paths:
            if path.name[:10] in old and self._read(path) is not None:
                path.unlink(missing_ok=True)

    def _add_to(self, name: str, days: Days) -> bool:
        """Add rankings to a file; False if another program has written to it."""
        path = self.folder / name
        merged = self._read(path) if path.exists() else {}
        if merged is None:
            return False
        for key, counts in days.items():
            merge_days(merged, {line_of(merged, key): counts})
        # Always the same name, so that killed processes leave at most one such file per day.
        with atomic_write(path, path.with_name(f".{name}.tmp")) as file:
            file.writelines(line.encode() for line in days_to_lines(merged))
        return True

    def _read(self, path: Path) -> Days | None:
        """The content of a file; None, and logged once, if another program has written to it."""
        try:
            return read_days(path)
        except FormatError as error:
            if path not in self._foreign:
                self._foreign.add(path)
                log("warning", "monitoring leaves a file as it is: %s", error)
            return None


def _new_name() -> str:
    return uuid4().hex[:12]


def _locked(file: IO[bytes]) -> bool:
    """Wait for the lock of a file; False if it takes too long or is not supported."""
    until = time.monotonic() + _LOCK_WITHIN
    while True:
        try:
            lock(file)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        except OSError:  # the file system has no locks
            return False
        else:
            return True
