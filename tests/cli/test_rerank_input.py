"""The input of ``secondpass rerank``: options that go together, and contexts."""

import hashlib
import io
import sys
from pathlib import Path

import pytest
import typer

from secondpass import ConfigurationError
from secondpass.cli.rerank_input import RerankInput, read_context

FILE = Path("in.jsonl")
ABSENT = {"file": None, "query": None, "run": None, "queries": None, "corpus": None}


@pytest.fixture(autouse=True)
def _pipe(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())


@pytest.mark.parametrize(
    ("options", "resume", "force", "message"),
    [
        ({"query": " "}, False, False, "--query: is empty"),
        ({"query": "a", "run": FILE}, False, False, "--query, --run: give one of them"),
        ({"lines": True}, False, False, "--lines: needs --query"),
        ({"file": FILE, "run": FILE}, False, False, "FILE, --run: give one of them"),
        ({"run": FILE, "queries": FILE}, False, False, "--run: needs --queries and --corpus"),
        ({"corpus": FILE}, False, False, "--queries, --corpus: need --run"),
        ({}, True, False, "--resume: needs --output"),
        ({}, True, True, "--resume"),
    ],
    ids=["empty", "query and run", "lines", "file and run", "parts", "no run", "resume", "force"],
)
def test_options_that_do_not_go_together(capsys, options, resume, force, message):
    with pytest.raises(typer.Exit) as caught:
        RerankInput(**ABSENT | options).check(None, resume=resume, force=force)
    assert caught.value.exit_code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["out", "out.state", "out.answers.sqlite"])
def test_an_output_and_its_files_are_no_input(tmp_path, capsys, name):
    (tmp_path / name).write_text("x")
    (tmp_path / "other").write_text("x")
    given = RerankInput(**ABSENT | {"file": tmp_path / name})
    with pytest.raises(typer.Exit):
        given.check_not_overwritten(tmp_path / "out")
    assert "is an input file; name another output" in capsys.readouterr().err
    given.check_not_overwritten(tmp_path / "other")
    with pytest.raises(typer.Exit):
        given.check_not_overwritten(tmp_path / "other", tmp_path / "other")


@pytest.mark.parametrize(
    ("content", "value"),
    [('{"a": [1]}', {"a": [1]}), ("a: [1]", {"a": [1]}), ("text", "text"), ("", None)],
    ids=["JSON", "YAML", "string", "empty"],
)
def test_a_context_is_json_or_yaml(tmp_path, content, value):
    path = tmp_path / "context"
    path.write_text(content)
    assert read_context(path) == (value, hashlib.sha256(content.encode()).hexdigest())


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a: [", "not JSON; as YAML: "), (b"\xff", "not JSON or YAML")],
    ids=["broken", "not UTF-8"],
)
def test_a_context_that_cannot_be_read(tmp_path, content, message):
    path = tmp_path / "context"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        read_context(path)
