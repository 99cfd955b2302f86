"""Malformed, huge, slow and half-closed requests: the right 4xx or a closed connection.

Kinds are generated from lists of parts. After each, the next request must work.
"""

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import ByTable
from loopback_server import LoopbackServer
from raw_http import answered, head, next_request_works, request, until
from sampling import examples
from secondpass import Reranker
from secondpass_server.http import bodies
from secondpass_server.http import server as http_server

PATHS = {"/v1/rerank": 400, "/jina/v1/rerank": 422, "/tei/rerank": 422}
GOOD = {"query": "q", "documents": ["a", "bb"], "texts": ["a", "bb"]}
MOST = 20_000
SECRET = "wombats-of-1899"


@pytest.fixture(scope="module")
def server():
    with LoopbackServer(
        Reranker(ByTable()),
        max_bytes=MOST,
        max_candidates=5,
        max_query_characters=50,
        max_text_characters=60,
        body_timeout=60,
    ) as server:
        yield server


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """No client makes the server log an exception, or anything that it sent."""
    caplog.set_level("WARNING")
    yield
    records = caplog.get_records("call")
    assert not [record for record in records if record.exc_info]
    assert not [record for record in records if record.levelname in {"ERROR", "CRITICAL"}]
    assert not [text for text in map(str, caplog.messages) if SECRET in text]


@pytest.fixture(autouse=True, scope="module")
def _patience():
    """A client that sends all of its request gets a response, however busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_server, "HEAD_SECONDS", 60)
        patch.setattr(bodies, "_DISCARD_SECONDS", 60)
        yield


@contextmanager
def impatient(server):
    """For clients that do not send the rest of their request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_server, "HEAD_SECONDS", 0.3)
        patch.setattr(bodies, "_DISCARD_SECONDS", 0.3)
        patch.setitem(vars(server.service.settings), "body_timeout", 0.3)
        yield


def exchange(server, *parts, half_close=False):
    """The statuses of the responses to bytes, until one is complete or the server closes."""
    with server.connect() as connection:
        with suppress(OSError):  # the server may have closed it
            for part in parts:
                connection.sendall(part)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        answer = answered(connection)
        assert SECRET.encode() not in answer
        return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


# ---------------------------------------------------------------------- bodies

