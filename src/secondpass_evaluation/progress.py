"""A progress bar for `compare` in terminals and notebooks, without further packages."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from secondpass import InputError
from secondpass.settings import describe
from secondpass.types import Progress, no_progress
from secondpass_evaluation.report.text import shortened_name

_INTERVAL = 0.1
"""Seconds between two changes of the bar."""
_BAR, _NAME = 24, 40
"""Characters of the bar and of a name."""


@contextmanager
def progress_bar(progress: Progress | bool | None) -> Iterator[Progress]:
    """Yield the function that is called with each step."""
    if callable(progress):
        yield progress
        return
    if not isinstance(progress, bool | None):
        raise InputError(f"progress: give True, False or a function, not {describe(progress)}")
    stream = sys.stderr
    wanted = _is_interactive(stream) if progress is None else progress
    if stream is None or not wanted:
        yield no_progress
        return
    bar = _Bar(stream, rewrites=_is_interactive(stream))
    try:
        yield bar.update
    finally:
        bar.clear()


def _is_interactive(stream: TextIO | None) -> bool:
    return stream is not None and (stream.isatty() or "ipykernel" in sys.modules)


class _Bar:
    """A line that is rewritten at each step; if the stream cannot rewrite, a line per system."""

    def __init__(self, stream: TextIO, *, rewrites: bool) -> None:
        self.stream = stream
        self.rewrites = rewrites
        self._width = 0
        self._next = 0.0

    def update(self, name: str, done: int, total: int | None) -> None:
        count = total or 0
        line = f"{shortened_name(name, _NAME)}  {done:,}/{count:,}"
        if not self.rewrites:
            if done == count:
                self.stream.write(f"{line}\n")
                self.stream.flush()
            return
        now = time.monotonic()
        if now < self._next and done < count:
            return
        self._next = now + _INTERVAL
        filled = _BAR * done // max(count, 1)
        self._write(f"{'#' * filled}{'.' * (_BAR - filled)}  {line}")

    def clear(self) -> None:
        if self.rewrites:
            self._write("")
            self._write("")

    def _write(self, line: str) -> None:
        self.stream.write(f"\r{line.ljust(self._width)}")
        self.stream.flush()
        self._width = len(line)
