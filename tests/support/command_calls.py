"""The command, run in this process: as its script runs it, with its own streams."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from typing import Any

from secondpass.cli import main


@dataclass
class Outcome:
    """Exit code, standard output and standard error."""

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
    """The outcome of a command."""
    streams = sys.argv, sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.argv = ["secondpass", *map(str, arguments)]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    own = [io.TextIOWrapper(stream, encoding="utf-8") for stream in (out, err)]
    sys.stdout, sys.stderr = own
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = 0 if stop.code is None else stop.code
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = streams
        for stream in own:
            stream.flush()
    return Outcome(code, out.getvalue().decode(), err.getvalue().decode())
