"""Servers that tests share, and what they rank by."""

from __future__ import annotations

import contextlib

import pytest

from command_calls import called
from fakes import ByTable
from fault_fixtures import _quick_retries
from loopback_server import LoopbackServer
from secondpass import Reranker

__all__ = ["_quick_retries"]


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


@pytest.fixture
def secondpass():
    """The command."""
    return called
