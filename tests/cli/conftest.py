"""The command, run in this process."""

import pytest

from command_calls import called
from command_requests import json_lines
from remembered_model import remember
from without_plots import without_plots


@pytest.fixture(autouse=True)
def _remembered_model(monkeypatch):
    """Each call of the command makes its own reranker; the embedded model stays loaded."""
    remember(monkeypatch)


@pytest.fixture(autouse=True)
def _no_plots(request, monkeypatch):
    """Reports have plots where a test asks for them."""
    if "plots" not in request.fixturenames:
        without_plots(monkeypatch)


@pytest.fixture
def plots():
    """matplotlib, if it is installed."""


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
