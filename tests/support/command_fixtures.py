"""The command, run in this process, and what several commands evaluate."""

import json
import sys

import pytest

from command_calls import called
from command_requests import json_lines
from fake_provider import FakeProvider
from fruit_suite import DOCUMENTS, QRELS, QUERIES
from remembered_model import remember
from secondpass import Reranker


@pytest.fixture(autouse=True)
def one_model(monkeypatch):
    """Each call of the command makes its own reranker; the embedded model stays loaded."""
    remember(monkeypatch)


@pytest.fixture(autouse=True)
def no_plots(request, monkeypatch):
    """Reports have plots where a test asks for them."""
    if "plots" not in request.fixturenames:
        monkeypatch.setitem(sys.modules, "matplotlib", None)


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


@pytest.fixture
def suite(write, tmp_path):
    write("suite/corpus.jsonl", [{"_id": one, "text": text} for one, text in DOCUMENTS.items()])
    write("suite/queries.jsonl", [{"_id": one, "text": text} for one, text in QUERIES.items()])
    lines = [f"{q} 0 {d} {grade}\n" for q, judged in QRELS.items() for d, grade in judged.items()]
    write("suite/qrels.tsv", "".join(lines))
    return tmp_path / "suite"


@pytest.fixture
def given_suite(suite):
    """The same with a first stage's results of its own, which need no search."""
    lines = [
        {"query_id": query, "candidates": [{"id": one, "score": 1} for one in DOCUMENTS]}
        for query in QUERIES
    ]
    (suite / "candidates.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return suite


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


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C during the ranking of this number, counted from 1; all that were begun are counted."""

    def arm(number):
        begun = []
        rank = Reranker.rerank

        def stopping(*arguments, **options):
            begun.append(1)
            if len(begun) == number:
                raise KeyboardInterrupt
            return rank(*arguments, **options)

        monkeypatch.setattr(Reranker, "rerank", stopping)
        return begun

    return arm
