"""`secondpass job` as a process that may be killed, with all that it started."""

import json
import os
import signal
import subprocess
import sys
import time

from own_processes import OwnProcesses

SECONDS = 240
"""After which a job counts as stuck: a machine that does other things needs a minute."""
AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Of Ray: they notice by themselves, within a minute or so, that the rest was killed."""


class Job:
    """One job: the process that runs it, and others that resume it.

    Args:
        folder: for its messages; the output is `output` there.
        arguments: of the command, besides `--output`.
    """

    def __init__(self, folder, *arguments):
        self.output = folder / "output"
        self._messages = folder / "messages"
        self._arguments = [*arguments, "--output", self.output]
        self.own = OwnProcesses()
        self.process = None

    def start(self, *options):
        command = [sys.executable, "-m", "secondpass", "job", *self._arguments, *options]
        with self._messages.open("ab") as messages:
            self.process = subprocess.Popen(
                [*map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                env={**self.own.environment, "OMP_NUM_THREADS": "1"},
            )

    def messages(self):
        return self._messages.read_text(errors="replace")

    def end(self):
        """Wait for the exit code."""
        return self.process.wait(SECONDS)

    def parts(self):
        return sorted(self.output.glob("part-*.jsonl"))

    def workers(self):
        """Ids of the processes that rank."""
        return [number for number, title in self.own.titles().items() if "MapWorker" in title]

    def wait_for_parts(self, count):
        """Wait until so many parts are there; False if the job ended before."""
        until = time.monotonic() + SECONDS
        while len(self.parts()) < count:
            assert time.monotonic() < until, self.messages()
            if self.process.poll() is not None:
                return False
            time.sleep(0.005)
        return True

    def lines(self):
        """The lines of all parts, in order, without their row numbers."""
        found = []
        for part in self.parts():
            for line in part.read_bytes().splitlines(keepends=True):
                number = json.loads(line)["row"]
                assert number == len(found), part
                start = f'{{"row": {number}, '.encode()
                assert line.startswith(start)
                found.append(b"{" + line.removeprefix(start))
        return found

    def close(self):
        """Kill what is left; the titles of what should not have been."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(SECONDS)
        left = self._wait_for_end(30)
        self.own.kill()
        return left

    def _wait_for_end(self, seconds):
        until = time.monotonic() + seconds
        while True:
            left = [title for title in self.own.titles().values() if title not in AGENTS]
            if not left or time.monotonic() > until:
                return left
            time.sleep(0.1)


def kill(number):
    os.kill(number, signal.SIGKILL)
