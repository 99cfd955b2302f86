"""System One servers with each fault of jevcompat's mock server.

Its scores are a hash of the state, the instructions and the option, so the right order of a request
is that of the same request without a fault.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any

import pytest

from rankings import codes, scores
from rotation import rotated
from secondpass import Reranker

mock = pytest.importorskip("jevcompat.mock")

DOCUMENTS = [f"passage {number} about cats" for number in range(5)]

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
PARTIAL = "first-question-only"
"""Answers that are missing where a request has several questions."""
HIDDEN = {"id-leaks", "batch-leaks", "order-leaks"}
"""What no client sees in a response: other scores, and possibly another order."""
HARMLESS = {*mock.FAULTS} - ERRORS.keys() - UNUSABLE.keys() - {PARTIAL} - HIDDEN


@pytest.fixture(scope="module")
def server():
    with mock.Running() as running:
        yield running


@pytest.fixture
def rerank(server, rank):
    """Ranks the documents by a server with a fault."""

    def ranked(fault: str, layout: str, question: str, server_key: Any = None, **settings: Any):
        faults = frozenset({fault} - {""})
        server.server.RequestHandlerClass.cfg = mock.MockConfig(key=server_key, faults=faults)
        method = {
            "type": "decisions",
            "api": "systemone",
            "model": "jev-latest",
            "base_url": server.url,
            "layout": layout,
            "question": question,
            # Its requests are valid, but for a field that the server does not find.
            **({"rename": {"state": "input"}} if fault == "validation-400" else {}),
            **settings,
        }
        with closing(Reranker(method, limits={"retries": 2})) as reranker:
            ranking = rank(reranker, "cats", DOCUMENTS)
        assert sorted(item.position for item in ranking) == list(range(len(DOCUMENTS)))
        return ranking

    return ranked


def in_turn(faults: Iterable[str]) -> pytest.MarkDecorator:
    """Each fault with both questions; layouts and modes take turns, the others are ``long``."""
    rows = rotated(faults, ("each", "together"), ("sync", "async"))
    return pytest.mark.parametrize(("fault", "layout", "rank"), rows, indirect=["rank"])


@in_turn(sorted(HARMLESS | HIDDEN | UNUSABLE.keys() | {PARTIAL}))
@pytest.mark.parametrize("question", ["graded", "yes_no"])
def test_faults_of_answers(fault, layout, question, rerank):
    if fault == PARTIAL:
        layout = "together"
    right = rerank("", layout, question)
    expected, order = scores(right), right.order
    assert (right.report.status, right.report.issues) == ("ok", ())
    assert order != tuple(range(len(DOCUMENTS)))
    ranking = rerank(fault, layout, question)
    if fault in HIDDEN:
        assert ranking.report.status == "ok"
        assert None not in scores(ranking).values()
    elif UNUSABLE.get(fault, ("", ""))[0] == question:
        assert codes(ranking) == {UNUSABLE[fault][1]}
        assert ranking.report.status == "unchanged"
        assert ranking.order == tuple(range(len(DOCUMENTS)))
    elif fault == PARTIAL:
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


@in_turn(ERRORS)
@pytest.mark.parametrize("question", ["graded", "yes_no"])
def test_faults_of_requests(fault, layout, question, rerank):
    code, server_key, key, model = ERRORS[fault]
    ranking = rerank(fault, layout, question, server_key, api_key=key, model=model)
    assert ranking.report.status == "unchanged"
    assert ranking.order == tuple(range(len(DOCUMENTS)))
    errors = [issue for issue in ranking.report.issues if issue.code != "asked_again"]
    assert [issue.code for issue in errors] == [code]
    assert all(text not in errors[0].message for text in DOCUMENTS)


def test_every_fault_is_tried():
    assert {"nan", "score-argmax", "confidence-margin", "legend-1-based", "strict-ids"} <= HARMLESS
    assert ERRORS.keys() | UNUSABLE.keys() | {PARTIAL} | HIDDEN <= {*mock.FAULTS, ""}


@pytest.mark.parametrize("layout", ["each", "together"])
def test_a_busy_server_is_asked_again(layout, server):
    method = {"type": "decisions", "api": "systemone", "model": "mock", "base_url": server.url}
    server.server.RequestHandlerClass.cfg = mock.MockConfig()
    with closing(Reranker({**method, "layout": layout}, limits={"retries": 5})) as reranker:
        expected = scores(reranker.rerank("cats", DOCUMENTS))
        server.server.RequestHandlerClass.cfg = mock.MockConfig(busy_every=2)
        for _ in range(2):
            ranking = reranker.rerank("cats", DOCUMENTS)
            assert scores(ranking) == expected
    assert ranking.report.usage.retries
