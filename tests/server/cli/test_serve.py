"""``secondpass serve``: its options, errors at the start, and SIGTERM under load.

The answers are tested in ``tests/server/http``.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from loopback_server import http_client
from raw_http import until
from secondpass_server.http import server, workers

CLIENTS = 4
BODY = {"query": "cat food", "documents": [f"{n} cats, food" for n in range(40)]}


@contextlib.contextmanager
def process(*options, **variables):
    """``secondpass serve`` with its URL; it is ended with the block."""
    command = [sys.executable, "-m", "secondpass", "serve", "--port", "0", *options]
    running = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables}
    )
    try:
        line = running.stderr.readline()
        match = re.search(r"http://\S+", line)
        assert match, line + running.stderr.read()
        yield running, match[0]
    finally:
        running.kill()
        running.wait(60)
        running.stderr.close()


def until_ready(url):
    """How many times it was asked."""
    give_up = time.monotonic() + 60
    asked = 0
    while time.monotonic() < give_up:
        asked += 1
        if http_client().get(url + "/ready", timeout=60).status_code == 200:
            return asked
        time.sleep(0.05)
    raise AssertionError("the server is not ready")


class Load:
    """Clients that send one request after the other until the server takes no more."""

    def __init__(self, url, ready):
        self.url = url
        self.ready = ready
        self.answered = 0
        self.refused = 0
        self.lost = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._send) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _send(self):
        with httpx.Client(trust_env=False, timeout=60) as client:
            while True:
                try:
                    response = client.post(self.url + "/v1/rerank", json=BODY)
                except httpx.ConnectError:
                    with self._lock:
                        self.refused += 1
                    return
                except httpx.TransportError as error:
                    with self._lock:
                        self.lost.append(type(error).__name__)
                    return
                assert len(response.json()["results"]) == 40
                with self._lock:
                    self.answered += 1

    def join(self):
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


@pytest.mark.long  # the requests of one client are answered below
@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_under_load(workers):
    options = ("-p", "lexical", "--drain", "0.5", "--workers", str(workers))
    with process(*options) as (running, url):
        load = Load(url, until_ready(url))
        until(lambda: load.answered >= 20)
        running.send_signal(signal.SIGTERM)
        load.join()
        assert running.wait(60) == 0
        said = running.stderr.read()
    assert load.lost == []
    assert load.refused == CLIENTS
    assert "cut off" not in said
    if workers == 1:
        # All that the server took, and no more: none was answered without a client that got it.
        (answered,) = re.findall(r"stopped; (\d+) requests", said)
        assert int(answered) == load.answered + load.ready


def accepts(host, port):
    """Whether a server listens at an address."""
    try:
        socket.create_connection((host, port), timeout=60).close()
    except ConnectionError:
        return False
    return True


def test_requests_under_way_are_answered():
    with process("-p", "lexical", "--drain", "0") as (running, url):
        until_ready(url)
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            head = "POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
            content = b'{"query": "a", "documents": ["a", "b"]}'
            head += f"\r\nContent-Length: {len(content)}\r\nExpect: 100-continue\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(65536).startswith(b"HTTP/1.1 100")  # the request has begun
            running.send_signal(signal.SIGTERM)
            until(lambda: not accepts(host, int(port)))
            connection.sendall(content)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer.lower()
        assert running.wait(60) == 0


@pytest.mark.parametrize("workers", ["1", pytest.param("2", id="2", marks=pytest.mark.long)])
def test_requests_before_the_first_is_accepted_are_answered(workers):
    options = ("-p", "lexical", "--drain", "0", "--workers", workers)
    with process(*options) as (running, url):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            running.send_signal(signal.SIGTERM)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        assert running.wait(60) == 0


@pytest.mark.long
def test_workers_add_up_their_metrics():
    with process("-p", "lexical", "--workers", "2", "--drain", "0") as (running, url):
        until_ready(url)
        for _ in range(20):
            assert http_client().post(url + "/v1/rerank", json=BODY).status_code == 200
        text = http_client().get(url + "/metrics").text
        assert 'secondpass_rankings_total{model="lexical",status="ok"} 20.0' in text
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0


@pytest.mark.long
def test_workers_end_when_their_parent_is_killed():
    with process("-p", "lexical", "--workers", "2", "--drain", "0") as (running, url):
        until_ready(url)
        running.kill()
        give_up = time.monotonic() + 60
        with contextlib.suppress(httpx.TransportError):
            while http_client().get(url + "/health"):
                assert time.monotonic() < give_up
                time.sleep(0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--host", "0.0.0.0"), "clients must send a key: set --api-key-env or --api-key-file"),
        (("--api-key-file", "/nonexistent"), "API keys in /nonexistent: cannot be read"),
        (("-p", "lexical=a", "-p", "embedded=a"), "'a' is named twice; write NAME=MODEL"),
        (("--host", "192.0.2.1", "--api-key-env", "SERVE_TEST_KEY"), "cannot listen on 192.0.2.1"),
        (("--tls-key", "x"), "--tls-certificate, --tls-key: give both"),
        (("--set", "method=lexcal"), "did you mean 'lexical'"),
    ],
    ids=["no key", "no file", "one name twice", "address", "TLS", "configuration"],
)
def test_refused_at_the_start(options, message, secondpass, monkeypatch):
    monkeypatch.setenv("SERVE_TEST_KEY", "0123456789abcdef")
    result = secondpass("serve", *(() if "-p" in options else ("-p", "lexical")), *options)
    assert result.code in {1, 2}
    assert message in result.flat


@pytest.fixture
def runs(monkeypatch):
    """What the command would run: a function of this process, or workers; and its plan."""
    begun = []

    def serving(name, result):
        def run(plan, listening, early):
            listening.close()
            begun.append((name, plan))
            return result

        return run

    monkeypatch.setattr(server, "run", serving("process", (7, 2)))
    monkeypatch.setattr(workers, "run_workers", serving("workers", None))
    monkeypatch.setattr(workers, "log_to_stderr", lambda: None)
    return begun


MIB = 2**20


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ([], {"max_bytes": 8 * MIB, "max_total_bytes": 128 * MIB, "deadline": None}),
        (["--max-body", 200], {"max_bytes": 200 * MIB, "max_total_bytes": 200 * MIB}),
        (
            ["--max-candidates", 3, "--max-characters", 50, "--max-requests", 2, "--deadline", 0.5],
            {"max_candidates": 3, "max_text_characters": 50, "max_requests": 2, "deadline": 0.5},
        ),
        (["--forgiving"], {"forgiving": True, "strict_models": False, "issue_messages": False}),
        (["--strict-models"], {"forgiving": False, "strict_models": True}),
        (["--issue-messages"], {"forgiving": False, "issue_messages": True}),
    ],
    ids=["none", "large bodies", "limits", "forgiving", "strict models", "messages"],
)
def test_settings_of_the_application(secondpass, runs, options, settings):
    told = secondpass("serve", "-p", "lexical", "--port", 0, *options)
    assert told.code == 0, told.err
    ((_, plan),) = runs
    assert {name: getattr(plan.settings, name) for name in settings} == settings


@pytest.mark.parametrize("workers", [1, 2])
def test_one_process_or_workers(secondpass, runs, workers):
    options = ["--workers", workers, "--drain", 3, "--grace", 4.5]
    told = secondpass("serve", "-p", "lexical", "-p", "lexical=b", "--port", 0, *options)
    ((name, plan),) = runs
    assert name == ("process" if workers == 1 else "workers")
    assert (plan.workers, plan.drain, plan.grace) == (workers, 3.0, 4.5)
    assert re.search(r"serving lexical, b at http://127\.0\.0\.1:[1-9]\d*", told.flat)
    stopped = "stopped; 7 requests were answered; 2 were cut off after 4.5 s"
    assert (stopped in told.flat) == (workers == 1)


def test_a_missing_package(secondpass, monkeypatch):
    monkeypatch.delitem(sys.modules, server.__name__)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    told = secondpass("serve", "-p", "lexical")
    assert (told.code, 'Run: pip install "secondpass[serve]"' in told.flat) == (1, True), told.err
