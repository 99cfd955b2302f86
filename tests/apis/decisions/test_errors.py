"""Errors and limits; what comes of the base of all APIs is tested in `tests/apis/endpoint`."""

from __future__ import annotations

import pytest

import fake_provider as fake
from decision_answers import NUMBERS, answer, shown
from fake_provider import http, status
from rankings import codes


@pytest.mark.parametrize("layout", ["each", "together"])
@pytest.mark.parametrize("code", [400, 422])
def test_a_refused_request(code, layout, make, rank, provider):
    """Of a batch, the first half is asked, down to a document; a document is asked once."""
    provider.play(status(code))
    ranking = rank(make(layout=layout, limits={"retries": 2}), "q", NUMBERS)
    assert ranking.report.status == "unchanged"
    assert codes(ranking) - {"asked_again"} == {"bad_request"}
    assert len(provider.requests) == (3 if layout == "each" else 2)


def too_long(limit):
    """Requests with more characters are too long for the model."""
    message = (
        "This model's maximum context length is 8192 tokens. Please reduce the length of the input."
    )
    body = {"error": {"message": message, "type": "invalid_request_error", "code": 400}}

    def step(request):
        long = sum(map(len, shown(request).values())) > limit
        return (fake.raw(http(400, body)) if long else answer())(request)

    return step


def test_long_documents_are_cut_once(make, provider):
    long = "7 " + "word " * 4000
    provider.play(too_long(15_000))
    ranking = make().rerank("q", [long, "9 b", "5 c"])
    assert ranking.order == (1, 0, 2)
    assert codes(ranking) == {"asked_again"}
    assert len(provider.requests) == 2


@pytest.mark.parametrize("question", ["graded", "yes_no"])
def test_a_long_batch_is_split(question, make, provider):
    """Rather than cut: the documents are short, there are too many of them."""
    provider.play(too_long(1000))
    texts = [f"{number % 10} {'word ' * 50}" for number in range(8)]
    ranking = make(question=question).rerank("q", texts)
    assert ranking.order == (7, 6, 5, 4, 3, 2, 1, 0)
    whole = [text for request in provider.requests for text in shown(request).values()]
    assert {*map(str.strip, whole)} == {*map(str.strip, texts)}
