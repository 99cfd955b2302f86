"""Every error of transport, status and payload, against the clients of rerank APIs.

One table, run through one of the 23 APIs in turn, synchronously or asynchronously; the rest of
the product is ``long``. What must hold of all cases is in `promises`; what each API sends and reads
is in ``tests/strategies``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import time
import tracemalloc
from typing import Any

import pytest

import fake_provider as fake
from fake_provider import RERANK_FAULTS
from patience import is_timed, patiently
from rerank_fault_cases import (
    CANDIDATES,
    CASES,
    DEADLINE,
    KEY,
    KEY_VARIABLE,
    MARKER,
    READ,
    SLACK,
    Case,
    promises,
)
from secondpass import Ranking, Reranker

AWS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": KEY,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture(scope="module")
def scorers(provider, closing):
    """Rerankers by their settings; fresh ones for cases that change them."""
    rerankers: dict[str, Reranker] = {}

    def scorer(api: str, case: Case) -> Reranker:
        config = case.config(api, f"http://127.0.0.1:{provider.port}/{api}")
        known = json.dumps(config)
        if known not in rerankers or case.fresh:
            reranker = closing(Reranker.from_config(config))
            provider.play()
            first = reranker.rerank("query", ["1", "2"], deadline=DEADLINE)  # opens the client
            assert first.report.status == "ok" or is_timed(case)
            if case.fresh:
                return reranker
            rerankers[known] = reranker
        return rerankers[known]

    return scorer


def hygiene(ranking: Any, reranker: Reranker, caplog: Any) -> None:
    """No key and no passage in anything that is printed, logged or stored."""
    report = ranking.report
    logged = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    texts = [repr(ranking), str(ranking), repr(report), json.dumps(report.to_dict())]
    texts += [repr(pickle.dumps(report)), repr(reranker), repr(reranker.method), *logged]
    leaks = [secret for secret in (KEY, MARKER, fake.LEAK) for one in texts if secret in one]
    assert not leaks


def ranked(reranker: Reranker, mode: str, *, measured: bool) -> tuple[Ranking, float, int]:
    """A ranking, its seconds, and the most memory that it took, in bytes."""
    if measured:
        tracemalloc.start()
    began = time.perf_counter()
    try:
        if mode == "sync":
            ranking = reranker.rerank("query", CANDIDATES)
        else:
            ranking = asyncio.run(reranker.arerank("query", CANDIDATES))
        return ranking, time.perf_counter() - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def runs() -> list[Any]:
    """Each case with one API in one mode, in turn; the other combinations are ``long``."""
    rows = []
    for number, case in enumerate(CASES):
        ways = [(api, mode) for api in case.apis for mode in ("sync", "async")]
        quick = ways[number * 7 % len(ways)]  # neighbours differ in API and mode
        for api, mode in ways:
            name = f"{case.group}-{case.name}-{api}-{mode}"
            marks = () if (api, mode) == quick else (pytest.mark.long,)
            rows.append(pytest.param(case, api, mode, id=name, marks=marks))
    return rows


@pytest.mark.parametrize(("case", "api", "mode"), runs())
def test_fault(case, api, mode, provider, scorers, caplog, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "secondpass")
    for attempt in patiently(case):
        reranker = scorers(api, attempt)
        provider.play(*case.script)
        ranking, took, peak = ranked(reranker, mode, measured=case.memory is not None)
        if case.happened(ranking, len(provider.requests)):
            break
    assert took <= reranker.limits.deadline + SLACK
    assert case.memory is None or peak < case.memory * 2**20
    promises(ranking, case, len(provider.requests))
    hygiene(ranking, reranker, caplog)

    report = ranking.report
    assert report.status in case.status.split()
    # Errors that a retry overcame are issues too.
    again = [issue.message for issue in report.issues if issue.code == "asked_again"]
    codes = {issue.code for issue in report.issues} | {
        message.partition(":")[0] for message in again
    }
    if case.codes != "*":
        assert codes & set(case.codes.split()) or not (case.codes or codes)
    fewest, most = case.requests if isinstance(case.requests, tuple) else (case.requests,) * 2
    assert fewest <= len(provider.requests) <= most
    for item in ranking:
        assert (item.rerank_score is None) == (
            report.status == "unchanged" or item.position in case.unscored
        )
    if case.order is not None:
        assert ranking.order == case.order
    # Every request shows the key to the server that was meant, and to no other.
    assert {request.flavour for request in provider.requests} == {api}
    if api == "bedrock":
        signed = {request.key.partition("/")[0] for request in provider.requests}
        assert signed == {f"AWS4-HMAC-SHA256 Credential={AWS['AWS_ACCESS_KEY_ID']}"}
    else:
        assert {request.key for request in provider.requests} == {KEY}


def test_every_case_has_a_promise():
    assert set(READ) == set(RERANK_FAULTS)
