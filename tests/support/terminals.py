"""The command as people see it: a process of its own, on a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys

SECONDPASS = [sys.executable, "-c", "from secondpass.cli import main; main()"]
"""The command, whether or not its script is installed."""


def on_a_terminal(*arguments: str) -> str:
    """What a person sees, control characters included."""
    own, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    with subprocess.Popen(
        [*SECONDPASS, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        seen = b""
        while True:
            ready, _, _ = select.select([own], [], [], 60)
            try:
                data = os.read(own, 65536) if ready else b""
            except OSError:  # how Linux says that the other end was closed
                data = b""
            if not data:
                break
            seen += data
        process.wait()
    os.close(own)
    return seen.decode()
