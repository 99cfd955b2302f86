"""Batches, and errors of one of them."""

from __future__ import annotations

import random
import time

import pytest

import fake_provider as fake
from fake_provider import http, refusing, status
from fault_checks import SLACK
from rankings import scores
from rerank_answers import documents, rows
from rerank_dialects import DIALECTS
from secondpass import Candidate

WHOLE = {"depth": None}
"""All candidates are judged, however many there are."""


@pytest.mark.parametrize(("api", "count", "calls"), [("tei", 320, 10), ("cohere", 1500, 2)])
def test_many_candidates(api, count, calls, make, rank, provider):
    numbers = random.Random(0).sample(range(count), count)
    candidates = [Candidate(str(number), id=f"c{number}") for number in numbers]
    shuffled = rows(
        lambda found: random.Random(0).sample(found, len(found)), lambda t: int(t) / count
    )
    provider.play(lambda request: [fake.Pause(1 / calls), *shuffled(request)])
    ranking = rank(make(api, whole=WHOLE), "q", candidates)
    assert [int(item.text) for item in ranking] == list(range(count - 1, -1, -1))
    assert all(item.candidate is candidates[item.position] for item in ranking)
    assert all(item.rerank_score == int(item.text) / count for item in ranking)
    assert len(provider.requests) == ranking.report.usage.calls == calls
    sizes = [len(documents(request)) for request in provider.requests]
    assert sum(sizes) == count
    assert max(sizes) <= DIALECTS[api].most
    assert max(sizes) - min(sizes) <= 1
    assert 1 < provider.most_at_once <= 8


GIVEN = [f"{number} wombats" for number in (3, 9, 5, 1, 7, 4)]


def of_the_second(request: fake.Request) -> bool:
    return any("1 wombats" in text for text in documents(request))


@pytest.mark.parametrize(
    ("step", "code", "calls"),
    [
        (status(500), "server_error", 3),
        (status(400), "bad_request", 3),  # and the first document alone
        (fake.page(), "bad_response", 2),
        (fake.silence(), "deadline", 2),
        (fake.raw(fake.End.RESET), "connection", 3),
    ],
)
def test_one_batch_fails(step, code, calls, make, rank, provider):
    for deadline in (0.5, 3, 15) if code == "deadline" else (60,):
        reranker = make(batch_size=3, limits={"deadline": deadline, "retries": 1})
        provider.play(fake.good())
        reranker.rerank("q", ["1"])  # opens the connection
        provider.play(refusing(of_the_second, step))
        began = time.perf_counter()
        ranking = rank(reranker, "q", GIVEN)
        assert time.perf_counter() - began <= deadline + SLACK
        if len(provider.requests) == calls and ranking.report.status == "partial":
            break
    assert ranking.order == (1, 2, 0, 3, 4, 5)
    assert scores(ranking) == {0: 0.3, 1: 0.9, 2: 0.5, 3: None, 4: None, 5: None}
    assert [item.status for item in ranking] == ["scored"] * 3 + ["unjudged"] * 3
    assert ranking.report.status == "partial"
    (issue,) = [one for one in ranking.report.issues if one.code != "asked_again"]
    assert (issue.code, issue.positions) == (code, (3, 4, 5))
    assert ranking.report.usage.calls == len(provider.requests) == calls


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (fake.raw(http(400, {"error": "flagged by our content filter"})), "content_filter"),
        (rows(lambda found: []), "reply_refused"),
        (rows(lambda found: None), "reply_refused"),
    ],
    ids=["filtered", "no rows", "null"],
)
@pytest.mark.parametrize("repair", [0, 1])
def test_one_document_is_refused(step, code, repair, make, rank, provider):
    provider.play(refusing(of_the_second, step))
    ranking = rank(make(batch_size=3, limits={"repair": repair}), "q", GIVEN)
    refused = (3,) if repair else (3, 4, 5)
    assert tuple(item.position for item in ranking if item.status == "unjudged") == refused
    issues = {issue.code: issue.positions for issue in ranking.report.issues}
    assert issues == {code: refused} | ({"asked_again": ()} if repair else {})
    usage = ranking.report.usage
    assert usage.calls == len(provider.requests) == 2 + usage.repairs
    assert 2 * repair <= usage.repairs <= 4 * repair
