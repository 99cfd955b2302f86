"""How many workers a cluster has room for, what they are given, and connecting to it."""

import signal
import sys
from types import SimpleNamespace

import pytest

from secondpass.errors import ConfigurationError, InputError
from secondpass_ray import starting
from secondpass_ray.starting import Workers, check_keys, connected, crew, with_share


class Cluster:
    def __init__(self, cpus, gpus=0):
        self.resources = {"CPU": float(cpus)} | ({"GPU": float(gpus)} if gpus else {})

    def cluster_resources(self):
        return self.resources


@pytest.mark.parametrize(
    ("cluster", "wanted", "expected"),
    [
        (Cluster(8), Workers(), (8, 1, 0)),
        (Cluster(8), Workers(cpus=3), (2, 3, 0)),
        (Cluster(8), Workers(count=3), (3, 1, 0)),
        (Cluster(8), Workers(concurrency=5), (5, 1, 0)),
        (Cluster(16, 4), Workers(), (4, 1, 1)),
        (Cluster(16, 4), Workers(gpus=0.5), (8, 1, 0.5)),
        (Cluster(16, 4), Workers(gpus=0), (16, 1, 0)),
        (Cluster(16, 4), Workers(cpus=8), (2, 8, 1)),
    ],
    ids=["cpus", "threads", "count", "concurrency", "gpus", "half", "no-gpus", "both"],
)
def test_crews(cluster, wanted, expected):
    found = crew(cluster, wanted)
    assert (found.count, found.cpus, found.gpus) == expected


@pytest.mark.parametrize(
    ("cluster", "wanted", "problem"),
    [
        (Cluster(8), Workers(count=9), "has 8 CPU and 0 GPU, too few for 9 workers of 1 CPU"),
        (Cluster(8), Workers(cpus=9), "too few for 1 worker of 9 CPU"),
        (Cluster(8), Workers(gpus=1), "too few for 1 worker of 1 CPU and 1 GPU"),
        (Cluster(8, 2), Workers(count=3), "and 2 GPU, too few for 3 workers of 1 CPU and 1 GPU"),
        (Cluster(8), Workers(count=4, concurrency=3), "at least the number of workers"),
    ],
    ids=["cpus", "threads", "no-gpus", "gpus", "concurrency"],
)
def test_too_few(cluster, wanted, problem):
    with pytest.raises(InputError) as caught:
        crew(cluster, wanted)
    assert problem in str(caught.value)


@pytest.fixture
def ray(monkeypatch):
    """Stands for Ray."""
    stand_in = SimpleNamespace(is_initialized=lambda: False, shutdown=lambda: None)
    monkeypatch.setattr(starting, "imported", lambda: stand_in)
    return stand_in


@pytest.mark.parametrize(
    ("address", "error", "problem"),
    [
        (None, Exception, r"^Ray did not start on this machine; .* \(Exception\)$"),
        ("nowhere:1", ConnectionError, r"^Ray does not answer at nowhere:1, .* \(Connection"),
    ],
    ids=["local", "cluster"],
)
def test_a_cluster_that_cannot_be_used(ray, address, error, problem):
    def init(**_options):
        raise error("The current node timed out, and so on for pages")

    ray.init = init
    with pytest.raises(InputError, match=problem), connected(address, 1):
        pass


def test_a_cluster_of_our_own_is_closed_to_others(ray):
    given = {}
    ray.init = given.update
    with connected(None, 1):
        pass
    assert given["include_dashboard"] is False
    assert given["dashboard_host"] == "127.0.0.1"
    assert "runtime_env" not in given


def test_sigterm_still_stops_the_command(ray):
    """Ray's handler would exit with 15, without a word."""
    before = signal.getsignal(signal.SIGTERM)
    ours = lambda *_: None  # noqa: E731
    signal.signal(signal.SIGTERM, ours)
    ray.init = lambda **_: signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
    try:
        with connected(None, 1):
            assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)


def test_keys_are_named_by_their_variables():
    llm = {"type": "openai", "model": "m", "api_key": {"env": "A_KEY"}}
    check_keys({"method": {"type": "graded", "llm": llm}})
    with pytest.raises(ConfigurationError, match="api_key") as caught:
        check_keys({"method": {"type": "graded", "llm": {**llm, "api_key": "sk-SECRET-123"}}})
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("concurrency", "workers", "share"), [(None, 2, None), (8, 2, 4), (9, 2, 4), (1, 4, 1)]
)
def test_shares(concurrency, workers, share):
    config = {"method": "lexical", "limits": {"deadline": 1}}
    expected = {"deadline": 1} if share is None else {"deadline": 1, "concurrency": share}
    assert with_share(config, concurrency, workers)["limits"] == expected
    assert config["limits"] == {"deadline": 1}
