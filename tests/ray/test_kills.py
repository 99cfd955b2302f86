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

from command_requests import json_lines, requests
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


pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]

LEXICAL = ("--preset", "lexical")
TIMES = range(10)


class Input:
    """Requests, and what `secondpass rerank` makes of them."""

    def __init__(self, folder, count, candidates, block_rows, method):
        self.path = folder / "requests.jsonl"
        self.path.write_bytes(json_lines(requests(count, candidates, words=20)))
        self.blocks = -(-count // block_rows)
        self.arguments = ("--input", self.path, *method, "--workers", 2)
        self.arguments += ("--block", block_rows)
        command = [sys.executable, "-m", "secondpass", "rerank", self.path, *method]
        done = subprocess.run(
            [*map(str, command)], capture_output=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        self.expected = done.stdout.splitlines(keepends=True)


@pytest.fixture(scope="module")
def lexical(tmp_path_factory):
    return Input(tmp_path_factory.mktemp("lexical"), 3_000, 40, 60, LEXICAL)


@pytest.fixture(scope="module")
def cluster():
    """A cluster that outlives the drivers that are killed."""
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def start(tmp_path):
    """Start a job; none of its processes may outlive it."""
    jobs = []

    def start(source, cluster=None):
        jobs.append(Job(tmp_path, *source.arguments, cluster=cluster))
        jobs[-1].start()
        return jobs[-1]

    yield start
    assert [left for job in jobs for left in job.close()] == []


@pytest.fixture
def somewhere(request, seed):
    """A cluster of the job's own for even seeds, one that is there already for odd ones."""
    return request.getfixturevalue("cluster") if seed % 2 else None


def in_the_middle(job, source, generator):
    """Wait until some random moment at which some blocks are written, and others are not."""
    assert job.wait_for_parts(generator.randint(1, source.blocks // 2)), job.messages()
    time.sleep(generator.uniform(0, 0.2))


def check_lexical(job, source):
    lines = job.lines()
    assert len(lines) == len(source.expected)
    assert lines == source.expected


def kill_worker(job, source, seed):
    generator = random.Random(seed)
    in_the_middle(job, source, generator)
    victim = generator.choice(job.workers())
    kill(victim)
    assert len(job.parts()) < source.blocks, "the worker was killed after the last block"
    assert job.end() == 0, job.messages()


def kill_driver(job, source, seed):
    generator = random.Random(seed)
    in_the_middle(job, source, generator)
    kill(job.process.pid)
    job.end()
    done = {part.name: part.read_bytes() for part in job.parts()}
    assert 0 < len(done) < source.blocks, "the driver was killed after the last block"
    job.start("--resume")
    assert job.end() == 0, job.messages()
    for name, content in done.items():
        assert (job.output / name).read_bytes() == content


@pytest.mark.parametrize("seed", TIMES)
def test_a_worker_is_killed(start, lexical, seed, somewhere):
    job = start(lexical, somewhere)
    kill_worker(job, lexical, seed)
    check_lexical(job, lexical)


@pytest.mark.parametrize("seed", TIMES)
def test_the_driver_is_killed_and_the_job_resumed(start, lexical, seed, somewhere):
    job = start(lexical, somewhere)
    kill_driver(job, lexical, seed)
    check_lexical(job, lexical)
