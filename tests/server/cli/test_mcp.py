"""``secondpass mcp``: both transports, called by the SDK's own client; options and errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
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


@contextlib.contextmanager
def over_stdio(*options):
    """The process of a server whose standard input stays open, and a function that calls it."""
    command = [sys.executable, "-m", "secondpass", *COMMAND, *options]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(command, text=True, **pipes)

    def call(tool, **arguments):
        params = {"name": tool, "arguments": arguments}
        for message in (
            {"id": 1, "method": "initialize", "params": INITIALIZE},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": params},
        ):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        return json.loads(process.stdout.readline())["result"]

    with process:
        try:
            yield process, call
        finally:
            process.kill()


CLIENT = {"name": "test", "version": "1"}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stdio_ends_at_a_signal_while_the_client_keeps_its_input_open(number):
    with over_stdio() as (process, call):
        found = call("rerank", query="apples", documents=DOCUMENTS)["structuredContent"]
        assert found["results"][0]["index"] == 1
        process.send_signal(number)
        assert process.wait(60) == 0
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_stdio_logs_what_clients_are_told_is_in_the_log():
    failing = ["--set", "render.fields=[body]"]
    with over_stdio(*failing) as (process, call):
        found = call("rerank", query="apples", documents=DOCUMENTS)["structuredContent"]
        codes = [reason.partition(":")[0] for reason in found["why_not"]]
        assert all("the log of the server has the message" in one for one in found["why_not"])
        process.stdin.close()
        assert process.wait(60) == 0
        (line,) = process.stderr.read().splitlines()
        assert re.match(r"\S+ \S+ WARNING reranking is ", line)
        assert codes
        assert all(code in line for code in codes)


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
