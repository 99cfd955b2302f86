"""One output row for each input row, whichever process is killed with SIGKILL, and whenever."""

import contextlib
import json
import os
import random
import re
import secrets
import select
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from command_calls import SCRIPT, process
from command_requests import json_lines, requests
from own_processes import OwnProcesses

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]

SECONDS = 240
"""Seconds without a new part file after which a job counts as stuck."""
WORKER = "MapWorker(MapBatches(JobWorker))"
"""Part of the title of a process that ranks."""
AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Ray's processes that exit on their own within about a minute after the others were killed."""
BATCH, DIFFERENT = 200, 2_000
"""Rows of a part file, and rows that are not equal."""


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    """Lines of requests without ids, and the lines that `secondpass rerank` makes of them."""
    path = tmp_path_factory.mktemp("lexical") / "requests.jsonl"
    given = [{**one, "query_id": None} for one in requests(DIFFERENT, 5, words=12)]
    path.write_bytes(json_lines(given))
    told = process("rerank", path, "--preset", "lexical", "--no-text")
    assert told.returncode == 0, told.stderr
    lines = path.read_bytes().splitlines(keepends=True)
    return [*zip(lines, told.stdout.splitlines(keepends=True), strict=True)]


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


@pytest.fixture(scope="module")
def cluster():
    """A cluster that outlives the drivers that are killed."""
    for _ in range(5):  # Ray gives up after 30 seconds, which a busy machine may take
        cluster = Cluster()
        try:
            if cluster.address:
                yield cluster
                return
        finally:
            cluster.close()
    raise AssertionError("Ray did not start")


class Job:
    """One job: the process that runs it, and others that continue it.

    Args:
        folder: for its input and messages; the output is `output` there.
        cluster: where it runs; None: on one that the command starts.
    """

    def __init__(self, folder, cluster):
        self.source, self.output = folder / "in.jsonl", folder / "output"
        self.own = OwnProcesses()
        self._workers_of = self.own
        self._messages = folder / "messages"
        self._command = [*SCRIPT, "job", "--preset", "lexical", "--workers", 2, "--no-text"]
        self._command += ["--input", self.source, "--output", self.output, "--batch", BATCH]
        self._environment = self.own.environment
        if cluster is not None:
            self._command += ["--address", cluster.address]
            self._environment |= cluster.key
            self._workers_of = cluster.own

    def start(self):
        with self._messages.open("ab") as messages:
            self.process = subprocess.Popen(
                [*map(str, self._command)],
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                env=self._environment,
            )

    def messages(self):
        return self._messages.read_text(errors="replace")

    def parts(self):
        return sorted(self.output.glob("part-*.jsonl"))

    def workers(self):
        """Ids of the processes that rank."""
        titles = self._workers_of.titles()
        return sorted(number for number, title in titles.items() if WORKER in title)

    def wait(self, more):
        """Wait until this number of part files were written."""
        count = len(self.parts()) + more
        until = time.monotonic() + SECONDS
        while len(self.parts()) < count:
            assert time.monotonic() < until, self.messages()
            assert self.process.poll() is None, self.messages()
            time.sleep(0.01)

    def kill(self, generator):
        """Kill a worker, or the driver, which is started again; return which."""
        if workers := generator.randint(0, 1) and self.workers():
            with contextlib.suppress(ProcessLookupError):  # it has just ended on its own
                os.kill(generator.choice(workers), signal.SIGKILL)
            return "worker"
        self.process.kill()
        self.process.wait(SECONDS)
        self.start()
        return "driver"

    def check_end(self):
        while self.process.poll() is None:
            count = len(self.parts())
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(SECONDS)
            assert self.process.poll() is not None or len(self.parts()) > count, self.messages()
        assert self.process.returncode == 0, self.messages()

    def close(self):
        """Kill remaining processes; return the titles of unexpected ones."""
        self.process.kill()
        self.process.wait(SECONDS)
        until = time.monotonic() + 60
        while (left := self._left()) and time.monotonic() < until:
            time.sleep(0.1)
        self.own.kill()
        return left

    def _left(self):
        titles = self.own.titles().values()
        return self.workers() or [title for title in titles if title not in AGENTS]


@pytest.mark.parametrize(
    ("place", "rows", "kills"),
    [("a cluster that is there", 100_000, 20), ("its own cluster", 20_000, 4)],
    ids=["cluster", "own"],
)
def test_processes_are_killed(request, tmp_path, ranked, place, rows, kills):
    cluster = None if place == "its own cluster" else request.getfixturevalue("cluster")
    generator = random.Random(kills)
    asked = [generator.choice(ranked) for _ in range(rows)]
    job = Job(tmp_path, cluster)
    job.source.write_bytes(b"".join(line for line, _ in asked))
    job.start()
    most = rows // BATCH // (kills + 1)
    try:
        killed = []
        for _ in range(kills):
            job.wait(generator.randint(1, most))
            done = {part: part.read_bytes() for part in job.parts()}
            killed.append(job.kill(generator))
            assert {part: part.read_bytes() for part in done} == done
        assert set(killed) == {"worker", "driver"}
        assert len(job.parts()) < rows // BATCH, "a process was killed after the last batch"
        job.check_end()
    finally:
        left = job.close()
    assert left == []  # none of its processes outlives it
    lines = [line for part in job.parts() for line in part.read_bytes().splitlines(True)]
    assert [json.loads(line)["row"] for line in lines] == [*range(1, rows + 1)]
    plain = [re.sub(rb'^\{"file": .*?"digest": "\w+", ', b"{", line) for line in lines]
    assert plain == [line for _, line in asked]
