"""Runs the command, in this process with its own streams, or as a process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TextIO

from secondpass.cli import main

SCRIPT = [sys.executable, "-m", "secondpass"]


@dataclass
class Outcome:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def flat(self) -> str:
        """Standard error without the frames and line ends of a terminal's width."""
        return " ".join(self.err.replace("│", " ").split())

    def lines(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def called(*arguments: object, stdin: bytes = b"") -> Outcome:
    out, err = io.BytesIO(), io.BytesIO()
    streams = [io.TextIOWrapper(stream, "utf-8") for stream in (io.BytesIO(stdin), out, err)]
    code = run_main(arguments, *streams)
    return Outcome(code, out.getvalue().decode(), err.getvalue().decode())


def run_main(arguments: Iterable[object], stdin: TextIO, stdout: TextIO, stderr: TextIO) -> int:
    """The exit code of a command with these standard streams, which are flushed afterwards."""
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv = ["secondpass", *map(str, arguments)]
    sys.stdin, sys.stdout, sys.stderr = stdin, stdout, stderr
    try:
        main()
    except SystemExit as stop:
        return 0 if stop.code is None else stop.code
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
        stdout.flush()
        stderr.flush()
    return 0


def process(
    *arguments: object, stdin: bytes = b"", **env: str
) -> subprocess.CompletedProcess[bytes]:
    """The command as a process that has ended; ``env`` has further variables."""
    return subprocess.run(
        [*SCRIPT, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **env},
    )


def started(*arguments: object) -> subprocess.Popen[bytes]:
    """The command as a process with pipes."""
    pipe = subprocess.PIPE
    return subprocess.Popen([*SCRIPT, *map(str, arguments)], stdin=pipe, stdout=pipe, stderr=pipe)


def python(code: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A program as a process that has ended."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )
