"""What ``endpoint`` asks and what it makes of the answers, without a server."""

from __future__ import annotations

import json
import time

import pytest

from fakes import play, task_of
from secondpass.apis.endpoint import Endpoint
from secondpass.apis.wire import Response
from secondpass.effects import Answer
from secondpass.errors import ConfigurationError, LLMError, MethodError, ReplyError
from secondpass.services.json_http import parse_json

BASE = {"base_url": "http://h"}
DOWN = LLMError("server error", "server_error")


def tei(**settings):
    return Endpoint("tei", **BASE, **settings)


def rows(texts, score=lambda text: int(text.split()[0]) / 10):
    """A response of TEI's."""
    return json.dumps([{"index": i, "score": score(text)} for i, text in enumerate(texts)])


def answering(respond):
    """Reads what a function responds to the documents of a question, or raises."""

    def answer(question):
        try:
            text = respond(question.request.documents)
            return Answer(question.read(Response(text, body=parse_json(text))))
        except MethodError as error:
            return Answer(error=error)

    return answer


def judged(endpoint, texts, respond=rows):
    return play(endpoint.judge(task_of(texts)), answering(respond))


def issues(judgement):
    return {issue.code: (issue.message, issue.positions) for issue in judgement.issues}


# ---------------------------------------------------------------------- settings

NAMES = [
    (("cohere",), {"model": "m"}, "m", "probability"),
    (("tei",), BASE, "tei", "probability"),
    (("tei",), {**BASE, "raw_scores": True}, "tei", "logit"),
    (("jina",), {"model": "m"}, "m", "unbounded"),
    (("jina",), {"model": "m", "scores": "similarity"}, "m", "similarity"),
    (("infinity",), {**BASE, "raw_scores": True, "scores": "unbounded"}, "infinity", "unbounded"),
]


@pytest.mark.parametrize(("arguments", "settings", "name", "kind"), NAMES)
def test_name_and_kind(arguments, settings, name, kind):
    endpoint = Endpoint(*arguments, **settings)
    assert (endpoint.name, endpoint.score_kind, endpoint.scale) == (name, kind, None)
    assert endpoint.language_models == [endpoint]


WRONG = [
    ("tei", {}, "base_url: is required for 'tei', which is self-hosted"),
    ("cohere", {}, "model: is required for 'cohere'"),
    ("cohere", {"base_url": "http://h"}, "model: is required for 'cohere'"),
    ("cohere", {"model": "m", "raw_scores": True}, "raw_scores: is not supported by 'cohere'"),
    ("tei", {**BASE, "options": {"texts": []}}, "options: 'texts' cannot be set in options"),
    ("tei", {**BASE, "options": {"query": ""}}, "options: 'query' cannot be set in options"),
    ("tei", {**BASE, "options": {"model": ""}}, "options: 'model' cannot be set in options"),
]


@pytest.mark.parametrize(("api", "settings", "message"), WRONG)
def test_wrong_settings(api, settings, message):
    with pytest.raises(ConfigurationError, match=message):
        Endpoint(api, **settings)


# ---------------------------------------------------------------------- questions


@pytest.mark.parametrize(
    ("batch_size", "count", "sizes"), [(None, 32, [32]), (None, 33, [16, 17]), (2, 5, [1, 2, 2])]
)
def test_batches(batch_size, count, sizes):
    judgement, (ask,) = judged(tei(batch_size=batch_size), [f"{n % 10} a" for n in range(count)])
    assert [question.documents for question in ask.questions] == sizes
    assert judgement.scores == [n % 10 / 10 for n in range(count)]


def test_shrink():
    _, (ask,) = judged(tei(), ["1 " + "x" * 3000, "2 " + "y" * 1998, "3 z"])
    first = ask.questions[0].shrink()
    assert [len(text) for text in first.request.documents] == [2000, 2000, 3]
    second = first.shrink()
    assert [len(text) for text in second.request.documents] == [999, 999, 3]
    assert second.request.documents[2] == "3 z"
    assert second.request.query == "wombats"
    while second is not None:
        last, second = second, second.shrink()
    assert all(len(text) < 2000 for text in last.request.documents)


# ---------------------------------------------------------------------- answers


def test_a_failed_batch():
    def respond(texts):
        if "9 b" in texts:
            raise DOWN
        return rows(texts)

    judgement, _ = judged(tei(batch_size=1), ["3 a", "9 b", "5 c"], respond)
    assert judgement.scores == [0.3, None, 0.5]
    assert judgement.unjudged == {1}
    assert issues(judgement) == {"server_error": ("server error", (1,))}


@pytest.mark.parametrize("body", ["no JSON", "", "[0.5"])
def test_not_json(body):
    with pytest.raises(ReplyError, match="it is not JSON") as caught:
        judged(tei(), ["3 a"], lambda texts: body)
    assert caught.value.code == "bad_response"


LOGITS = [
    # settings; whether logits are read as such
    ({}, True),
    ({"scores": "probability"}, False),
]


@pytest.mark.parametrize(("settings", "accepted"), LOGITS)
def test_logits(settings, accepted):
    def act():
        return judged(
            tei(batch_size=1, **settings), ["3 a", "9 b"], lambda texts: rows(texts, lambda t: -3.5)
        )

    if accepted:
        judgement, _ = act()
        assert (judgement.scores, judgement.score_kind) == ([-3.5, -3.5], "logit")
        assert [issue.code for issue in judgement.issues] == ["scores_read_as_logits"]
    else:
        with pytest.raises(MethodError) as caught:
            act()
        assert caught.value.code == "score_out_of_range"


def test_too_large_batches_are_asked_again():
    endpoint = tei()

    def respond(texts):
        if "9 b" in texts and len(texts) > 1:
            endpoint._learned_limit = 1, time.monotonic()
            raise LLMError("the server accepts 1", "batch_too_large")
        return rows(texts)

    texts = ["3 a", *(["1 x"] * 15), "9 b", *(["2 y"] * 16)]
    judgement, asks = judged(endpoint, texts, respond)
    assert judgement.scores == [0.3, *[0.1] * 15, 0.9, *[0.2] * 16]
    assert [len(ask.questions) for ask in asks] == [2, 17]
    message = "batch_too_large: the server accepts 1"
    assert issues(judgement) == {"asked_again": (message, ())}
