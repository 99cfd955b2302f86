"""Runs the command on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TextIO

import pytest

from command_calls import SCRIPT, run_main

_COLOURS = ("FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM")


_CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(
    *arguments: object, env: Mapping[str, str] | None = None, columns: int | None = None
) -> str:
    """The output on a terminal, with control characters. The command runs in this process.

    With ``columns``, the terminal is so wide, and control sequences and line ends are left out.
    """
    return shown_by(partial(run_main, arguments), env, columns)


def shown_by(
    run: Callable[[TextIO, TextIO, TextIO], object],
    env: Mapping[str, str] | None = None,
    columns: int | None = None,
) -> str:
    """What a function shows on a terminal; it is called with the three standard streams."""
    environment = {"TERM": "xterm", "COLUMNS": str(columns or 100), "LINES": "40", **(env or {})}
    own, theirs = pty.openpty()
    with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
        seen = pool.submit(_read, own)  # a terminal takes no more than a few kB unread
        for name in _COLOURS:
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        with (
            open(theirs, encoding="utf-8") as stdin,
            open(os.dup(theirs), "w", encoding="utf-8", buffering=1) as stdout,
            open(os.dup(theirs), "w", encoding="utf-8", buffering=1) as stderr,
        ):
            run(stdin, stdout, stderr)
        shown = seen.result(60)
    return shown if columns is None else _plain(shown)


def redirected(target: str, *arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and what a terminal shows, on which standard error alone is.

    Standard output is a ``file``, a ``pipe``, or the device that is always ``full``. The command
    runs in this process.
    """
    own, theirs = pty.openpty()
    with (
        ThreadPoolExecutor(2) as pool,
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryFile() as file,
    ):
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "100")
        seen = pool.submit(_read, own)
        reading, writing = os.pipe()
        written = pool.submit(_read, reading)
        outputs = {"file": file.fileno(), "pipe": writing}
        output = os.dup(outputs[target]) if target in outputs else os.open("/dev/full", os.O_WRONLY)
        os.close(writing)
        with (
            open(os.devnull, encoding="utf-8") as stdin,
            open(output, "w", encoding="utf-8") as stdout,
            open(theirs, "w", encoding="utf-8", buffering=1) as stderr,
        ):
            code = run_main(arguments, stdin, stdout, stderr)
        file.seek(0)
        return code, (file.read().decode() or written.result(60)), _plain(seen.result(60))


def check_full_disk(*arguments: object) -> None:
    """Check that a command whose results do not fit on the disk fails and says so."""
    code, _, shown = redirected("full", *arguments)
    assert code == 1
    assert "standard output: No space left on device" in " ".join(shown.split())


def shown_at(columns: int, *arguments: object) -> str:
    """Standard output on a terminal that is so wide, of the command as a process of its own."""
    own, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    left_out = {"COLUMNS", "LINES", *_COLOURS}
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    with ThreadPoolExecutor(1) as pool, open(theirs, "wb") as stdout:
        seen = pool.submit(_read, own)
        subprocess.run(
            [*SCRIPT, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            env={**environment, "TERM": "xterm"},
            timeout=120,
            check=True,
        )
        stdout.close()
        return _plain(seen.result(60))


def left_on_screen(shown: str) -> str:
    """What a terminal shows at the end, of output with control characters, with all that scrolled.

    It knows the sequences by which progress bars move the cursor up and erase lines.
    """
    lines: list[str] = [""]
    row = column = 0
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|[\r\n])", shown):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            column = 0
        elif part.startswith("\x1b"):
            if part[-1] == "A":
                row = max(0, row - int(part[2:-1] or 1))
            elif part[-1] == "K":
                lines[row] = ""
        else:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + part + line[column + len(part) :]
            column += len(part)
    return "\n".join(line.rstrip() for line in lines)


def _plain(shown: str) -> str:
    lines = _CONTROL_SEQUENCE.sub("", shown).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines)


def _read(terminal: int) -> str:
    """All that is shown until the other end is closed."""
    seen = b""
    # Linux says by an error that the other end was closed.
    with open(terminal, "rb", buffering=0) as stream, suppress(OSError):
        while data := stream.read(65536):
            seen += data
    return seen.decode()
