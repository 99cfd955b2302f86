"""One output row for each input row, whichever process is killed with SIGKILL, and whenever."""

import contextlib
import json
import os
import random
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
"""Seconds after which a job counts as stuck; a busy machine needs a minute."""
WORKER = "MapWorker(MapBatches(BlockWorker))"
"""Part of the title of a process that ranks."""
AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Ray's processes that exit on their own within about a minute after the others were killed."""
BLOCKS, BLOCK_ROWS = 50, 60


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The path of requests, and the lines that `secondpass rerank` makes of them."""
    path = tmp_path_factory.mktemp("lexical") / "requests.jsonl"
    path.write_bytes(json_lines(requests(BLOCKS * BLOCK_ROWS, 40, words=20)))
    ranked = process("rerank", path, "--preset", "lexical")
    assert ranked.returncode == 0, ranked.stderr
    return path, ranked.stdout.splitlines(keepends=True)


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
    """One job: the process that runs it, and others that resume it.

    Args:
        folder: for its messages; the output is `output` there.
        path: of the requests.
        cluster: where it runs; None: on one that the command starts.
    """

    def __init__(self, folder, path, cluster):
        self.output = folder / "output"
        self.own = OwnProcesses()
        self._workers_of = self.own
        self._messages = folder / "messages"
        self._command = [*SCRIPT, "job", "--preset", "lexical", "--workers", 2]
        self._command += ["--input", path, "--output", self.output, "--block", BLOCK_ROWS]
        self._environment = self.own.environment
        if cluster is not None:
            self._command += ["--address", cluster.address]
            self._environment |= cluster.key
            self._workers_of = cluster.own
        self.start()

    def start(self, *options):
        with self._messages.open("ab") as messages:
            self.process = subprocess.Popen(
                [*map(str, self._command), *options],
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                env=self._environment,
            )

    def messages(self):
        return self._messages.read_text(errors="replace")

    def check_end(self):
        assert self.process.wait(SECONDS) == 0, self.messages()

    def parts(self):
        return sorted(self.output.glob("part-*.jsonl"))

    def workers(self):
        """Ids of the processes that rank."""
        titles = self._workers_of.titles()
        return sorted(number for number, title in titles.items() if WORKER in title)

    def wait(self, generator):
        """Wait until some random moment at which some blocks are written, and others are not."""
        count = generator.randint(1, BLOCKS // 2)
        until = time.monotonic() + SECONDS
        while len(self.parts()) < count:
            assert time.monotonic() < until, self.messages()
            assert self.process.poll() is None, self.messages()
            time.sleep(0.005)
        time.sleep(generator.uniform(0, 0.2))

    def lines(self):
        """The lines of all parts, in order, without their row numbers."""
        lines = [line for part in self.parts() for line in part.read_bytes().splitlines(True)]
        assert [json.loads(line)["row"] for line in lines] == [*range(len(lines))]
        return [b"{" + line.partition(b", ")[2] for line in lines]

    def close(self):
        """Kill remaining processes; return the titles of unexpected ones."""
        self.process.kill()
        self.process.wait(SECONDS)
        until = time.monotonic() + 30
        while (left := self._left()) and time.monotonic() < until:
            time.sleep(0.1)
        self.own.kill()
        return left

    def _left(self):
        titles = self.own.titles().values()
        return self.workers() or [title for title in titles if title not in AGENTS]


@pytest.fixture
def job(request, tmp_path, source, seed):
    """A job, on its own cluster for even seeds, on one that is there already for odd ones."""
    cluster = request.getfixturevalue("cluster") if seed % 2 else None
    job = Job(tmp_path, source[0], cluster)
    yield job
    assert job.close() == []  # none of its processes outlives it


@pytest.mark.parametrize("seed", range(10))
def test_a_worker_is_killed(job, source, seed):
    generator = random.Random(seed)
    job.wait(generator)
    os.kill(generator.choice(job.workers()), signal.SIGKILL)
    assert len(job.parts()) < BLOCKS, "the worker was killed after the last block"
    job.check_end()
    assert job.lines() == source[1]


@pytest.mark.parametrize("seed", range(10))
def test_the_driver_is_killed_and_the_job_resumed(job, source, seed):
    job.wait(random.Random(seed))
    job.process.kill()
    job.process.wait(SECONDS)
    done = {part: part.read_bytes() for part in job.parts()}
    assert 0 < len(done) < BLOCKS, "the driver was killed after the last block"
    job.start("--resume")
    job.check_end()
    assert {part: part.read_bytes() for part in done} == done
    assert job.lines() == source[1]
