"""The fault table of rerank APIs, through the server: nothing is lost, and the client is told.

The server's reranker is an ``endpoint`` of the fake provider; the client speaks HTTP to the server.
"""

import json

import pytest

from fake_provider import FakeProvider
from loopback_server import LoopbackServer
from patience import patiently
from rerank_fault_cases import CANDIDATES, CASES, DEADLINE, KEY, KEY_VARIABLE, MARKER, SLACK
from secondpass import Reranker

TEXTS = [candidate.text for candidate in CANDIDATES]
SHAPES = {
    "/v1/rerank": ("documents", "results"),
    "/tei/rerank": ("texts", ""),
    "/voyage/v1/rerank": ("documents", "data"),
}


@pytest.fixture(scope="module")
def provider():
    with FakeProvider() as provider:
        yield provider


def runs():
    """Each case through one of the shapes, in turn; the other combinations are ``long``."""
    for number, case in enumerate(CASES):
        for place, path in enumerate(SHAPES):
            quick = number % 8 == 0 and number // 8 % len(SHAPES) == place
            marks = () if quick else (pytest.mark.long,)
            name = f"{case.group}-{case.name}-{path.strip('/').partition('/')[0]}"
            yield pytest.param(case, path, id=name, marks=marks)


def reranker_of(case, provider):
    config = {
        "method": {
            "type": "endpoint",
            "api": case.apis[0],
            "model": "m",
            "base_url": f"http://127.0.0.1:{provider.port}/{case.apis[0]}",
            "api_key_env": KEY_VARIABLE,
            **case.settings,
        },
        "limits": {"deadline": DEADLINE, "retries": 1, **case.limits},
    }
    return Reranker.from_config(config)


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize(("case", "path"), [*runs()])
def test_fault(case, path, provider, monkeypatch, caplog):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    field, rows = SHAPES[path]
    for attempt in patiently(case):
        reranker = reranker_of(attempt, provider)
        provider.play(*case.script)
        with LoopbackServer(reranker) as server:
            forgiving = {"secondpass_strict": "false"}
            response = server.post(path, {"query": "query", field: TEXTS}, **forgiving)
            strict = server.post(path, {"query": "query", field: TEXTS}, secondpass_strict="true")
        reranker.close()
        if response.headers["secondpass-status"] in case.status.split():
            break
    assert response.elapsed.total_seconds() <= reranker.limits.deadline + SLACK
    assert response.status_code == 200
    body = response.json()
    found = body[rows] if rows else body
    assert sorted(row["index"] for row in found) == list(range(len(TEXTS)))
    scores = [row.get("score", row.get("relevance_score")) for row in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    status = response.headers["secondpass-status"]
    assert status in case.status.split()
    if status != "ok":
        assert response.headers["secondpass-issues"]
    if case.order is not None:
        assert tuple(row["index"] for row in found) == case.order
    if status == "unchanged":
        assert response.headers["secondpass-scores"] == "rank"
    assert strict.status_code in {200, 503, 504}
    logged = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    everything = [response.text, strict.text, json.dumps(dict(response.headers)), *logged]
    assert not [text for text in everything if KEY in text or MARKER in text]
