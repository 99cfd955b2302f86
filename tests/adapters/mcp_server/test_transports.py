"""The command over both transports, called by the SDK's own client."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys

import httpx
import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from command_calls import called
from secondpass.adapters.mcp_server import http

DOCUMENTS = ["Trains run on rails.", "Red apples grow on trees."]
COMMAND = ["-m", "secondpass", "mcp", "--preset", "lexical"]
KEY = "correct-horse-battery"


def bounded(awaitable):
    return asyncio.run(asyncio.wait_for(awaitable, 60))


async def best(target) -> int:
    async with Client(target) as client:
        result = await client.call_tool("rerank", {"query": "apples", "documents": DOCUMENTS})
        return result.structured_content["results"][0]["index"]


def test_stdio():
    parameters = StdioServerParameters(command=sys.executable, args=COMMAND, env=dict(os.environ))
    assert bounded(best(stdio_client(parameters))) == 1


@pytest.fixture(scope="module")
def served():
    """A server over HTTP without keys; its URL."""
    yield from serving()


@pytest.fixture(scope="module")
def guarded():
    """A server over HTTP that demands a key; its URL."""
    yield from serving("--api-key-env", "MCP_KEYS", MCP_KEYS=KEY)


def serving(*options: str, **variables: str):
    process = subprocess.Popen(
        [sys.executable, *COMMAND, "--transport", "http", "--port", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    try:
        line = process.stderr.readline()
        yield re.search(r"http://\S+/mcp", line)[0]
    finally:
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=30)[1]
    assert not rest, rest
    assert process.returncode == 0


def test_http(served):
    assert bounded(best(served)) == 1


def post(url, **headers):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    return httpx.post(url, json=call, headers={**accept, **headers}, timeout=30).status_code


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {KEY}"}, 200),
        ({"X-Api-Key": KEY, "Host": "search.example"}, 200),
    ],
)
def test_keys(guarded, headers, status):
    assert post(guarded, **headers) == status


def test_other_host_names_are_refused_without_keys(served):
    assert post(served, Host="search.example") in {403, 421}
    assert post(served) == 200


def test_an_address_of_the_network_needs_a_key(monkeypatch):
    monkeypatch.setattr(http, "run", lambda *_: pytest.fail("it serves"))
    result = called(*COMMAND[2:], "--transport", "http", "--host", "0.0.0.0")
    assert result.code != 0
    assert "clients must send a key: set --api-key-env or --api-key-file" in result.flat
