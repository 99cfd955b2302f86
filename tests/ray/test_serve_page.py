"""The application of ``secondpass serve`` on Ray Serve, by the lines in docs/serve.md."""

import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from own_processes import OwnProcesses
from secondpass import Reranker

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serve.md"
KEY = "key-of-a-client-1"
SECONDS = 240
BODY = {"query": "cat food", "documents": ["owls", "food for a cat", "the moon"]}


def test_the_lines_of_the_page(tmp_path):
    section = PAGE.read_text(encoding="utf-8").partition("## On Ray Serve")[2]
    (code,) = re.findall(r"```text\n(from ray import serve\n.*?)```", section, re.DOTALL)
    assert len(code.splitlines()) <= 20
    wait = "import sys\nsys.stdin.read()\n"  # the cluster ends with the program that started it
    (tmp_path / "application.py").write_text(code + wait)
    own = OwnProcesses()
    environment = {**own.environment, "RERANK_KEYS": KEY, "RAY_USAGE_STATS_ENABLED": "0"}
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen(
            [sys.executable, tmp_path / "application.py"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=tmp_path,
        )
    try:
        response = answered(program, tmp_path / "log")
        assert response.status_code == 200, response.text
        order = [row["index"] for row in response.json()["results"]]
        ranking = Reranker.from_preset("embedded").rerank(BODY["query"], BODY["documents"])
        assert order == [*ranking.order]
        assert ask("wrong").status_code == 401
    finally:
        program.stdin.close()
        program.kill()
        own.kill()
        program.wait(30)
    assert KEY.encode() not in (tmp_path / "log").read_bytes()


def ask(key):
    headers = {"authorization": f"Bearer {key}"}
    url = "http://127.0.0.1:8000/v1/rerank"
    return httpx.post(url, json=BODY, headers=headers, timeout=60, trust_env=False)


def answered(program, log):
    """The first answer of the application, when its replicas run."""
    until = time.monotonic() + SECONDS
    while True:
        assert program.poll() is None, log.read_text(errors="replace")
        try:
            response = ask(KEY)
            if response.status_code != 404:  # Ray Serve's, before the application is deployed
                return response
        except httpx.TransportError:
            pass
        assert time.monotonic() < until, log.read_text(errors="replace")
        time.sleep(0.5)
