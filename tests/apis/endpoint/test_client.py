"""The client of rerank APIs: requests, what is learned from errors, and the connection."""

import asyncio
import json

import pytest

from fakes import task_of
from secondpass.apis import method as module
from secondpass.apis.batches import BatchRefusedError
from secondpass.apis.endpoint import Endpoint
from secondpass.apis.wire import RerankRequest
from secondpass.errors import LLMError
from secondpass.services import recent
from secondpass.services.diagnosis import Sent


def tei(**settings):
    return Endpoint("tei", base_url="http://h", **settings)


def rows(texts):
    """A response of TEI's."""
    scores = [int(text.split()[0]) / 10 for text in texts]
    return json.dumps([{"index": i, "score": score} for i, score in enumerate(scores)])


class Client:
    """Responds with a status and a body, like httpx's client."""

    def __init__(self, status, body):
        self.status, self.body, self.requests = status, body, []

    async def post(self, url, *, json):
        self.requests.append((url, json))
        text = self.body
        members = {"status_code": self.status, "text": text, "content": text.encode()}
        return type("Response", (), {**members, "headers": {}})()


def limit(number):
    return json.dumps({"error": f"batch size 9 > maximum allowed batch size {number}"})


def answered(endpoint, client, count=4):
    request = RerankRequest("q", [f"{n} a" for n in range(count)])
    return asyncio.run(endpoint._answer(client, request, Sent(endpoint._texts(request))))


def test_a_response_is_parsed_once(monkeypatch):
    endpoint = tei()
    completion = answered(endpoint, Client(200, rows(["3 a"])), 1)
    monkeypatch.setattr(module.json_http, "parse_json", None)
    assert endpoint._scores(completion, module.RerankRequest("q", ["3 a"])).values == (0.3,)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_learned_limit(status, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(recent.time, "monotonic", lambda: now[0])
    endpoint = tei()
    with pytest.raises(LLMError) as caught:
        answered(endpoint, Client(status, limit(3)))
    error = caught.value
    assert (error.code, error.retryable, error.too_long) == ("batch_too_large", False, False)
    assert str(error).startswith(f"the server accepts 3 documents per request (status {status}")
    assert endpoint._max_documents == 3
    now[0] += 599
    assert endpoint._max_documents == 3
    now[0] += 1
    assert endpoint._max_documents == 32


def test_a_learned_limit_does_not_raise_the_batch_size():
    endpoint = tei(batch_size=2)
    with pytest.raises(LLMError):
        answered(endpoint, Client(413, limit(3)))
    assert endpoint._max_documents == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, limit(3)), (401, limit(3)), (400, limit(4)), (400, limit(0)), (400, "no")],
)
def test_other_errors_teach_nothing(status, body):
    endpoint = tei()
    with pytest.raises((module.StatusError, BatchRefusedError)):
        answered(endpoint, Client(status, body))
    assert endpoint._max_documents == 32


def test_learned_tokens():
    endpoint = Endpoint("voyage", model="m", api_key="k")
    assert endpoint._max_tokens == 0.8 * endpoint._api.max_tokens
    text = "The max allowed tokens per submitted batch is 100. Your batch has 200 tokens"
    with pytest.raises(LLMError, match="the server accepts 100 tokens per request"):
        answered(endpoint, Client(400, json.dumps({"detail": text})))
    size = 4 * endpoint._estimate("q", None)("0 a")
    assert endpoint._max_tokens == 0.95 * size * 100 / 200


NAMES = [
    # the API and its settings; the name and the kind of scores
    ("cohere", {"model": "m"}, "m", "probability"),
    ("tei", {"base_url": "http://h"}, "tei", "probability"),
    ("tei", {"base_url": "http://h", "raw_scores": True}, "tei", "logit"),
    ("jina", {"model": "m", "scores": "similarity"}, "m", "similarity"),
]


@pytest.mark.parametrize(("api", "settings", "name", "kind"), NAMES)
def test_name_and_kind(api, settings, name, kind):
    endpoint = Endpoint(api, **settings)
    assert (endpoint.name, endpoint.score_kind, endpoint.scale) == (name, kind, None)
    assert endpoint.language_models == [endpoint]


def test_a_batch_that_is_too_long_is_cut_where_it_is_longest():
    texts = ["1 " + "x" * 3000, "2 " + "y" * 1998, "3 z"]
    (question,) = next(tei().judge(task_of(texts))).questions
    sizes = []
    while (question := question.shrink()) is not None:
        sizes.append([len(text) for text in question.request.documents])
        assert question.request.documents[2] == "3 z"
        assert question.request.query == "wombats"
    assert sizes[:2] == [[2000, 2000, 3], [999, 999, 3]]
    assert sizes[-1] == [80, 80, 3]


def test_keys_of_answers():
    assert "spans" not in tei().cache_key
    assert tei(timeout=3).cache_key == tei().cache_key
    own = Endpoint({"request": {"q": "$query", "d": "$documents"}}, base_url="http://h")
    assert own.cache_key["api"]["request"] == {"q": "$query", "d": "$documents"}
    assert (tei().provider, own.provider) == ("tei", "custom")
