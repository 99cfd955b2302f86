"""Servers that tests share, and what they rank by."""

from __future__ import annotations

import contextlib
import threading

import pytest

from fakes import ByTable
from loopback_server import LoopbackServer
from secondpass import Reranker


@pytest.fixture(scope="module")
def lengths():
    """A server that ranks the longest text first."""
    with LoopbackServer(Reranker(ByTable())) as server:
        yield server


@pytest.fixture
def serving():
    """Start servers that end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments, **settings: stack.enter_context(
            LoopbackServer(*arguments, **settings)
        )


class Held(ByTable):
    """Waits until it is let go; then the longest text is the best."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()
        self.running = 0

    def score_pairs(self, query, documents):
        self.running += 1
        self.go.wait(60)
        self.running -= 1
        return super().score_pairs(query, documents)


@pytest.fixture
def held():
    scorer = Held()
    yield scorer
    scorer.go.set()
