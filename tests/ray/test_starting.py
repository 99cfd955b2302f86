"""Connecting to Ray."""

import signal
import sys

import pytest

from secondpass.errors import InputError
from secondpass_ray.starting import connected

ray = pytest.importorskip("ray")


@pytest.mark.parametrize("error", [Exception, ConnectionError, ValueError, RuntimeError])
@pytest.mark.parametrize(
    ("address", "problem"),
    [(None, "Ray did not start on this machine"), ("nowhere:1", "does not answer at nowhere:1")],
    ids=["local", "cluster"],
)
def test_a_cluster_that_cannot_be_used(monkeypatch, error, address, problem):
    def init(**_options):
        raise error("The current node timed out, and so on for pages")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(InputError) as caught, connected(address, 1):
        pass
    assert problem in str(caught.value)
    assert "pages" not in str(caught.value)


def test_a_cluster_of_our_own_is_closed_to_others(monkeypatch):
    given = {}
    monkeypatch.setattr(ray, "init", lambda **options: given.update(options))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with connected(None, 1):
        pass
    assert given["include_dashboard"] is False
    assert given["dashboard_host"] == "127.0.0.1"
    assert "runtime_env" not in given


def test_sigterm_still_stops_the_command(monkeypatch):
    """Ray's handler would exit with 15, without a word."""
    before = signal.getsignal(signal.SIGTERM)
    ours = lambda *_: None  # noqa: E731
    signal.signal(signal.SIGTERM, ours)
    try:
        monkeypatch.setattr(
            ray, "init", lambda **_: signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
        )
        monkeypatch.setattr(ray, "shutdown", lambda: None)
        with connected(None, 1):
            assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)
