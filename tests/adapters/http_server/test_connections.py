"""Clients that are slow to read."""

import shutil
import socket
import ssl
import subprocess
from contextlib import suppress
from functools import cache

import pytest

from fakes import ByTable
from raw_http import is_complete, next_request_works, request, until
from secondpass import Reranker
from secondpass.adapters.http_server import connections

BODY = {"query": "q", "documents": ["a", "bb"]}


@pytest.fixture
def _impatient(monkeypatch):
    # What is sent may take its time: a connection that the server closes ends in an SSL error.
    monkeypatch.setattr(connections, "HEAD_SECONDS", 60.0)
    monkeypatch.setattr(connections, "READ_SECONDS", 0.2)
    monkeypatch.setattr(connections, "READ_BYTES_PER_SECOND", 2**30)


@pytest.fixture
def certificate(tmp_path):
    """Paths of a certificate and of its key."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("without openssl there is no certificate")
    paths = str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem")
    options = ["-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    options += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command = [openssl, "req", *options, "-out", paths[0], "-keyout", paths[1]]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return paths


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
@pytest.mark.parametrize("keeps", ["keep-alive", "close"])
def test_a_client_that_does_not_read(keeps, serving):
    """Its connection ends, and with it what was written for it."""
    server = serving(Reranker(ByTable()))
    with server.connect() as connection:
        received = read_little(connection, keeps)
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


@pytest.mark.usefixtures("_impatient")
def test_a_client_that_asks_and_does_not_read(serving):
    """Further requests do not put the end off."""
    server = serving(Reranker(ByTable()))
    with server.connect() as connection:
        read_little(connection)
        with suppress(OSError):
            for _ in range(3):
                connection.sendall(request(BODY))
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
