"""The validation script of the reference system `tactician`, with a provider and without a key."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tactics

import fake_provider as fake
from fake_provider import FakeProvider

SCRIPT = Path(tactics.__file__)
FOUND = ["tune-database", "shard-database", "choose-database", "create-tables", "back-up"]


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Nothing of the machine's that presets and clients look at."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("TACTICIAN_LLM_MODEL", "TACTICIAN_RERANK_LIMIT"):
        monkeypatch.delenv(name, raising=False)


def in_order(*names):
    """A step: these ids as the reply."""
    return lambda request: [fake.http(200, fake.envelope(request, json.dumps(names)))]


def ranked(text):
    """The tactics of the table in a review, in order."""
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row[1] for row in rows if row[0].removeprefix("| ").isdigit()]


def test_a_search_with_a_model(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-SECRET")
    output = tmp_path / "review.md"
    with FakeProvider(in_order("choose-database", "create-tables", "back-up")) as provider:
        url = provider.base_url("openai")
        arguments = ["--output", str(output), "--base-url", url, "--model", "m"]
        assert tactics.main(arguments) == 0
    [request] = provider.requests
    assert request.body["model"] == "m"
    assert request.labels == [*FOUND, "cache-pages"]  # more than the limit of the output
    assert "Completed: 3" in request.messages[1]
    assert "storage / Where orders and stock are kept / decision" in request.messages[1]
    text = output.read_text(encoding="utf-8")
    expected = ["choose-database", "create-tables", "back-up", "tune-database", "shard-database"]
    assert ranked(text) == expected
    assert text.startswith('# Search for "database"\n\nReranked by listwise by m.')
    assert "- not_in_reply: the reply leaves them out" in text
    assert "Completed: 3" in text
    assert "sk-test-SECRET" not in text
    assert expected[0] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("step", "code"), [(fake.status(404), "not_found"), (fake.status(401), "authentication")]
)
def test_a_search_with_a_fault(tmp_path, step, code):
    output = tmp_path / "review.md"
    with FakeProvider(step) as provider:
        tactics.main(["--output", str(output), "--base-url", provider.base_url("openai")])
    text = output.read_text(encoding="utf-8")
    assert ranked(text) == FOUND
    assert "The order of the heuristic is kept" in text
    assert f"- {code}: " in text


def test_without_a_key_the_review_says_so(tmp_path):
    output = tmp_path / "review.md"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--output", str(output)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    text = output.read_text(encoding="utf-8")
    assert ranked(text) == FOUND
    assert "- no_key: no API key: set the environment variable OPENAI_API_KEY" in text
    assert "OPENAI_API_KEY" in done.stderr  # the core's warning
    assert done.stdout.startswith("unchanged: tune-database, ")


def test_the_search_alone():
    assert [one["id"] for one in tactics.search("database", tactics.TACTICS)] == [
        *FOUND,
        "cache-pages",
    ]
    assert tactics.search("warehouse", tactics.TACTICS)[0]["id"] == "rent-warehouse"
    assert tactics.search("submarine", tactics.TACTICS) == []


def test_a_project_is_read_as_it_was_written(tmp_path):
    tactics.write_project(tmp_path)
    assert tactics.read_project(tmp_path) == ({"nodes": tactics.NODES}, tactics.TACTICS)
