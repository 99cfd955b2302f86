"""System One servers with each fault of jevcompat's mock server.

Its scores are a hash of the state, the instructions and the option, so the right order of a request
is that of the same request without a fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

from rankings import codes, scores
from secondpass import Reranker

mock = pytest.importorskip("jevcompat.mock")

DOCUMENTS = [f"passage {number} about cats" for number in range(5)]
LAYOUTS, QUESTIONS, MODES = ("each", "together"), ("graded", "yes_no"), ("sync", "async")

ERRORS = {
    # the fault; the code of the one error; the key of the server, ours, the model
    "wrong-route": ("not_found", None, None, "jev-latest"),
    "auth-rejects-header": ("authentication", None, "key", "jev-latest"),
    "auth-x-api-key": ("authentication", "key", "key", "jev-latest"),
    "auth-plain": ("authentication", "key", None, "jev-latest"),
    "auth-invalid-403-text": ("authentication", "key", "wrong", "jev-latest"),
    "reject-jev-latest": ("not_found", None, None, "jev-latest"),
    "error-flat": ("bad_request", None, None, "other"),
    "text-errors": ("bad_request", None, None, "other"),
    "xssi-200": ("bad_response", None, None, "jev-latest"),
    "validation-400": ("bad_request", None, None, "jev-latest"),
    # Not those of the mock: without a fault, a key or a model that it does not take.
    "": ("bad_request", None, None, "other"),
}
"""Requests that fail, with one clear error."""
UNUSABLE = {
    "score-keys-1-based": ("graded", "bad_response"),
    "score-sum": ("graded", "bad_response"),
    "boolean-type": ("yes_no", "bad_response"),
    "noul-range": ("yes_no", "score_out_of_range"),
}
"""Answers that cannot be used: no document of the question has a score."""
PARTIAL = {"first-question-only"}
"""Answers that are missing where a request has several questions."""
HIDDEN = {"id-leaks", "batch-leaks", "order-leaks"}
"""What no client sees in a response: other scores, and possibly another order."""
HARMLESS = {*mock.FAULTS} - ERRORS.keys() - UNUSABLE.keys() - PARTIAL - HIDDEN


@pytest.fixture(scope="module")
def server():
    with mock.Running() as running:
        yield running


@pytest.fixture
def rerank(server, request):
    """A ranking of the documents by a server with a fault."""

    def ranked(fault: str, layout: str, question: str, *, ask: Any = None, **settings: Any) -> Any:
        key, ours, model = settings.get("server_key"), settings.get("key"), settings.get("model")
        faults = frozenset({fault} if fault else ())
        handler = server.server.RequestHandlerClass
        handler.cfg = mock.MockConfig(key=key, faults=faults)
        method = {
            "type": "decisions",
            "api": "systemone",
            "model": model or "jev-latest",
            "base_url": server.url,
            "layout": layout,
            "question": question,
            **({} if ours is None else {"api_key": ours}),
            # Its requests are valid, but for a field that the server does not find.
            **({"rename": {"state": "input"}} if fault == "validation-400" else {}),
        }
        reranker = Reranker.from_config({"method": method, "limits": {"retries": 2}})
        if ask == "async":
            ranking = asyncio.run(reranker.arerank("cats", DOCUMENTS))
        else:
            ranking = reranker.rerank("cats", DOCUMENTS)
        reranker.close()
        assert sorted(item.position for item in ranking) == list(range(len(DOCUMENTS)))
        return ranking

    return ranked


@pytest.fixture(scope="module")
def right():
    """Scores by a server without a fault."""
    return {}


def right_scores(rerank, right, layout, question):
    if (layout, question) not in right:
        ranking = rerank("", layout, question)
        assert (ranking.report.status, ranking.report.issues) == ("ok", ())
        right[layout, question] = scores(ranking), ranking.order
        assert ranking.order != tuple(range(len(DOCUMENTS)))
    return right[layout, question]


def in_turns(faults: Iterable[str]) -> list[Any]:
    """Each fault with both questions; layouts and modes take turns, the others are ``long``."""
    rows = []
    for number, (fault, question) in enumerate(product(faults, QUESTIONS)):
        turn = (LAYOUTS[number // 2 % 2], MODES[number % 2])
        for way in product(LAYOUTS, MODES):
            usual = way == turn or (fault in PARTIAL and way[0] == "together")
            name = f"{fault}-{question}-{'-'.join(way)}"
            marks = () if usual else (pytest.mark.long,)
            rows.append(pytest.param(fault, question, *way, id=name, marks=marks))
    return rows


@pytest.mark.parametrize(
    ("fault", "question", "layout", "ask"),
    in_turns(sorted(HARMLESS | HIDDEN | UNUSABLE.keys() | PARTIAL)),
)
def test_faults_of_answers(fault, layout, question, ask, rerank, right):
    expected, order = right_scores(rerank, right, layout, question)
    ranking = rerank(fault, layout, question, ask=ask)
    if fault in HIDDEN:
        assert ranking.report.status == "ok"
        assert None not in scores(ranking).values()
    elif fault in UNUSABLE and UNUSABLE[fault][0] == question:
        assert codes(ranking) == {UNUSABLE[fault][1]}
        assert ranking.report.status == "unchanged"
        assert ranking.order == tuple(range(len(DOCUMENTS)))
    elif fault in PARTIAL and layout == "together":
        assert ranking.report.status == "partial"
        assert codes(ranking) == {"not_in_reply"}
        judged = {n: score for n, score in scores(ranking).items() if score is not None}
        assert judged == {0: expected[0]}
    else:
        assert (ranking.report.status, ranking.order) == ("ok", order)
        assert scores(ranking) == expected
        assert codes(ranking) == ({"unknown_label"} if fault == "extra-answer" else set())
        usage = ranking.report.usage
        assert (usage.input_tokens is None) == (fault in {"no-usage", "float-usage"})


@pytest.mark.parametrize(("fault", "question", "layout", "ask"), in_turns(ERRORS))
def test_faults_of_requests(fault, layout, question, ask, rerank):
    code, server_key, key, model = ERRORS[fault]
    ranking = rerank(fault, layout, question, ask=ask, server_key=server_key, key=key, model=model)
    assert ranking.report.status == "unchanged"
    assert ranking.order == tuple(range(len(DOCUMENTS)))
    errors = [issue for issue in ranking.report.issues if issue.code != "asked_again"]
    assert [issue.code for issue in errors] == [code]
    assert all(text not in errors[0].message for text in DOCUMENTS)


def test_every_fault_is_tried():
    assert {"nan", "score-argmax", "confidence-margin", "legend-1-based", "strict-ids"} <= HARMLESS
    assert ERRORS.keys() | UNUSABLE.keys() | PARTIAL | HIDDEN <= {*mock.FAULTS, ""}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_busy_server_is_asked_again(layout, server, right, rerank, monkeypatch):
    expected, _ = right_scores(rerank, right, layout, "graded")
    server.server.RequestHandlerClass.cfg = mock.MockConfig(busy_every=2)
    method = {
        "type": "decisions",
        "api": "systemone",
        "model": "mock",
        "base_url": server.url,
        "layout": layout,
    }
    reranker = Reranker.from_config({"method": method, "limits": {"retries": 5}})
    for _ in range(2):
        ranking = reranker.rerank("cats", DOCUMENTS)
        assert scores(ranking) == expected
    assert ranking.report.usage.retries
    reranker.close()
