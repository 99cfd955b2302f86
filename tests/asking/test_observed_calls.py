"""The operations of requests and scorer calls."""

from types import SimpleNamespace

import pytest

import secondpass
from fakes import InOrder
from secondpass.asking.scheduler import CallScorer
from secondpass.errors import LLMError, MethodError
from secondpass.llms.openai import OpenAIChat
from secondpass.questions import Completion, Prompt, Turn
from secondpass.ranking.ledger import Ledger
from secondpass.ranking.observers import RankingOperation, request, scoring

PROMPT = Prompt("", (Turn("user", "which owl?"),))
BUSY = LLMError("busy", "server_error", retryable=True)


@pytest.fixture
def ended():
    """The operations that have ended."""
    operations = []
    with secondpass.observe(SimpleNamespace(start=lambda _: None, end=operations.append)):
        yield operations


@pytest.fixture
def ledger():
    return Ledger(operations=[RankingOperation(name="m", candidates=2, top_k=None, query=0)])


def test_a_request(ledger, ended):
    service = OpenAIChat("gpt", base_url="http://host:81/v1")
    with request(ledger.operations, service, PROMPT, 3, [BUSY]) as running:
        running.answered(Completion("yes", True, 7, 2, units=0.5))
    (operation,) = ended
    assert (operation.name, operation.kind, operation.provider) == ("gpt", "chat", "openai")
    assert (operation.address, operation.port) == ("host", 81)
    assert (operation.documents, operation.attempt, operation.after) == (3, 2, "server_error")
    assert (operation.input_tokens, operation.output_tokens, operation.units) == (7, 2, 0.5)
    assert operation.cut is True
    assert operation.parents == tuple(ledger.operations)
    assert "owl" not in repr(operation)


@pytest.mark.parametrize(
    ("members", "provider", "server"),
    [
        ({}, "SimpleNamespace", (None, None)),
        ({"provider": "cohere", "api": "x"}, "cohere", (None, None)),
        ({"api": "tei", "base_url": "https://h"}, "tei", ("h", 443)),
        ({"api": {"title": "t"}, "url": "http://h/x"}, "SimpleNamespace", ("h", 80)),
        ({"base_url": "http://[::1"}, "SimpleNamespace", (None, None)),
        ({"base_url": "h:99999"}, "SimpleNamespace", (None, None)),
        ({"base_url": 5}, "SimpleNamespace", (None, None)),
    ],
    ids=str,
)
def test_provider_and_server(members, provider, server, ledger, ended):
    with request(ledger.operations, SimpleNamespace(**members), ["pairs"], 1, []):
        pass
    (operation,) = ended
    assert (operation.kind, operation.name) == ("rerank", "SimpleNamespace")
    assert (operation.provider, (operation.address, operation.port)) == (provider, server)


def test_a_scorer_call(ledger, ended):
    requests = [("q", ["a", "b"]), ("p", ["c"])]
    call = CallScorer(InOrder([]), requests, [ledger, Ledger()])
    with scoring(call.scorer, requests, call.operations) as running:
        running.ended(MethodError("down", "scorer_raised"))
    (operation,) = ended
    assert (operation.name, operation.queries, operation.pairs) == ("in-order", 2, 3)
    assert operation.parents == tuple(ledger.operations)
    assert operation.error == "scorer_raised"
