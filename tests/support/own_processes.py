"""Finds the descendants of a program, even after their parents have exited (Linux).

An environment variable marks them: what a process starts inherits it.
"""

import contextlib
import os
import signal
import time
import uuid
from pathlib import Path

VARIABLE = "SECONDPASS_OWN_PROCESSES"


class OwnProcesses:
    """Finds the processes that were started with `environment`."""

    def __init__(self):
        self._mark = f"{VARIABLE}={uuid.uuid4().hex}"

    @property
    def environment(self):
        name, _, value = self._mark.partition("=")
        # A process that sets its title must not write over the environment that others see.
        return {**os.environ, name: value, "SPT_NOENV": "1"}

    def titles(self):
        """Their command lines, by process id."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self._mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    title = (folder / "cmdline").read_text(errors="replace")
                    found[int(folder.name)] = title.replace("\0", " ").strip()
        return found

    def kill(self):
        """End those that are left."""
        until = time.monotonic() + 30
        while (left := self.titles()) and time.monotonic() < until:
            for number in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.1)
