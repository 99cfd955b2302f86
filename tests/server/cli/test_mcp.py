"""``secondpass mcp``: both transports, called by the SDK's own client; options and errors."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from command_calls import called
from secondpass import MissingExtraError
from secondpass_server.mcp import http, tools

DOCUMENTS = ["Trains run on rails.", "Red apples grow on trees."]
COMMAND = ["mcp", "--preset", "lexical"]


def bounded(awaitable):
    return asyncio.run(asyncio.wait_for(awaitable, 60))


async def best(target) -> int:
    async with Client(target) as client:
        result = await client.call_tool("rerank", {"query": "apples", "documents": DOCUMENTS})
        return result.structured_content["results"][0]["index"]


def test_stdio():
    command = ["-m", "secondpass", *COMMAND]
    parameters = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    assert bounded(best(stdio_client(parameters))) == 1


def test_http(running):
    with running(*COMMAND, "--transport", "http", "--port", "0") as (process, url):
        assert url.endswith("/mcp")
        assert bounded(best(url)) == 1
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 0


def test_keys(monkeypatch):
    plans = []

    def run(_application, plan, listening):
        listening.close()
        plans.append(plan)

    monkeypatch.setenv("MCP_KEYS", "correct-horse-battery")
    monkeypatch.setattr(http, "run", run)
    options = ["--transport", "http", "--port", "0", "--api-key-env", "MCP_KEYS"]
    assert called(*COMMAND, *options).code == 0
    assert [plan.settings.demands_key for plan in plans] == [True]


def test_an_address_of_the_network_needs_a_key(monkeypatch):
    monkeypatch.setattr(http, "run", lambda *_: pytest.fail("it serves"))
    result = called(*COMMAND, "--transport", "http", "--host", "0.0.0.0")
    assert result.code != 0
    assert "clients must send a key: set --api-key-env or --api-key-file" in result.flat


@pytest.fixture
def limits(monkeypatch):
    """The limits of the servers that the command creates, none of which runs."""
    created = []

    class Created:
        def __init__(self, rerankers, limits):
            created.append((list(rerankers), limits))

        def run(self, transport):
            created.append(transport)

    monkeypatch.setattr(tools, "create_server", Created)
    return created


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], tools.ToolLimits(1000, 200_000, deadline=None)),
        (
            ["--max-candidates", 3, "--max-characters", 50, "--deadline", 0.5, "--issue-messages"],
            tools.ToolLimits(3, 50, deadline=0.5, issue_messages=True),
        ),
    ],
    ids=["none", "all"],
)
def test_limits_of_calls(limits, options, expected):
    assert called("mcp", "-p", "lexical", "-p", "lexical=words", *options).code == 0
    assert limits == [(["lexical", "words"], expected), "stdio"]


def test_a_missing_package(monkeypatch):
    monkeypatch.delitem(sys.modules, tools.__name__)
    monkeypatch.setitem(sys.modules, "mcp", None)
    told = called("mcp", "-p", "lexical")
    assert (told.code, MissingExtraError("mcp", "it").command in told.flat) == (1, True), told.err
