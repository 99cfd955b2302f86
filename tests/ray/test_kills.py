"""One output row for each input row, whichever process is killed with SIGKILL, and whenever."""

import json
import random
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from command_requests import json_lines, requests
from ray_jobs import SECONDS, Job, kill, running_cluster

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]

LEXICAL = ("--preset", "lexical")
EMBEDDED = ("--preset", "embedded", "--set", "method.precision=exact", "--set", "method.threads=1")
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
def embedded(tmp_path_factory):
    return Input(tmp_path_factory.mktemp("embedded"), 160, 20, 8, EMBEDDED)


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


def check_embedded(job, source):
    """Equal orders, and scores to 1e-5: batches differ, and so do roundings."""
    lines = job.lines()
    assert len(lines) == len(source.expected)
    for line, expected in zip(
        map(json.loads, lines), map(json.loads, source.expected), strict=True
    ):
        assert [item["id"] for item in line["ranking"]] == [
            item["id"] for item in expected["ranking"]
        ]
        assert [item["rerank_score"] for item in line["ranking"]] == pytest.approx(
            [item["rerank_score"] for item in expected["ranking"]], abs=1e-5
        )


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


@pytest.mark.parametrize("kills", [kill_worker, kill_driver])
def test_embedded(start, embedded, cluster, kills):
    job = start(embedded, cluster)
    kills(job, embedded, 0)
    check_embedded(job, embedded)
