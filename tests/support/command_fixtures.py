"""The command, run in this process, files for it, and a provider that it asks."""

import pytest

from command_calls import called
from command_requests import json_lines
from fake_provider import FakeProvider
from remembered_model import remember
from secondpass.cli import progress


@pytest.fixture(autouse=True)
def one_model(monkeypatch):
    """Each call of the command makes its own reranker; the embedded model stays loaded."""
    remember(monkeypatch)


@pytest.fixture
def secondpass(tmp_path_factory, monkeypatch):
    """The command; whatever it caches goes to a folder of the test.

    A slow machine would see lines of progress, which tests of standard error do not expect.
    """
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 600)
    for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp("home")))
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


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with FakeProvider() as running:
        yield running


def graded_by(provider):
    """A configuration that asks a provider, five candidates at a time; an input token costs 1."""
    return (
        "method: {type: graded, batch_size: 5, llm: {type: openai, model: m, "
        f"prices: {{input: 1000000, output: 0}}, base_url: '{provider.base_url('openai')}'}}}}\n"
    )


@pytest.fixture
def graded(write, provider):
    """The configuration of a provider that answers: two questions a query."""
    return write("graded.yaml", graded_by(provider))


@pytest.fixture
def unasked():
    """A provider that must not be asked."""
    with FakeProvider() as running:
        yield running
        assert running.calls == 0


@pytest.fixture
def priced(write, unasked):
    """A configuration that would ask it."""
    return write("graded.yaml", graded_by(unasked) + "fallback: [lexical]\n")
