"""The command, run in this process: as its script runs it, with streams of its own."""

import io
import json
import sys
from dataclasses import dataclass
from functools import cache

import pytest

from command_requests import json_lines
from secondpass.cli import main
from secondpass.scorers import minilm

LOADED_ONCE = cache(minilm.MiniLM)


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch):
    """Each call of the command makes its own reranker; the embedded model stays loaded."""
    monkeypatch.setattr(minilm, "MiniLM", LOADED_ONCE)


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def flat(self):
        """What was said, without the frames and line ends that a terminal's width makes."""
        return " ".join(self.err.replace("│", " ").split())

    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


def called(*arguments, stdin=b""):
    streams = sys.argv, sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.argv = ["secondpass", *map(str, arguments)]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    own = [io.TextIOWrapper(stream, encoding="utf-8") for stream in (out, err)]
    sys.stdout, sys.stderr = own
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = 0 if stop.code is None else stop.code
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = streams
        for stream in own:
            stream.flush()
    return Outcome(code, out.getvalue().decode(), err.getvalue().decode())


@pytest.fixture
def secondpass(tmp_path_factory, monkeypatch):
    """The command; whatever it keeps goes to a folder of the test."""
    place = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(place / "cache"))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return called


@pytest.fixture
def write(tmp_path):
    """Write a file of JSON lines, or of text; its path."""

    def written(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = json_lines(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written