GOOD_TEXT = json.dumps(GOOD)
MALFORMED = {
    "empty": (b"", 400),
    "not JSON": (SECRET.encode(), 400),
    "cut": (GOOD_TEXT[:-5].encode(), 400),
    "two values": (GOOD_TEXT.encode() * 2, 400),
    "NaN": (b'{"query": "q", "documents": ["a"], "x": NaN}', 400),
    "Infinity": (b'{"query": "q", "documents": ["a"], "x": -Infinity}', 400),
    "1e999": (b'{"query": "q", "documents": ["a"], "x": 1e999}', 400),
    "digits": (b'{"query": "q", "x": ' + b"9" * 5000 + b"}", 400),
    "a key twice": (b'{"query": "q", "documents": ["a"], "documents": ["b"]}', 400),
    "a key twice within": (b'{"query": "q", "documents": [{"text": "a", "text": "b"}]}', 400),
    "deep lists": (b"[" * 9000, 400),
    "deep and closed": (b"[" * 9000 + b"]" * 9000, 400),
    "UTF-16": (GOOD_TEXT.encode("utf-16"), 400),
    "too long": (b'{"query": "' + b"a" * MOST + b'"}', 413),
    "much too long": (b"a" * 2**20, 413),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_bodies(case, server):
    content, status = MALFORMED[case]
    statuses = exchange(server, request(content))
    assert statuses[:1] == [status] or (not statuses and len(content) > 2**19)
    next_request_works(server)


# ---------------------------------------------------------------------- heads

JSON = "Content-Type: application/json"
CHUNKED = "Transfer-Encoding: chunked"
BODY = json.dumps({"query": "q", "documents": ["a"]}).encode()
SIZE = f"Content-Length: {len(BODY)}"
HEADS = {
    "no content type": ([SIZE], BODY, [415]),
    "compressed": ([JSON, "Content-Encoding: gzip", SIZE], BODY, [415]),
    "bomb": ([JSON, "Content-Encoding: br", SIZE], BODY, [415]),
    "no length": ([JSON], b"", [400]),
    "length too short": ([JSON, "Content-Length: 5"], BODY[:5], [400]),
    "length huge": ([JSON, "Content-Length: 99999999999"], BODY, [413]),
    "length a word": ([JSON, "Content-Length: many"], BODY, [400]),
    "length of 5000 digits": ([JSON, "Content-Length: " + "9" * 5000], BODY, [400]),
    "two lengths": ([JSON, "Content-Length: 5", SIZE], BODY, [400]),
    "length and chunks": (
        [JSON, SIZE, CHUNKED],
        b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
        [400],
    ),
    "unknown encoding": ([JSON, "Transfer-Encoding: gzip, chunked"], BODY, [400, 501]),
    "bad chunk": ([JSON, CHUNKED], b"zz\r\n" + BODY, [400]),
    "endless chunks": ([JSON, CHUNKED], (b"400\r\n" + b"a" * 1024 + b"\r\n") * 40, [413]),
    "header without a colon": (["nonsense", JSON, SIZE], BODY, [400]),
    "header of 1 MiB": (["X: " + "a" * 2**20, JSON, SIZE], BODY, [400, 431]),
    "5000 headers": ([JSON, *(f"X-{n}: {n}" for n in range(5000))], BODY, [400, 431]),
    "bad deadline": ([JSON, SIZE, "Secondpass-Deadline: soon"], BODY, [400]),
    "deadline nan": ([JSON, SIZE, "Secondpass-Deadline: nan"], BODY, [400]),
    "bad strict": ([JSON, SIZE, "Secondpass-Strict: perhaps"], BODY, [400]),
}


UNFINISHED = {"length huge", "endless chunks"}


@pytest.mark.parametrize("case", HEADS)
def test_heads(case, server):
    lines, body, statuses = HEADS[case]
    with impatient(server) if case in UNFINISHED else nullcontext():
        found = exchange(server, head("/v1/rerank", *lines), body)
    assert not found or found[0] in statuses
    if "header of" not in case:
        assert found, "the client is told"
    next_request_works(server)


PATHS_AND_METHODS = [
    *(("POST", path) for path in ("/", "/v3/rerank", "/v1/rerank/x", "/v1/RERANK", "*")),
    *(("POST", path) for path in ("/%2e%2e/v1/rerank", "/v1/rerank%00", "/cohere/tei/rerank")),
    *((method, "/v1/rerank") for method in ("GET", "OPTIONS", "TRACE", "HEAD", "CONNECT", "BREW")),
    *(("POST", path) for path in ("/health", "/metrics")),
]


@pytest.mark.parametrize(("method", "path"), PATHS_AND_METHODS)
def test_paths_and_methods(method, path, server):
    head_only = method == "HEAD"
    with impatient(server) if head_only else nullcontext():
        found = exchange(server, head(path, JSON, SIZE, method=method), b"" if head_only else BODY)
    assert found[:1] in ([404], [405], [400])
    next_request_works(server)


# ---------------------------------------------------------------------- no HTTP behind a head

BROKEN_CHUNKS = {
    "no size": b"wombats-of-1899\r\n",
    "a size that is no number": b"xyz\r\nwombats-of-1899\r\n",
    "a negative size": b"-5\r\n",
    "a huge size": b"f" * 40 + b"\r\n",
    "no end of a chunk": b"5\r\nwombats-of-1899",
    "control characters": b"\x00\x1b[2J\xff\r\n",
    "a wrong trailer": b"0\r\nwombats-of-1899\r\n\r\n",
    "after a good chunk": b"1\r\n{\r\nwombats-of-1899\r\n",
}
ENDPOINTS = [
    *((method, "/health", first) for method in ("HEAD", "GET") for first in (False, True)),
    *((method, "/health", False) for method in ("POST", "OPTIONS")),
    *((method, "/v1/rerank", False) for method in ("HEAD", "GET", "POST")),
    *((method, "/nope", False) for method in ("HEAD", "POST")),
    ("HEAD", "/metrics", True),
    ("HEAD", "http://localhost/health", False),
]


@pytest.mark.parametrize(("method", "path", "answered_first"), ENDPOINTS)
@pytest.mark.parametrize("chunks", BROKEN_CHUNKS)
def test_chunks_that_are_broken(server, chunks, method, path, answered_first):
    """With the head, or once it has been answered."""
    with server.connect() as connection:
        connection.sendall(head(path, JSON, CHUNKED, method=method))
        if answered_first:
            assert connection.recv(65536, socket.MSG_PEEK).startswith(b"HTTP/1.1 ")
        with suppress(OSError):
            connection.sendall(BROKEN_CHUNKS[chunks])
        answer = b""
        with suppress(ConnectionResetError):
            while chunk := connection.recv(65536):  # the server closes the connection
                answer += chunk
    statuses = re.findall(rb"HTTP/1\.1 (\d{3})", answer)
    assert len(statuses) <= 1
    assert SECRET.encode() not in answer
    _, _, content = answer.partition(b"\r\n\r\n")
    assert not (method == "HEAD" and content)
    next_request_works(server)


# ---------------------------------------------------------------------- slow and half-closed

CUT = {
    "nothing": b"",
    "no method": b"/v1/rerank HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no host": b"POST /v1/rerank HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 600,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "line feeds": b"\n" * 50,
    "a long line": b"POST /" + b"a" * 2**17,
    "in the line": b"POST /v1/re",
    "in the head": head()[:-2],
    "after the head": head("/v1/rerank", JSON, SIZE),
    "in the body": head("/v1/rerank", JSON, SIZE) + BODY[:9],
    "in a chunk": head("/v1/rerank", JSON, CHUNKED) + b"40\r\n{",
    "between chunks": head("/v1/rerank", JSON, CHUNKED) + b"1\r\n{\r\n",
    "waiting for 100": head("/v1/rerank", JSON, SIZE, "Expect: 100-continue"),
}
"""What is sent, and then nothing."""


@pytest.fixture(scope="module")
def answers(server):
    """The statuses for each of `CUT`: the connections wait side by side."""
    rows = [(case, half_close) for case in CUT for half_close in (False, True)]
    with impatient(server), ThreadPoolExecutor(len(rows)) as pool:
        running = [
            pool.submit(exchange, server, CUT[case], half_close=half_close)
            for case, half_close in rows
        ]
        return {row: one.result(120) for row, one in zip(rows, running, strict=True)}


@pytest.mark.parametrize("half_close", [False, True])
@pytest.mark.parametrize("case", CUT)
def test_clients_that_stop(case, half_close, server, answers):
    statuses = [code for code in answers[case, half_close] if code != 100]
    assert statuses[:1] in ([], [400], [404], [408])
    next_request_works(server)
    assert server.service.ready


def test_whole_requests_of_half_closed_connections(server):
    """The answer, or a closed connection: never a wrong answer."""
    assert exchange(server, request(BODY), half_close=True) in ([200], [])
    next_request_works(server)


def test_pipelined_requests_have_their_own_answers(server):
    one, two = ({"query": "q", "documents": texts} for texts in (["a", "bb"], ["bb", "a"]))
    with server.connect() as connection:
        connection.sendall(request(one) + request(two))
        answer = b""
        while answer.count(b'"results"') < 2:
            answer += connection.recv(65536)
    assert re.findall(rb'"index":(\d)', answer) == [b"1", b"0", b"0", b"1"]


@pytest.mark.parametrize("path", ["/health", "/ready", "/nope", "/metrics"])
def test_nothing_follows_a_request_of_ambiguous_length(server, path):
    """A proxy may take what follows for another request, or for none."""
    lines = ("Content-Length: 5", CHUNKED)
    smuggled = head("/v1/models", method="GET")
    found = exchange(server, head(path, *lines, method="GET") + b"0\r\n\r\n" + smuggled)
    assert len(found) == 1


# ---------------------------------------------------------------------- anything

PIECES = st.sampled_from(
    [
        b"POST /v1/rerank HTTP/1.1\r\n",
        b"POST http://localhost//v1/score/ HTTP/1.1\r\n",
        b"HEAD /health HTTP/1.1\r\n",
        b"GET /health HTTP/1.0\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: upgrade, close\r\nUpgrade: websocket\r\n",
        b"xyz\r\n",
        b"Host: localhost\r\n",
        JSON.encode() + b"\r\n",
        SIZE.encode() + b"\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"\r\n",
        BODY,
        b"5\r\n",
        b"0\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
        b": \x00",
        b"\n",
    ]
) | st.binary(max_size=20)


@given(st.lists(PIECES, max_size=8).map(b"".join))
def test_any_bytes(server, sent):
    statuses = exchange(server, sent, half_close=True)
    assert all(code == 200 or 400 <= code < 500 or code == 501 for code in statuses)
    next_request_works(server)


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["query", "documents", "texts", "top_n", "top_k", "text", "model"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@examples(30)
@given(JSONS, st.sampled_from([*PATHS, "/v1/reranking", "/voyage/v1/rerank", "/cohere/v2/rerank"]))
def test_any_json(server, body, path):
    (status,) = exchange(server, request(body, path))
    assert status == 200 or 400 <= status < 500


def test_bodies_are_bounded_together(serving):
    """A body that would be too much beside others is refused, and may be sent again."""
    server = serving(Reranker(ByTable()), max_total_bytes=1000)
    first = request({"query": "q", "documents": ["a" * 900]})
    body = {"query": "q", "documents": ["b" * 900]}
    with server.connect() as connection:
        connection.sendall(first[:-10])  # nearly all of it is there
        until(lambda: server.post("/v1/rerank", body).status_code == 429)
        connection.sendall(first[-10:])
        assert b"HTTP/1.1 200" in connection.recv(65536)
    assert server.post("/v1/rerank", body).status_code == 200
