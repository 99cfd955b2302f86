"""Bodies, clients that leave and concurrent calls over HTTP, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading

import httpx
import pytest

pytest.importorskip("mcp")

from mcp import Client

from loopback_server import Loopback, http_client
from raw_http import until
from secondpass import Reranker
from secondpass_server.http.server import Plan
from secondpass_server.http.settings import ServerSettings
from secondpass_server.mcp import http
from secondpass_server.mcp.tools import create_server

ACCEPT = "application/json, text/event-stream"
CALLS = 12
HEAD = f"POST /mcp HTTP/1.1\r\nHost: localhost:80\r\nAccept: {ACCEPT}\r\n"


class Waiting:
    """A scorer that waits until it is released."""

    def __init__(self):
        self.asked = threading.Event()
        self.released = threading.Event()

    def score_pairs(self, _query, texts):
        self.asked.set()
        assert self.released.wait(60)
        return [float(len(text)) for text in texts]


class Served(Loopback):
    """The server, listening on loopback in a thread."""

    def __init__(self, reranker, **settings):
        self.settings = ServerSettings(**settings)
        plan = Plan({}, self.settings, port=0, drain=0.0)
        application = http.create_app(create_server({"m": reranker}), plan.settings, "127.0.0.1")
        super().__init__(application, plan)
        self.url += "/mcp"

    @property
    def under_way(self):
        return self.application.admission.requests

    def list_tools(self, **headers):
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        return http_client().post(self.url, json=call, headers={"Accept": ACCEPT, **headers})


def call(documents):
    arguments = {"query": "q", "documents": documents}
    return {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "rerank", "arguments": arguments},
    }


def posted(content, length=None):
    """The bytes of a request."""
    content = json.dumps(content).encode() if not isinstance(content, bytes) else content
    length = len(content) if length is None else length
    return (
        f"{HEAD}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode()
        + content
    )


def statuses(connection):
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            received += chunk
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3})", received)]


def test_keys_and_names(monkeypatch):
    monkeypatch.setenv("MCP_KEYS", "correct-horse-battery")
    host = {"Host": "search.example"}
    with Served(Reranker("lexical"), api_key_env="MCP_KEYS") as served:
        assert served.list_tools().status_code == 401
        key = {"X-Api-Key": "correct-horse-battery"}
        assert served.list_tools(**key, **host).status_code == 200
    with Served(Reranker("lexical")) as served:  # without keys, it is for this machine
        assert served.list_tools(**host).status_code in {403, 421}


def test_a_body_that_never_arrives():
    with Served(Reranker("lexical")) as served:
        with pytest.MonkeyPatch.context() as patch, served.connect() as connection:
            patch.setitem(vars(served.settings), "body_timeout", 0.2)
            connection.sendall(posted(b'{"jsonrpc": ', 1000))
            assert statuses(connection) == [408]
        assert served.under_way == 0
        assert served.list_tools().status_code == 200


@pytest.mark.parametrize(
    ("settings", "status"), [({"max_bytes": 1000}, 413), ({"max_total_bytes": 1000}, 200)]
)
def test_a_large_body(settings, status):
    """One alone may be larger than those under way together."""
    with Served(Reranker("lexical"), **settings) as served, served.connect() as connection:
        connection.settimeout(60)
        connection.sendall(posted(call(["a" * 2000])))
        assert connection.recv(12) == f"HTTP/1.1 {status}".encode()


def test_a_client_that_leaves():
    """Its place is free before its ranking has ended."""
    waiting = Waiting()
    with Served(Reranker(waiting), max_requests=1) as served:
        try:
            with served.connect() as connection:
                connection.sendall(posted(call(["a", "bb"])))
                assert waiting.asked.wait(60)
                refused = served.list_tools()
                assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            until(lambda: served.under_way == 0)
            assert served.list_tools().status_code == 200
        finally:
            waiting.released.set()


def test_a_client_that_leaves_within_the_body():
    with Served(Reranker("lexical"), max_requests=1) as served:
        with served.connect() as connection:
            connection.sendall(posted(call(["a"]))[:-5])
            until(lambda: served.under_way == 1)
        until(lambda: served.under_way == 0)
        assert served.list_tools().status_code == 200


def test_calls_at_a_time():
    """Each gets its own answer, by the SDK's client."""

    async def asked(url, number):
        documents = ["a", f"{number} words", "b"]
        arguments = {"query": f"words {number}", "documents": documents, "include_text": True}
        async with Client(url) as client:
            answer = (await client.call_tool("rerank", arguments)).structured_content
        return answer["results"][0]["text"]

    async def all_asked(url):
        return await asyncio.gather(*(asked(url, number) for number in range(CALLS)))

    with Served(Reranker("lexical")) as served:
        found = asyncio.run(asyncio.wait_for(all_asked(served.url), 90))
        assert found == [f"{number} words" for number in range(CALLS)]
        until(lambda: served.under_way == 0)


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD"])
def test_there_are_no_streams(method):
    """A stream would hold its connection open, and never have an event."""
    with Served(Reranker("lexical")) as served:
        response = http_client().request(method, served.url, headers={"Accept": ACCEPT})
        assert (response.status_code, response.headers["allow"]) == (405, "POST")


def test_requests_of_one_connection():
    """The end of a response is not taken for the end of the connection."""
    listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    with Served(Reranker("lexical")) as served, httpx.Client() as client:
        for _ in range(8):
            response = client.post(served.url, json=listed, headers={"Accept": ACCEPT})
            names = [tool["name"] for tool in response.json()["result"]["tools"]]
            assert names == ["rerank", "explain", "pack"]
        until(lambda: served.under_way == 0)
