"""The fixtures of tests of the command, a suite, and an interruption."""

import sys

import pytest

from command_fixtures import *  # noqa: F403
from fruit_suite import DOCUMENTS, QRELS, QUERIES
from secondpass import Reranker


@pytest.fixture(autouse=True)
def no_plots(monkeypatch):
    """Plots take most of a report's time."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def suite(write, tmp_path):
    for name, texts in (("corpus", DOCUMENTS), ("queries", QUERIES)):
        write(f"suite/{name}.jsonl", [{"_id": key, "text": text} for key, text in texts.items()])
    lines = [f"{q} 0 {d} {grade}\n" for q, judged in QRELS.items() for d, grade in judged.items()]
    write("suite/qrels.tsv", "".join(lines))
    return tmp_path / "suite"


@pytest.fixture
def given_suite(write, suite):
    """The same with a first stage's results of its own, which need no search."""
    candidates = [{"id": document, "score": 1} for document in DOCUMENTS]
    lines = [{"query_id": query, "candidates": candidates} for query in QUERIES]
    write("suite/candidates.jsonl", lines)
    return suite


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
