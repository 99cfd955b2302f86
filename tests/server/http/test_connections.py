"""Clients that are slow to read, and connections beyond the maximum."""

import asyncio
import socket
import ssl
import threading
from contextlib import ExitStack, suppress
from functools import cache
from unittest.mock import Mock

import pytest

from fakes import ByTable
from loopback_server import LoopbackServer
from raw_http import answered, head, is_complete, next_request_works, request, until
from secondpass import Reranker
from secondpass_server.http import server
from self_signed import self_signed

BODY = {"query": "q", "documents": ["a", "bb"]}


@pytest.fixture
def _impatient(monkeypatch):
    # What is sent may take its time: a connection that the server closes ends in an SSL error.
    monkeypatch.setattr(server, "HEAD_SECONDS", 60.0)
    monkeypatch.setattr(server, "READ_SECONDS", 0.2)
    monkeypatch.setattr(server, "READ_BYTES_PER_SECOND", 2**30)


@pytest.fixture
def certificate(tmp_path):
    """Paths of a certificate and of its key."""
    return self_signed(tmp_path)


@cache
def large_request(keeps="keep-alive"):
    """A request whose response has 7 MB."""
    body = {"query": "q", "documents": ["a" * 200_000] * 35, "return_documents": True}
    return request(body, "/jina/v1/rerank", f"Connection: {keeps}")


def read_little(connection, keeps="keep-alive"):
    """Ask for a large response, and read the first bytes of it."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**14)
    connection.sendall(large_request(keeps))
    received = connection.recv(100)
    assert received.startswith(b"HTTP/1.1 200")
    return received


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(("keeps", "more"), [("keep-alive", 0), ("close", 0), ("keep-alive", 3)])
def test_a_client_that_does_not_read(keeps, more, serving):
    """Its connection ends, and with it what was written for it; further requests do not help."""
    server = serving(Reranker(ByTable()))
    with server.connect() as connection:
        received = read_little(connection, keeps)
        with suppress(OSError):
            connection.sendall(request(BODY) * more)
        until(lambda: not server.open_connections())
        with suppress(ConnectionResetError):
            while chunk := connection.recv(2**20):
                received += chunk
    assert len(received) < 35 * 200_000
    next_request_works(server)


@pytest.mark.usefixtures("_impatient")
def test_a_client_that_does_not_read_what_is_encrypted(certificate, serving):
    server = serving(Reranker(ByTable()), tls=certificate)
    context = ssl.create_default_context(cafile=certificate[0])
    context.check_hostname = False
    with server.connect() as plain, context.wrap_socket(plain) as connection:
        read_little(connection)
        until(lambda: not server.open_connections())


def test_the_time_to_read_is_that_of_each_response(serving):
    server = serving(Reranker(ByTable()))
    timers = [None]

    def has_another():
        return server.read_timers()[0] not in timers

    with server.connect() as connection:
        for _ in range(3):
            received = bytearray(read_little(connection))
            until(has_another)
            timers.append(*server.read_timers())
            while not is_complete(received):
                received += connection.recv(2**24)
        connection.sendall(request(BODY))
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        until(lambda: server.read_timers() == [None])
    assert all(timer.cancelled() for timer in timers[1:])


# ---------------------------------------------------------------------- their number


def ask(connection):
    """The status of the answer to a request on a connection; empty if it is closed."""
    with suppress(ConnectionError):
        connection.sendall(head("/health", method="GET"))
    return answered(connection)[:12]


def test_idle_connections_do_not_stop_the_server(serving, monkeypatch, caplog):
    """The oldest are closed, in the order in which they became idle."""
    monkeypatch.setattr(server, "_most_connections", lambda _: 4)
    served = serving(Reranker(ByTable()))
    with ExitStack() as stack:
        opened = [stack.enter_context(served.connect()) for _ in range(4)]
        assert [ask(each) for each in opened] == [b"HTTP/1.1 200"] * 4
        assert ask(opened[0]) == b"HTTP/1.1 200"  # so that the second is the oldest
        opened += [stack.enter_context(served.connect()) for _ in range(2)]
        assert [ask(each) for each in opened[4:]] == [b"HTTP/1.1 200"] * 2
        assert [ask(each) for each in opened[1:3]] == [b"", b""]
        assert [ask(each) for each in (opened[0], opened[3])] == [b"HTTP/1.1 200"] * 2
        assert served.open_connections() == 4
        metrics = served.get("/metrics").text  # one more connection
    assert "secondpass_connections_closed_total 3.0" in metrics
    assert "secondpass_connections 4.0" in metrics
    (line,) = [record.getMessage() for record in caplog.records if record.name == "secondpass"]
    assert line == "4 connections are open; idle ones are closed to make room, 1 so far"


def test_connections_with_a_request_are_kept(serving, monkeypatch):
    monkeypatch.setattr(server, "_most_connections", lambda _: 2)
    served = serving(Reranker(ByTable()))
    content = request(BODY)
    with served.connect() as busy, served.connect() as idle:
        busy.sendall(content[:-1])
        assert ask(idle) == b"HTTP/1.1 200"
        until(lambda: "secondpass_requests_under_way 1.0" in served.get("/metrics").text)
        for _ in range(3):
            assert served.get("/health").status_code == 200
        assert ask(idle) == b""
        busy.sendall(content[-1:])
        assert answered(busy).startswith(b"HTTP/1.1 200")


def test_log_lines_are_rare(caplog):
    now = [0.0]
    pool = server.Connections(1, clock=lambda: now[0])
    for moment in (0.0, 1.0, 59.0, 61.0, 62.0):
        now[0] = moment
        pool.add(Mock())
    lines = [record.getMessage().rpartition("room, ")[2] for record in caplog.records]
    assert lines == ["1 so far", "3 so far"]


# ---------------------------------------------------------------------- the end


def test_requests_that_were_sent_before_the_end_are_answered(monkeypatch):
    """Also on connections that were idle, or that the server had not accepted yet."""
    drain, sleep = 0.125, asyncio.sleep
    ended, sent = threading.Event(), threading.Event()

    async def held(delay):
        """At the end of the drain period, nothing is accepted or read until all is sent."""
        await sleep(delay)
        if delay == drain:
            ended.set()
            assert sent.wait(60)

    monkeypatch.setattr(asyncio, "sleep", held)
    with LoopbackServer(Reranker(ByTable()), drain=drain) as served, ExitStack() as stack:
        until(lambda: served.get("/ready").status_code == 200)
        opened = [stack.enter_context(served.connect()) for _ in range(3)]
        assert ask(opened[0]) == b"HTTP/1.1 200"
        until(lambda: served.open_connections() == 3)
        served.stop()
        assert ended.wait(60)
        opened += [stack.enter_context(served.connect()) for _ in range(20)]
        for each in opened:
            each.sendall(request(BODY))
        sent.set()
        for each in opened:
            answer = answered(each)
            assert answer.startswith(b"HTTP/1.1 200")
            assert b"connection: close" in answer.lower()


def test_an_idle_connection_does_not_delay_the_end():
    with LoopbackServer(Reranker(ByTable())) as served, served.connect() as connection:
        assert ask(connection) == b"HTTP/1.1 200"
        served.stop()
        assert connection.recv(10) == b""
