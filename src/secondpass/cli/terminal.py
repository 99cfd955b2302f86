"""What all commands share: where they write, how they fail, how they show that they go on.

Results go to standard output, everything else to standard error, so that commands can be piped.
Colour and moving lines are for terminals only. Exit codes: 0 for done, 1 for a fault of what was
asked for (a file, a configuration, a model), 2 for a wrong call, 130 after Ctrl-C.
"""

from __future__ import annotations

import errno
import functools
import io
import json
import logging
import math
import os
import signal
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from typing import Any, NoReturn, ParamSpec, TextIO, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from secondpass.errors import SecondPassError

P = ParamSpec("P")
T = TypeVar("T")

FAULT, WRONG_CALL, INTERRUPTED = 1, 2, 130


_WIDE = 10_000
"""Columns of what is not a terminal: lines stay whole there, for whatever reads them."""

_MOST_WARNINGS = 10
"""Different messages of the library that are shown; a thousand queries may each have one."""

_live: list[Console] = []
"""The console of the bars that are shown now: lines beside them have to pass through it."""


class _Pipe(Console):
    """A console that leaves it to the command what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - called while the error is handled


def errors() -> Console:
    """The console for everything but results. Made anew, for tests put others in its place."""
    return _live[-1] if _live else _Pipe(stderr=True, highlight=False, soft_wrap=True)


def results() -> Console:
    """The console for results that people read."""
    console = _Pipe(highlight=False)
    return console if console.is_terminal else _Pipe(highlight=False, width=_WIDE)


def for_a_file() -> Console:
    """A console for what goes to a file: the same text whatever standard output is."""
    return _Pipe(highlight=False, width=_WIDE, force_terminal=False)


def on_terminal(stream: TextIO | None) -> bool:
    """Whether a person sees what is written; a console also says so where FORCE_COLOR is set."""
    return stream is not None and stream.isatty()


def plain(text: str) -> str:
    """A text that a terminal shows as it is: what would steer it is escaped, but for line feeds."""
    return "".join(one.encode("unicode_escape").decode() if _steers(one) else one for one in text)


def _steers(one: str) -> bool:
    # The last two are overrides of the direction of writing, which can make a text read otherwise.
    return one != "\n" and (
        unicodedata.category(one) in {"Cc", "Cs"}
        or "\u202a" <= one <= "\u202e"
        or "\u2066" <= one <= "\u2069"
    )


def one_line(text: str) -> str:
    """A text that a terminal shows as it is, in one line."""
    return plain(" ".join(text.split()))


def typed(text: str) -> str:
    """An argument as it was typed, where the locale knows fewer characters than UTF-8 has."""
    try:
        return os.fsencode(text).decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text


def fail(message: str, code: int = FAULT) -> NoReturn:
    """Say what is wrong, and end."""
    errors().print(Text("secondpass: ", style="bold red") + Text(plain(message)))
    raise typer.Exit(code)


def warn(message: str) -> None:
    """Say what a person should know, and go on."""
    errors().print(Text("warning: ", style="yellow") + Text(plain(message)))


def tell(message: str) -> None:
    """Say what was done."""
    errors().print(Text(plain(message)))


def write(text: str) -> None:
    """Write to standard output, as it is.

    Raises:
        OSError: it is closed, or cannot be written.
    """
    if sys.stdout is None:
        raise OSError(errno.EBADF, "is closed", "standard output")
    sys.stdout.write(text)


def guarded(command: Callable[P, T]) -> Callable[P, T]:
    """A command whose faults are told in a sentence; no person ever sees a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            returned = command(*args, **kwargs)
            if sys.stdout is not None:
                sys.stdout.flush()  # a full disk is told here, not as Python ends
            return returned
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            fail("stopped", INTERRUPTED)
        except Exception as error:
            if _interrupts:  # a library may make an error of its own of Ctrl-C
                fail("stopped", INTERRUPTED)
            _explain(error)

    return run


def _explain(error: Exception) -> NoReturn:
    """End with what is wrong, in a sentence."""
    if isinstance(error, BrokenPipeError):
        # Whoever reads has seen enough.
        _silence()
        raise typer.Exit(0) from None
    if isinstance(error, SecondPassError):
        fail(str(error))
    if isinstance(error, OSError):
        _silence()
        where = f"{error.filename}: " if error.filename else ""
        gone = isinstance(error, FileNotFoundError)
        why = "there is no such file or folder" if gone else error.strerror
        fail(where + (why or type(error).__name__))
    if os.environ.get("SECONDPASS_DEBUG"):
        raise error
    told = "set SECONDPASS_DEBUG=1 to see where, and please report it"
    fail(f"this should not have happened: {type(error).__name__}: {error} ({told})")


_interrupts: list[int] = []
"""Each time that Ctrl-C was pressed since the command began."""


@contextmanager
def _noting_interrupts() -> Iterator[None]:
    def interrupted(number: int, frame: object) -> NoReturn:  # noqa: ARG001
        _interrupts.append(number)
        raise KeyboardInterrupt

    _interrupts.clear()
    before = signal.getsignal(signal.SIGINT)
    own = before is signal.default_int_handler and current_thread() is main_thread()
    if own:  # else Ctrl-C is ignored, as in the background of a shell, or somebody else's
        signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        if own:
            signal.signal(signal.SIGINT, before)


def _silence() -> None:
    """Lead standard output nowhere, if it cannot be written: Python would complain as it ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def as_json(value: Any, indent: int | None = None) -> str:
    """A value as JSON; what JSON has no number for (NaN, infinity) is null."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_json(value: Any) -> None:
    """Write a value as JSON, without colour."""
    write(as_json(value, indent=2) + "\n")


class Rate(ProgressColumn):
    """How many steps a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.1f}/s", style="progress.data.speed")


@contextmanager
def progress(quiet: bool = False) -> Iterator[Callable[[str, int, int | None], None]]:
    """Bars with rate and time left, on standard error, if that is a terminal.

    Yields a function of a label, how much is done and of how much (None where nobody knows). Each
    label has a bar of its own.
    """
    console = errors()
    if quiet or not on_terminal(sys.stderr):
        yield lambda _label, _done, _total: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars, _beside(console):
        known: dict[str, Any] = {}

        def told(label: str, done: int, total: int | None) -> None:
            if label not in known:
                known[label] = bars.add_task(label, total=total)
            bars.update(known[label], completed=done, total=total)

        yield told


@contextmanager
def _beside(console: Console) -> Iterator[None]:
    _live.append(console)
    try:
        yield
    finally:
        _live.remove(console)


def utf8_output() -> None:
    """Results are UTF-8 wherever they go; a terminal's own encoding may know fewer characters."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


class _Told(logging.Handler):
    """What the library logs, as warnings: each message once, and no more than some."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message in self.seen or len(self.seen) > _MOST_WARNINGS:
            return
        self.seen.add(message)
        warn(message if len(self.seen) <= _MOST_WARNINGS else "further warnings are not shown")


@contextmanager
def library_warnings() -> Iterator[None]:
    """Show what the library logs, once each, while this lasts."""
    logger, handler = logging.getLogger("secondpass"), _Told()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def run(app: Callable[[], Any]) -> None:
    """Run the command to its end, whatever happens.

    Raises:
        SystemExit: with the exit code.
    """
    utf8_output()
    try:
        with library_warnings(), _noting_interrupts():
            guarded(app)()
    except typer.Exit as stop:  # of a fault before any subcommand began
        sys.exit(stop.exit_code)
    finally:
        _silence()
