"""Every error of a provider, against every kind of client: promise 2, case by case.

Each case of the table runs synchronously, asynchronously and under ``strict``; what must hold of
all of them is in `promises` and `hygiene`. Clients are shared by the cases, so that an error which
breaks one for later rankings is seen, but for the cases that are meant to change a client (a
refused key, a parameter that is not sent again).
"""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import resource
import time
import traceback

import pytest

from fake_provider import FakeProvider
from fault_cases import GROUPS, Case
from fault_checks import (
    KEY,
    KEY_VARIABLE,
    SLACK,
    configuration,
    expected,
    has_happened,
    hygiene,
    in_turns,
    promises,
    secrets_in,
)
from patience import patiently
from secondpass import Ranking, Reranker, RerankError

FIRST = Case("a first ranking", ())


RUNS = in_turns(
    [(group, case) for group, cases in GROUPS.items() for case in cases],
    lambda case: [(flavour, mode) for flavour in case.flavours for mode in case.modes],
)


@pytest.fixture(scope="module")
def provider():
    with FakeProvider(schemaless=["compatible"]) as server:
        yield server


@pytest.fixture(scope="module")
def clients(provider, closing):
    """Rerankers by their configuration and mode; fresh ones for cases that change them."""
    created = {}

    def client(config, mode, fresh):
        known = json.dumps([config, mode])
        if not fresh and known in created:
            return created[known]
        reranker = closing(Reranker.from_config(config))
        if not fresh:
            created[known] = reranker
            provider.play()
            rank(reranker, FIRST, mode)  # opens the client, and learns what the server cannot do
        return reranker

    return client


def rank(reranker: Reranker, case: Case, mode: str) -> tuple[Ranking, RerankError | None]:
    """The ranking in one of the modes, and the error that carried it under ``strict``."""
    candidates = list(case.candidates)
    if mode == "async":
        return asyncio.run(reranker.arerank("query", candidates)), None
    try:
        return reranker.rerank("query", candidates), None
    except RerankError as error:
        assert mode == "strict"
        return error.ranking, error


def error_hygiene(error: RerankError) -> None:
    """No query in an error either; its passages are in its ranking alone."""
    assert not secrets_in(str(error), repr(error), repr(error.args), repr(vars(error)))
    # The frames of a traceback hold source lines, and no values; causes would be printed too.
    assert not secrets_in(
        *[
            line
            for line in traceback.format_exception(error)
            if 'reranker.rerank("query"' not in line
        ]
    )
    assert error.__cause__ is None
    assert error.__context__ is None
    # It carries the candidates, so the passages are in there; the key is not.
    assert KEY.encode() not in pickle.dumps(error)
    assert pickle.loads(pickle.dumps(error)).ranking.order == error.ranking.order


@pytest.mark.parametrize(("case", "flavour", "mode"), RUNS)
# What Google's SDK has to say about words that it does not know, to those who want to hear it.
@pytest.mark.filterwarnings("ignore:.*is not a valid:UserWarning")
@pytest.mark.usefixtures("quick_retries")
def test_fault(case, flavour, mode, provider, clients, caplog, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "secondpass")
    for attempt in patiently(case):
        config = configuration(provider, flavour, attempt, mode == "strict")
        reranker = clients(config, mode, fresh=case.fresh)
        provider.play(*case.script)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        ranking, error = rank(reranker, case, mode)
        took = time.perf_counter() - began
        if has_happened(ranking, case, provider):
            break
    assert took <= config["limits"]["deadline"] + SLACK
    promises(ranking, case, provider.calls)
    expected(ranking, case, provider)
    hygiene(ranking, caplog)
    if error is not None:
        error_hygiene(error)
    assert (error is not None) == (mode == "strict" and ranking.report.status != "ok")
    # A server without schemas says so once, and redirects are not followed.
    assert provider.schemas_refused <= 1
    assert {request.flavour for request in provider.requests} <= {flavour}
    # No response unpacks into memory without bound; the bomb has 256 MB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 120 * 2**10
