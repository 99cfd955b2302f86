"""`secondpass job` as a process that tests kill, with all its descendants."""

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time

from own_processes import OwnProcesses

SECONDS = 240
"""Seconds after which a job counts as stuck; a busy machine needs a minute."""
WORKER = "MapWorker(MapBatches(BlockWorker))"
"""Part of the title of a process that ranks."""
AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Ray's processes that exit on their own within about a minute after the others were killed."""


class Cluster:
    """A cluster of two CPUs on this machine, in processes of its own."""

    CODE = (
        "import ray, sys\n"
        "ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80_000_000)\n"
        "print(ray.get_runtime_context().gcs_address, flush=True)\n"
        "sys.stdin.read()\n"
    )

    def __init__(self):
        self.own = OwnProcesses()
        self.key = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.CODE],
            env={**self.own.environment, **self.key, "RAY_USAGE_STATS_ENABLED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        is_ready, _, _ = select.select([self._process.stdout], [], [], SECONDS)
        self.address = self._process.stdout.readline().strip() if is_ready else ""

    def close(self):
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        self.own.kill()
        self._process.wait(30)
        self._process.stdout.close()


@contextlib.contextmanager
def running_cluster():
    """A cluster; Ray gives up after 30 seconds, which a busy machine may take to start one."""
    for _ in range(5):
        cluster = Cluster()
        try:
            if cluster.address:
                yield cluster
                return
        finally:
            cluster.close()
    raise AssertionError("Ray did not start")


class Job:
    """One job: the process that runs it, and others that resume it.

    Args:
        folder: for its messages; the output is `output` there.
        arguments: of the command, besides `--output`.
        cluster: where it runs; None: on one that the command starts.
    """

    def __init__(self, folder, *arguments, cluster=None):
        self.output = folder / "output"
        self.own = OwnProcesses()
        self.process = None
        self._cluster = cluster
        self._messages = folder / "messages"
        self._arguments = [*arguments, "--output", self.output]
        self._environment = self.own.environment
        if cluster is not None:
            self._arguments += ["--address", cluster.address]
            self._environment |= cluster.key

    def start(self, *options):
        command = [sys.executable, "-m", "secondpass", "job", *self._arguments, *options]
        with self._messages.open("ab") as messages:
            self.process = subprocess.Popen(
                [*map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                env=self._environment,
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
        own = self.own if self._cluster is None else self._cluster.own
        return sorted(number for number, title in own.titles().items() if WORKER in title)

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
        """Kill remaining processes; return the titles of unexpected ones."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(SECONDS)
        until = time.monotonic() + 30
        while (left := self._left()) and time.monotonic() < until:
            time.sleep(0.1)
        self.own.kill()
        return left

    def _left(self):
        titles = self.own.titles().values()
        workers = [WORKER for _ in self.workers()]
        return workers or [title for title in titles if title not in AGENTS]


def kill(number):
    os.kill(number, signal.SIGKILL)
