"""Bodies, clients that leave and concurrent calls over HTTP, in this process."""

from __future__ import annotations

import asyncio

import httpx
import pytest

pytest.importorskip("mcp")

from mcp import Client

from loopback_server import Loopback, http_client
from raw_http import answered, head, request, until
from secondpass import Reranker
from secondpass_server.http.server import Plan
from secondpass_server.http.settings import ServerSettings
from secondpass_server.mcp import http
from secondpass_server.mcp.tools import create_server

ACCEPT = "application/json, text/event-stream"
CALLS = 12
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


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
        return http_client().post(self.url, json=LIST, headers={"Accept": ACCEPT, **headers})


def posted(documents):
    """The bytes of a request."""
    arguments = {"query": "q", "documents": documents}
    call = {"method": "tools/call", "params": {"name": "rerank", "arguments": arguments}}
    return request({"jsonrpc": "2.0", "id": 7, **call}, "/mcp", f"Accept: {ACCEPT}")


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
            connection.sendall(posted(["a"])[:-5])
            assert connection.recv(12) == b"HTTP/1.1 408"
        assert served.under_way == 0
        assert served.list_tools().status_code == 200


@pytest.mark.parametrize(
    ("settings", "status"), [({"max_bytes": 1000}, 413), ({"max_total_bytes": 1000}, 200)]
)
def test_a_large_body(settings, status):
    """One alone may be larger than those under way together."""
    with Served(Reranker("lexical"), **settings) as served, served.connect() as connection:
        connection.sendall(posted(["a" * 2000]))
        assert connection.recv(12) == f"HTTP/1.1 {status}".encode()


@pytest.mark.parametrize(
    "target", ["/mcp/", "//mcp", "http://localhost:1/mcp", "HTTP://[::1]:1/mcp/"]
)
def test_targets_as_clients_write_them(target):
    with Served(Reranker("lexical")) as served, served.connect() as connection:
        connection.sendall(request(LIST, target, f"Accept: {ACCEPT}"))
        assert answered(connection).startswith(b"HTTP/1.1 200 ")


def test_the_host_of_a_url_counts(caplog):
    with Served(Reranker("lexical")) as served, served.connect() as connection:
        connection.sendall(request(LIST, "http://evil.example/mcp", f"Accept: {ACCEPT}"))
        assert answered(connection)[:12] in {b"HTTP/1.1 403", b"HTTP/1.1 421"}
    assert "evil" not in caplog.text


def test_an_unknown_path_names_that_of_the_tools():
    with Served(Reranker("lexical")) as served:
        response = http_client().post(served.url + "x", json=LIST)
    assert (response.status_code, response.json()) == (
        404,
        {"error": "there is no such path; the tools are at /mcp"},
    )


@pytest.mark.parametrize("method", ["HEAD", "GET", "POST", "DELETE"])
@pytest.mark.parametrize("path", ["/mcp", "/nope"])
def test_chunks_that_are_broken(method, path, caplog):
    """No traceback, and nothing of what a client without a key sends."""
    lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    with Served(Reranker("lexical")) as served:
        with served.connect() as connection:
            connection.sendall(head(path, *lines, method=method) + b"wombats\r\n")
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
        assert served.list_tools().status_code == 200
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"wombats" not in received
    assert not [record for record in caplog.records if record.exc_info]
    assert "wombats" not in caplog.text


def test_a_client_that_leaves(held):
    """Its place is free before its ranking has ended."""
    with Served(Reranker(held), max_requests=1) as served:
        with served.connect() as connection:
            connection.sendall(posted(["a", "bb"]))
            until(lambda: held.running)
            refused = served.list_tools()
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        until(lambda: served.under_way == 0)
        assert served.list_tools().status_code == 200
        held.go.set()


def test_a_client_that_leaves_within_the_body():
    with Served(Reranker("lexical"), max_requests=1) as served:
        with served.connect() as connection:
            connection.sendall(posted(["a"])[:-5])
            until(lambda: served.under_way == 1)
        until(lambda: served.under_way == 0)
        assert served.list_tools().status_code == 200


def test_calls_at_a_time():
    """Each gets its own answer, by the SDK's client."""

    async def best(url, number):
        documents = ["a", f"{number} words", "b"]
        arguments = {"query": f"words {number}", "documents": documents, "include_text": True}
        async with Client(url) as client:
            answer = (await client.call_tool("rerank", arguments)).structured_content
        return answer["results"][0]["text"]

    async def all_best(url):
        async with asyncio.timeout(90):
            return await asyncio.gather(*(best(url, number) for number in range(CALLS)))

    with Served(Reranker("lexical")) as served:
        assert asyncio.run(all_best(served.url)) == [f"{number} words" for number in range(CALLS)]
        until(lambda: served.under_way == 0)


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD"])
def test_there_are_no_streams(method):
    """A stream would hold its connection open, and never have an event."""
    with Served(Reranker("lexical")) as served:
        response = http_client().request(method, served.url, headers={"Accept": ACCEPT})
        assert (response.status_code, response.headers["allow"]) == (405, "POST")


def test_requests_of_one_connection():
    """The end of a response is not taken for the end of the connection."""
    with Served(Reranker("lexical")) as served, httpx.Client() as client:
        for _ in range(8):
            response = client.post(served.url, json=LIST, headers={"Accept": ACCEPT})
            names = [tool["name"] for tool in response.json()["result"]["tools"]]
            assert names == ["rerank", "explain", "pack"]
        until(lambda: served.under_way == 0)
