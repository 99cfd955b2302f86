"""APIs that users describe, and the ways of a key."""

from __future__ import annotations

import logging

import pytest

import fake_provider as fake
from fake_provider import http, refusing
from rankings import codes, scores
from rerank_answers import KEY, documents
from rerank_dialects import NUMBERS

MINE = {
    "path": "/v1/rank",
    "request": {"model": "$model", "question": "$query", "passages": [{"text": "$document"}]},
    "rows": "data.items",
    "index": "position",
    "score": "relevance",
    "score_kind": "logit",
    "max_documents": 100,
    "usage_units": "billed.units",
}


def mine(request):
    items = [
        {"position": place, "relevance": fake.by_number(passage["text"])}
        for place, passage in enumerate(request.body["passages"])
    ]
    yield http(200, {"data": {"items": items}, "billed": {"units": 1.5}})


@pytest.fixture
def own(provider, monkeypatch, build):
    """Makes rerankers by such an API. The server knows every path."""
    monkeypatch.setitem(fake.APIS, "/v1/rank", "mine")
    provider.play(mine)

    def make(auth=None, api=MINE, **settings):
        api = api if auth is None else {**api, "auth": auth}
        base_url = f"http://127.0.0.1:{provider.port}/mine"
        method = {"type": "endpoint", "api": api, "model": "m", "base_url": base_url}
        return build({**method, **settings})

    return make


def test_a_described_api(own, rank, provider):
    ranking = rank(own(batch_size=2), "q", NUMBERS)
    assert ranking.order == (1, 2, 0)
    assert scores(ranking) == {0: 3.0, 1: 9.0, 2: 5.0}
    assert (ranking.report.score_kind, ranking.report.usage.units) == ("logit", 3.0)
    assert sorted(
        (request.path, [passage["text"] for passage in request.body["passages"]])
        for request in provider.requests
    ) == [("/mine/v1/rank", ["3 a"]), ("/mine/v1/rank", ["9 b", "5 c"])]
    assert {request.body["question"] for request in provider.requests} == {"q"}


WAYS = [
    # auth; the header and its value; the query of the URL
    (None, "authorization", f"Bearer {KEY}", ""),
    ({"header": "X-Api-Key"}, "x-api-key", KEY, ""),
    ({"header": "Authorization", "prefix": "Key "}, "authorization", f"Key {KEY}", ""),
    ({"query": "key"}, "authorization", None, f"key={KEY}"),
]


@pytest.mark.parametrize(("auth", "header", "value", "query"), WAYS)
def test_ways_of_a_key(auth, header, value, query, own, rank, provider, caplog):
    caplog.set_level(logging.DEBUG)
    reranker = own(auth, api_key_env="OWN_API_KEY")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OWN_API_KEY", KEY)
        ranking = rank(reranker, "q", NUMBERS)
        assert ranking.report.status == "ok"
        (request,) = provider.requests
        assert request.headers.get(header) == value
        assert request.path.partition("?")[2] == query
        # It is in no log and no error.
        provider.play(fake.raw(http(400, {"message": f"bad key {KEY}"})))
        failed = rank(reranker, "q", ["1 x"])
    shown = f"{failed.report.to_dict()} {[record.getMessage() for record in caplog.records]}"
    assert failed.report.status == "unchanged"
    assert KEY not in shown


@pytest.mark.parametrize("auth", [None, {"query": "key"}])
def test_a_key_in_the_address(auth, own, rank, provider, caplog):
    """It is sent, and in no log at any level, nor in a report."""
    caplog.set_level(logging.DEBUG)
    url = f"http://127.0.0.1:{provider.port}/mine?code={KEY}&part=1"
    reranker = own(auth, base_url=url, api_key=KEY)
    answered = rank(reranker, "q", NUMBERS)
    assert answered.report.status == "ok"
    sent = f"?code={KEY}&part=1" + (f"&key={KEY}" if auth else "")
    assert {request.path[-len(sent) :] for request in provider.requests} == {sent}
    provider.play(fake.status(500), fake.raw(fake.End.RESET))
    failed = rank(reranker, "q", ["1 x"])
    logged = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    assert any(record.name == "httpx" for record in caplog.records)
    assert not [text for text in [*logged, str(failed.report.to_dict())] if KEY in text]


