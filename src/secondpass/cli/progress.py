"""Progress bars."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from secondpass import types
from secondpass.cli.console import (
    bars_of_packages,
    info,
    live_console,
    message_console,
    on_same_terminal,
    on_terminal,
    one_line,
)

SECONDS_BETWEEN_LINES = 15.0
"""Where no bar can be shown. What takes less time prints no line."""


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.1f}/s", style="progress.data.speed")


def columns() -> tuple[ProgressColumn, ...]:
    """The columns of a bar; the spinner moves ten times a second, even if no step is finished."""
    return (
        SpinnerColumn("line"),  # ASCII characters only
        TextColumn("{task.description}", markup=False),  # names may contain brackets
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )


def _lines() -> types.Progress:
    """Progress for a pipe or a file: a line from time to time, with the time that remains."""
    last = time.monotonic()
    begun: dict[str, tuple[float, int]] = {}

    def update(label: str, done: int, total: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        start, before = begun.setdefault(label, (now, done))
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            of = "" if total is None else f" of {total:,}"
            left = ""
            if total is not None and before < done < total:
                seconds = (now - start) * (total - done) / (done - before)
                left = f", about {seconds:,.0f} s left"
            info(one_line(f"{label}: {done:,}{of}{left}"))

    return update


@contextmanager
def progress_bars(quiet: bool = False) -> Iterator[types.Progress]:
    """Show progress on standard error: bars on a terminal, one for each label, and lines elsewhere.

    Yields:
        A function of a label, the number done, and the total; None where the total is unknown.
    """
    if quiet:
        yield types.no_progress
        return
    if not on_terminal(sys.stderr):
        yield _lines()
        return
    console = message_console()
    # What others print goes above the bars. Results in a file or a pipe must not be redirected.
    redirected = on_same_terminal(sys.stdout, sys.stderr)
    with (
        bars_of_packages(shown=False),
        Progress(*columns(), console=console, transient=True, redirect_stdout=redirected) as bars,
        live_console(console),
    ):
        tasks: dict[str, TaskID] = {}

        def update(label: str, done: int, total: int | None) -> None:
            if label not in tasks:
                tasks[label] = bars.add_task(one_line(label), total=total)
            bars.update(tasks[label], completed=done, total=total)

        yield update
