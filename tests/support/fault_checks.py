"""Checks for every ranking, and for each case of ``fault_cases``."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import fake_provider as fake
from fake_provider import FakeProvider
from fault_cases import BEST_FIRST, GRADED, MARKER, Case
from secondpass import Ranking, Report

KEY = "sk-test-SECRET-123"
KEY_VARIABLE = "FAULT_TESTS_KEY"
DEADLINE = 60.0
"""Seconds of a ranking that is not about time: more than a busy machine needs."""
SLACK = 30.0
"""Seconds beyond a deadline: more than a busy machine needs, less than a silent server takes."""


def configuration(provider: FakeProvider, flavour: str, case: Case, strict: bool) -> dict[str, Any]:
    # A self-hosted server needs no key, but the SDK insists on one.
    key = {} if flavour == "compatible" else {"api_key_env": KEY_VARIABLE}
    llm = provider.llm(flavour, **key, **case.llm)
    return {
        "method": {**GRADED, **case.method, "llm": llm},
        "limits": {"deadline": DEADLINE, "retries": 1, "repair": 1, **case.limits},
        "strict": strict,
    }


def in_turns(
    cases: Iterable[tuple[str, Any]], ways: Callable[[Any], list[tuple[str, str]]]
) -> list[Any]:
    """Each case, with its group, in one of its ways in turn; in the others it is ``long``."""
    rows = []
    for number, (group, case) in enumerate(cases):
        possible = ways(case)
        quick = possible[number * 7 % len(possible)]  # neighbours differ in service and mode
        for way in possible:
            name = "-".join((group, case.name, *way))
            marks = () if way == quick else (pytest.mark.long,)
            rows.append(pytest.param(case, *way, id=name, marks=marks))
    return rows


def secrets_in(*texts: str) -> list[str]:
    return [
        secret for secret in (KEY, MARKER, "query", fake.LEAK) for text in texts if secret in text
    ]


def hygiene(ranking: Ranking, caplog: Any, *more: str) -> None:
    """No key, query or passage in anything that is printed, logged, stored or sent."""
    report = ranking.report
    logged = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    texts = [repr(ranking), str(ranking), repr(report), json.dumps(report.to_dict())]
    assert not secrets_in(*texts, *logged, repr(pickle.dumps(report)), *more)


def promises(ranking: Ranking, case: Case, count: int) -> None:
    """Check what must hold for every ranking, whatever the provider did."""
    report = ranking.report
    assert sorted(ranking.order) == list(range(len(case.candidates)))
    assert all(item.candidate is case.candidates[item.position] for item in ranking)
    for status in ("backfilled", "unjudged", "tail"):
        places = [item.position for item in ranking if item.status == status]
        assert places == sorted(places)
    scores = [item.rerank_score for item in ranking if item.status == "scored"]
    assert all(type(score) is float for score in scores)
    assert scores == sorted(scores, reverse=True)
    unscored = {item.position for item in ranking if item.status != "scored"}
    if report.status == "unchanged":
        assert ranking.order == tuple(range(len(case.candidates)))
        assert report.issues
    else:
        assert (report.status == "partial") == bool(unscored)
        reported = {index for issue in report.issues for index in issue.positions}
        assert unscored <= reported
    assert report.usage.calls == count
    assert report.seconds > 0


def codes_of(report: Report) -> set[str]:
    """The codes of all issues and of errors that a retry resolved."""
    again = [issue.message for issue in report.issues if issue.code == "asked_again"]
    return {issue.code for issue in report.issues} | {
        message.partition(":")[0] for message in again
    }


def has_happened(ranking: Ranking, case: Case, provider: Any) -> bool:
    """Whether the machine was fast enough for the requests of a case with short times."""
    fewest, most = requests_of(case)
    return (
        fewest <= len(provider.requests) - _halves(case, provider) <= most
        and ranking.report.usage.calls == provider.calls
        and ranking.report.status in case.status.split()
    )


def expected(ranking: Ranking, case: Case, provider: FakeProvider) -> None:
    """Check what must hold for this case."""
    report = ranking.report
    assert report.status in case.status.split()
    if case.codes == "*":
        assert report.issues
    elif case.codes and (report.status != "ok" or case.status == "ok"):
        assert codes_of(report) & set(case.codes.split())
    fewest, most = requests_of(case)
    halves = _halves(case, provider)
    assert halves <= 2 * math.ceil(math.log2(len(case.candidates)))
    assert fewest <= len(provider.requests) - halves <= most
    replies = case.tokens + halves if case.tokens else case.tokens
    usage = report.usage.input_tokens, report.usage.output_tokens
    if case.tokens is None:
        assert usage == (None, None)
    elif case.tokens >= 0:
        assert usage == (replies * fake.INPUT_TOKENS, replies * fake.OUTPUT_TOKENS)
    else:
        assert 0 not in usage
    if report.status == "ok":
        assert ranking.order == BEST_FIRST
    assert all(item.rerank_score is None for item in ranking if item.position in case.unscored)


def _halves(case: Case, provider: FakeProvider) -> int:
    """The number of requests about a part of the candidates, after the whole was refused."""
    if {**GRADED, **case.method}["type"] != "graded":
        return 0
    shown = [_shown(request) for request in provider.requests]
    return sum(0 < count < len(case.candidates) for count in shown)


def _shown(request: Any) -> int:
    """The number of candidates in a request to a server, or in the messages to a model."""
    return str(getattr(request, "body", request)).count("<doc id=")


def requests_of(case: Case) -> tuple[int, int]:
    """The fewest and the most requests."""
    return case.requests if isinstance(case.requests, tuple) else (case.requests,) * 2