def test_signed_requests(make, rank, provider, caplog):
    """With the credentials of the environment, which are in no report and no log."""
    caplog.set_level(logging.DEBUG)
    assert rank(make("bedrock"), "q", NUMBERS).report.status == "ok"
    (request,) = provider.requests
    stamp = request.headers["x-amz-date"]
    assert request.headers["x-amz-security-token"] == "session/EXAMPLE=="
    assert f"/{stamp[:8]}/eu-west-1/bedrock/aws4_request" in request.headers["authorization"]
    names = "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token"
    assert names in request.headers["authorization"]
    leak = "The Canonical String should have been x-amz-security-token:session/EXAMPLE=="
    provider.play(fake.raw(http(403, {"message": leak})))
    report = make("bedrock").rerank("q", NUMBERS).report
    assert [issue.code for issue in report.issues] == ["authentication"]
    assert "EXAMPLE" not in f"{report.to_dict()} {caplog.text}".replace("AKIDEXAMPLE", "")
    logging.getLogger("botocore.auth").debug("of another's request")
    assert "of another's request" in caplog.text


def test_no_aws_credentials(make, provider, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    ranking = make("bedrock").rerank("q", NUMBERS)
    assert codes(ranking) == {"no_key"}
    assert ranking.report.usage.calls == 0
    assert not provider.requests


@pytest.mark.parametrize("api", ["cohere", "tei", "deepinfra"])
def test_texts_without_a_visible_character_are_not_sent(api, make, rank, provider):
    reranker = make(api, api_key=KEY)
    ranking = rank(reranker, "q", ["3 a", "", "9 b", " \n", "5 c", "\u200b"])
    assert scores(ranking) == {0: 0.3, 1: None, 2: 0.9, 3: None, 4: 0.5, 5: None}
    assert ranking.report.status == "partial"
    assert {issue.code: issue.positions for issue in ranking.report.issues} == {
        "no_text": (1, 3, 5)
    }
    assert [documents(request) for request in provider.requests] == [["3 a", "9 b", "5 c"]]
    assert rank(reranker, "q", ["", " "]).report.status == "unchanged"
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("api", "member"), [("vllm", "truncate_prompt_tokens"), ("cohere", "max_tokens_per_doc")]
)
def test_optional_members_are_left_out_once_rejected(api, member, make, rank, provider):
    rejected = fake.raw(http(422, {"detail": f"unexpected member {member}"}))
    provider.play(refusing(lambda r: member in r.body, rejected))
    reranker = make(api, api_key=KEY)
    for requests in (2, 3):
        ranking = rank(reranker, "q", NUMBERS)
        assert (ranking.report.status, ranking.order) == ("ok", (1, 2, 0))
        assert len(provider.requests) == requests


OPTIONAL = dict.fromkeys("abcdefgh", True)


def test_all_optional_members_may_be_rejected_one_by_one(own, rank, provider):
    def step(request):
        blamed = next((name for name in OPTIONAL if name in request.body), None)
        if blamed is None:
            return mine(request)
        return [http(400, {"message": f"unknown parameter '{blamed}'"})]

    provider.play(step)
    request = {**MINE["request"], **OPTIONAL}
    reranker = own(api={**MINE, "request": request, "optional": [*OPTIONAL]})
    for requests in (1 + len(OPTIONAL), 2 + len(OPTIONAL)):
        assert rank(reranker, "q", NUMBERS).report.status == "ok"
        assert len(provider.requests) == requests


def test_a_rejected_member_that_is_set_in_options_is_asked_about_twice(make, rank, provider):
    """It is not left out, since it was asked for."""
    provider.play(fake.raw(http(422, {"detail": "unexpected parameter truncate_prompt_tokens"})))
    ranking = rank(make("vllm", options={"truncate_prompt_tokens": 100}), "q", NUMBERS)
    assert ranking.report.status == "unchanged"
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [
        ({}, 4096),
        ({"document_tokens": 100}, 100),
        ({"options": {"max_tokens_per_doc": 50}}, 50),
    ],
)
def test_what_an_api_reads_of_a_text_is_stated_and_reported(settings, tokens, make, rank, provider):
    texts = ["3 a", "9 " + "b" * 4 * tokens, "5 " + "c" * (4 * tokens - 2)]
    ranking = rank(make("cohere", api_key=KEY, **settings), "q", texts)
    assert provider.requests[0].body["max_tokens_per_doc"] == tokens
    assert ranking.report.status == "ok"
    (issue,) = ranking.report.issues
    assert (issue.code, issue.positions) == ("text_truncated", (1,))
    assert str(tokens) in issue.message
