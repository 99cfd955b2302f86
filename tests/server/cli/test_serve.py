"""``secondpass serve``: its options, errors at the start, and SIGTERM under load.

The answers are tested in ``tests/server/http``.
"""

import re
import signal
import socket
import sys

import httpx
import pytest

from load_clients import Load
from loopback_server import http_client
from raw_http import answered, head, until
from secondpass import MissingExtraError
from secondpass_server.http import server, workers

CLIENTS = 4
BODY = {"query": "cat food", "documents": [f"{n} cats, food" for n in range(40)]}
LEXICAL = ("serve", "-p", "lexical", "--port", "0", "--drain")


def until_ready(url):
    """How many times it was asked."""
    asked = []

    def is_ready():
        asked.append(http_client().get(url + "/ready"))
        return asked[-1].status_code == 200

    until(is_ready)
    return len(asked)


@pytest.mark.long  # the requests of one client are answered below
@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_under_load(workers, running):
    with running(*LEXICAL, "0.5", "--workers", str(workers)) as (process, url):
        ready = until_ready(url)
        with Load(url, BODY, CLIENTS) as load:
            load.until(20)
            process.send_signal(signal.SIGTERM)
            load.join()
        assert process.wait(60) == 0
        said = process.stderr.read()
    assert load.errors == ["ConnectError"] * CLIENTS  # at the end, and nothing was lost
    assert {len(order) for order in load.orders} == {40}
    assert "cut off" not in said
    if workers == 1:
        # All that the server took, and no more: none was answered without a client that got it.
        (answered,) = re.findall(r"stopped; (\d+) requests", said)
        assert int(answered) == len(load.orders) + ready


def accepts(address):
    """Whether a server listens at an address."""
    try:
        socket.create_connection(address, timeout=60).close()
    except ConnectionError:
        return False
    return True


def address_of(url):
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def test_requests_under_way_are_answered(running):
    content = b'{"query": "a", "documents": ["a", "b"]}'
    lines = ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    with running(*LEXICAL, "0") as (process, url):
        until_ready(url)
        with socket.create_connection(address_of(url), timeout=60) as connection:
            connection.sendall(head("/v1/rerank", *lines, "Expect: 100-continue"))
            assert connection.recv(65536).startswith(b"HTTP/1.1 100")  # the request has begun
            process.send_signal(signal.SIGTERM)
            until(lambda: not accepts(address_of(url)))
            connection.sendall(content)
            answer = answered(connection)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer.lower()
        assert process.wait(60) == 0


@pytest.mark.parametrize("workers", ["1", pytest.param("2", id="2", marks=pytest.mark.long)])
def test_requests_before_the_first_is_accepted_are_answered(workers, running):
    with running(*LEXICAL, "0", "--workers", workers) as (process, url):
        with socket.create_connection(address_of(url), timeout=60) as connection:
            connection.sendall(head("/health", method="GET"))
            process.send_signal(signal.SIGTERM)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        assert process.wait(60) == 0


def test_all_documents_are_scored_unless_a_depth_is_stated(running):
    body = {"query": "cat", "documents": [*["no"] * 150, "a cat"]}
    deep, shallow = ("-p", "lexical"), ("-p", "lexical", "--set", "depth=100")
    for options, first, depth in [(deep, 150, "151/151"), (shallow, 0, "100/151")]:
        with running("serve", "--port", "0", *options) as (process, url):
            until_ready(url)
            response = http_client().post(url + "/v2/rerank", json=body)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            told = process.stderr.read()
        assert response.json()["results"][0]["index"] == first
        assert response.headers["secondpass-depth"] == depth
        assert ("lexical: the first 100 documents of a request" in told) == (first == 0)


@pytest.mark.long
def test_workers_add_up_their_metrics_and_end_with_their_parent(running):
    with running(*LEXICAL, "0", "--workers", "2") as (process, url):
        until_ready(url)
        for _ in range(20):
            assert http_client().post(url + "/v1/rerank", json=BODY).status_code == 200
        text = http_client().get(url + "/metrics").text
        assert 'secondpass_rankings_total{model="lexical",status="ok"} 20.0' in text
        process.kill()
        with pytest.raises(httpx.TransportError):
            until(lambda: http_client().get(url + "/health").is_error)


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
    assert (told.code, MissingExtraError("serve", "it").command in told.flat) == (1, True), told.err
