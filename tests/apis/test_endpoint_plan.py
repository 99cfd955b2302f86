"""What ``endpoint`` asks and what it makes of the answers, without a server."""

from __future__ import annotations

import json
import time

import pytest

from fakes import play, task_of
from secondpass.apis import method as module
from secondpass.apis.endpoint import Endpoint, Pairs
from secondpass.effects import Answer, Completion
from secondpass.errors import ConfigurationError, LLMError, MethodError, ReplyError
from secondpass.limits import Prices

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
            return Answer(question.read(Completion(respond(question.request.documents))))
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


def test_defaults():
    endpoint = tei()
    assert (endpoint.timeout, endpoint.package, endpoint.extra) == (30, "httpx", "remote")
    assert tei(prices={"input": 1, "output": 0}).prices == Prices(1, 0)
    assert Endpoint("jina", model="m").key_variables == ("JINA_API_KEY",)


# ---------------------------------------------------------------------- questions


def test_question():
    _, (ask,) = judged(tei(), ["3 abcdefgh", "9 abcdefgh"])
    (question,) = ask.questions
    assert question.request == Pairs("wombats", ["3 abcdefgh", "9 abcdefgh"])
    assert (question.documents, question.reminder) == (2, None)
    tokens = module.estimate_tokens
    expected = 2 * tokens("3 abcdefgh") + 2 * tokens("wombats")
    assert (question.estimate.input_tokens, question.estimate.output_tokens) == (expected, 0)


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


def test_scores():
    judgement, _ = judged(tei(), ["3 a", "9 b", "5 c"])
    assert (judgement.scores, judgement.unjudged, judgement.issues) == ([0.3, 0.9, 0.5], set(), [])
    assert judgement.score_kind is None


def test_rounding_errors_are_clipped():
    judgement, _ = judged(tei(), ["0 a", "1 b"], lambda texts: rows(texts, lambda t: 1.00005))
    assert judgement.scores == [1, 1]


def test_a_failed_batch():
    def respond(texts):
        if "9 b" in texts:
            raise DOWN
        return rows(texts)

    judgement, _ = judged(tei(batch_size=1), ["3 a", "9 b", "5 c"], respond)
    assert judgement.scores == [0.3, None, 0.5]
    assert judgement.unjudged == {1}
    assert issues(judgement) == {"server_error": ("server error", (1,))}


def test_all_batches_fail():
    def respond(texts):
        raise DOWN

    with pytest.raises(LLMError, match="server error"):
        judged(tei(), ["3 a"], respond)


@pytest.mark.parametrize("body", ["no JSON", "", "[0.5"])
def test_not_json(body):
    with pytest.raises(ReplyError, match="it is not JSON") as caught:
        judged(tei(), ["3 a"], lambda texts: body)
    assert caught.value.code == "bad_response"


def test_refused_scores():
    judgement, _ = judged(tei(), ["3 a", "9 b"], lambda texts: rows(texts).replace("0.9", "NaN"))
    assert judgement.scores == [0.3, None]
    assert issues(judgement) == {"score_refused": ("the scores of these cannot be used", (1,))}


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


def test_no_logits_where_the_api_has_none():
    endpoint = Endpoint("vllm", **BASE)
    body = json.dumps({"results": [{"index": 0, "relevance_score": -3.5}]})
    with pytest.raises(MethodError, match=r"-3\.5 is outside 0 to 1"):
        judged(endpoint, ["3 a"], lambda texts: body)


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


def test_other_troubles_ask_no_batch_again():
    judgement, asks = judged(tei(batch_size=1), ["3 a", "9 b"])
    assert len(asks) == 1
    assert not judgement.issues
