"""Runs the command on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

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
            run_main(arguments, stdin, stdout, stderr)
        shown = seen.result(60)
    return shown if columns is None else _plain(shown)


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
