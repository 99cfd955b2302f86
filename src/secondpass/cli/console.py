"""Output: results go to standard output, messages to standard error.

Colour is for terminals only.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, NoReturn

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from secondpass.errors import printable
from secondpass.formats import to_json
from secondpass.formats.files import naming
from secondpass.settings import yaml_text

ERROR, USAGE_ERROR, INTERRUPTED, TERMINATED = 1, 2, 130, 143
"""Exit codes: a file, a configuration or a model is wrong; wrong arguments; Ctrl-C; SIGTERM."""

_WIDE = 10_000
"""Columns where output is not a terminal, so that lines are not wrapped."""

_STANDARD_OUTPUT = "standard output"
"""Its name in messages, in place of a path."""

_EXCERPT = 240
"""Characters of a text in a table."""

_live: list[Console] = []
"""The console of the progress bars on screen; messages must pass through it."""


class _PipeConsole(Console):
    """A console that lets BrokenPipeError pass; :mod:`secondpass.cli.running` handles it."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - called in an except block


def message_console() -> Console:
    """The console for messages. A new one each time: tests replace the streams."""
    return _live[-1] if _live else _PipeConsole(stderr=True, highlight=False, soft_wrap=True)


class _ResultConsole(_PipeConsole):
    """A console for standard output; an error of writing names it."""

    def print(self, *objects: Any, **options: Any) -> None:
        with naming(_STANDARD_OUTPUT):
            super().print(*objects, **options)


def result_console() -> Console:
    """The console for results; the console of the bars if these would overwrite them."""
    if _live and is_redirected(sys.stdout):
        return _live[-1]
    console = _ResultConsole(highlight=False)
    return console if console.is_terminal else _ResultConsole(highlight=False, width=_WIDE)


def print_text(
    console: Console, text: str, *, prefix: str = "", style: str = "", indent: int = 0
) -> None:
    """Print sentences: on a terminal they wrap between words. ``style`` is of the prefix.

    What continues an indented line begins at the column ``indent``.
    """
    whole = prefix + escaped(text)
    shown = Text(_wrapped(whole, console.width, indent) if on_terminal(console.file) else whole)
    shown.stylize(style, 0, len(prefix))
    console.print(shown, soft_wrap=True)


_WORD = re.compile(r"\s*(?:`[^`]*`|\S)+")
"""A word with the space before it. Code between backticks is one word, so that it can be copied."""


def _wrapped(text: str, width: int, indent: int = 0) -> str:
    """A text with line feeds between words; a longer word, such as a path, is not divided.

    What continues an indented line begins at the column ``indent``.
    """
    lines = []
    for line in text.split("\n"):
        shown = ""
        margin = " " * indent if line.startswith(" ") else ""
        for word in _WORD.findall(line):
            if shown and cell_len(shown + word) > width:
                lines.append(shown)
                shown = margin + word.lstrip()
            else:
                shown += word
        lines.append(shown)
    return "\n".join(lines)


def file_console() -> Console:
    """A console whose output does not depend on the terminal, for files."""
    return _PipeConsole(highlight=False, width=_WIDE, force_terminal=False)


@contextmanager
def live_console(console: Console) -> Iterator[None]:
    """Print messages through a console that shows progress bars."""
    _live.append(console)
    try:
        yield
    finally:
        _live.remove(console)


@contextmanager
def bars_of_packages(*, shown: bool) -> Iterator[None]:
    """Have progress bars of other packages, such as model loaders, vanish when they are done.

    Or have none, elsewhere than on a terminal and beside bars of ours, where they cannot vanish.
    tqdm reads these variables when it is imported; an empty value is false.
    """
    name, value = ("TQDM_LEAVE", "") if shown else ("TQDM_DISABLE", "1")
    before = os.environ.get(name)
    os.environ.setdefault(name, value)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)


def on_terminal(stream: IO[str] | None) -> bool:
    """Whether a stream is a terminal. Rich also says so if FORCE_COLOR is set."""
    # Beneath a progress bar, rich replaces the stream, in older versions by one without `isatty`.
    stream = getattr(stream, "rich_proxied_file", stream)
    return stream is not None and stream.isatty()


def is_redirected(stream: IO[str] | None) -> bool:
    """Whether progress bars receive what is written to a stream, to print it above them."""
    return hasattr(stream, "rich_proxied_file")


def on_same_terminal(first: IO[str] | None, second: IO[str] | None) -> bool:
    """Whether two streams are the same terminal."""
    if first is None or second is None or not (on_terminal(first) and on_terminal(second)):
        return False
    return os.path.sameopenfile(first.fileno(), second.fileno())


def escaped(text: str) -> str:
    """Escape control characters, except line feeds."""
    return "\n".join(map(printable, text.split("\n")))


def one_line(text: str) -> str:
    """Escape control characters and collapse white space."""
    return escaped(" ".join(text.split()))


def excerpt(text: str, span: Sequence[int] | None) -> str:
    """The beginning of a text, or of its best part, on one line, as tables have it."""
    start = 0 if span is None else span[0]
    line = one_line(text[start : start + 10 * _EXCERPT])
    if len(line) > _EXCERPT:
        line = line[:_EXCERPT].rsplit(" ", 1)[0] + " …"
    return f"…{line}" if start else line


def decode_argument(text: str | None) -> str | None:
    """Decode an argument as UTF-8, also where the locale has another encoding."""
    try:
        return None if text is None else os.fsencode(text).decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text


def check_usage(errors: Mapping[str, bool]) -> None:
    """Exit with the first message that holds."""
    for message, is_wrong in errors.items():
        if is_wrong:
            fail(message, USAGE_ERROR)


def fail(message: str, code: int = ERROR) -> NoReturn:
    print_error(message)
    raise typer.Exit(code)


def print_error(message: str) -> None:
    print_text(message_console(), message, prefix="secondpass: ", style="bold red")


def warn(message: str) -> None:
    print_text(message_console(), message, prefix="warning: ", style="yellow")


def info(message: str) -> None:
    print_text(message_console(), message)


def write(text: str) -> None:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "is closed", _STANDARD_OUTPUT)
    with naming(_STANDARD_OUTPUT):
        sys.stdout.write(text)


def write_text(text: str) -> None:
    """Write a text of somebody else: to a terminal without characters that it would obey."""
    write(escaped(text.expandtabs()) if on_terminal(sys.stdout) else text)


def flush_results() -> None:
    """Flush standard output, unless it is closed.

    Raises:
        OSError: what was written does not fit on the disk, for example.
    """
    if sys.stdout is not None:
        with naming(_STANDARD_OUTPUT):
            sys.stdout.flush()


def print_json(value: Any) -> None:
    write(to_json(value, indent=2) + "\n")


def print_yaml(value: Mapping[str, Any]) -> None:
    """Write a mapping to standard output as YAML, in colour on a terminal."""
    text = yaml_text.write(value)
    console = result_console()
    if console.is_terminal:
        from rich.syntax import Syntax

        console.print(Syntax(escaped(text), "yaml", background_color="default"))
    else:
        write(text)
