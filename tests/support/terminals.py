"""Runs the command on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from command_calls import run_main

_COLOURS = ("FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM")


def on_a_terminal(*arguments: object, env: Mapping[str, str] | None = None) -> str:
    """The output on a terminal, with control characters. The command runs in this process."""
    environment = {"TERM": "xterm", "COLUMNS": "100", "LINES": "40", **(env or {})}
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
        return seen.result(60)


def _read(terminal: int) -> str:
    """All that is shown until the other end is closed."""
    seen = b""
    # Linux says by an error that the other end was closed.
    with open(terminal, "rb", buffering=0) as stream, suppress(OSError):
        while data := stream.read(65536):
            seen += data
    return seen.decode()
