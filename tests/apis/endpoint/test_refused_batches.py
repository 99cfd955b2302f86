"""Requests with several documents that a server refuses, in words that may be unknown."""

from __future__ import annotations

import json

import pytest

import fake_provider as fake
from fake_provider import Step, http, refusing
from rankings import codes, scores
from rerank_answers import KEY, documents
from secondpass import Candidate

TEXTS = [f"{number % 10} text {number}" for number in range(100)]


def limited_to(most: int, code: int, error: object) -> Step:
    """A server that takes some documents, and answers more of them with an error."""
    return refusing(lambda r: len(documents(r)) > most, fake.raw(http(code, error)))


def dashscope(message: str) -> dict[str, str]:
    prefix = "<400> InternalError.Algo.InvalidParameter: Value error, "
    return {"code": "InvalidParameter", "message": f"{prefix}{message}"}


def fastapi(kind: str, message: str, *place: object) -> object:
    """As docs.pydantic.dev, errors/validation_errors, has it, in the body of FastAPI."""
    return {"detail": [{"type": kind, "loc": ["body", "documents", *place], "msg": message}]}


DASHSCOPE = "of documents is invalid, it should not be empty or larger than 25.: input.documents"
OLDER = "batch size is invalid, it should not be larger than 25.: input.contents"
FASTAPI = "List should have at most 64 items after validation, not 100"
LIMITS = {
    # the API, the status and the body of the error, the limit, the requests
    # Tencent/WeKnora issue 3458
    "DashScope": ("dashscope", 400, dashscope(f"batch size {DASHSCOPE}"), 25, 5),
    # HKUDS/LightRAG issue 319
    "DashScope, older": ("dashscope", 400, {"message": OLDER}, 25, 5),
    "FastAPI": ("infinity", 422, fastapi("too_long", FASTAPI), 64, 3),
    "must not exceed": ("jina", 400, {"detail": "documents must not exceed 64"}, 64, 3),
    "Chinese": ("jina", 400, {"message": "单次请求最多支持25个文档"}, 25, 6),
    "unnamed": ("jina", 422, {"error": "too many documents"}, 30, 6),
    "no words": ("jina", 413, b"", 50, 3),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_of_documents_costs_no_document(name, make, rank, provider):
    api, code, error, most, calls = LIMITS[name]
    provider.play(limited_to(most, code, error))
    reranker = make(api)
    ranking = rank(reranker, "q", TEXTS)
    assert ranking.report.status == "ok"
    assert codes(ranking) == {"asked_again"}
    assert len(provider.requests) == ranking.report.usage.calls == calls
    provider.play(limited_to(most, code, error))
    assert not rank(reranker, "q", TEXTS).report.issues  # it is remembered


@pytest.mark.parametrize(
    ("code", "further"),
    [(400, 3), (422, 3), (413, 7)],  # a text may be too long, so one batch is followed down
)
def test_another_reason_costs_few_more_calls(code, further, make, rank, provider):
    provider.play(fake.raw(http(code, {"error": "unknown field"})))
    ranking = rank(make("jina", batch_size=10), "q", TEXTS)
    assert ranking.report.status == "unchanged"
    assert len(provider.requests) == ranking.report.usage.calls == 10 + further


def test_one_bad_document_costs_its_neighbours_only(make, rank, provider):
    bad = refusing(
        lambda r: any(text.endswith("text 80") for text in documents(r)),
        fake.raw(http(400, {"error": "cannot read"})),
    )
    provider.play(bad)
    reranker = make("jina")
    ranking = rank(reranker, "q", TEXTS)
    lost = {place for place, score in scores(ranking).items() if score is None}
    assert 80 in lost
    assert len(lost) <= 25
    assert codes(ranking) == {"asked_again", "bad_request"}
    assert reranker.method._max_documents > 100  # no limit is learned


INDEX = "document index:1 is invalid, it should not be larger than 30000: input.documents"
CHARACTERS = fastapi("string_too_long", "String should have at most 8192 characters", 1)
TOO_LONG = {
    # apecloud/ApeRAG issue 1071
    "DashScope": ("dashscope", 400, dashscope(INDEX)),
    "FastAPI": ("infinity", 422, CHARACTERS),
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_a_document_that_is_too_long_is_cut(name, make, rank, provider):
    api, code, error = TOO_LONG[name]
    long = refusing(lambda r: any(len(t) > 3000 for t in documents(r)), fake.raw(http(code, error)))
    provider.play(long)
    ranking = rank(make(api), "q", ["3 a", "7 " + "word " * 9000, "9 b"])
    assert ranking.report.status == "ok"
    assert ranking.order == (2, 1, 0)
    assert len(provider.requests) == 2


def without_empty(reply: object) -> Step:
    return refusing(lambda r: "" in documents(r), fake.raw(http(200, reply)))


@pytest.mark.parametrize(
    ("api", "reply"),
    [
        ("jina", {"results": None}),
        ("jina", None),
        ("tei", None),
        # Rust writes a score that is no number as null.
        ("tei", [{"index": index, "score": None} for index in range(3)]),
        ("deepinfra", {"scores": None}),
        ("deepinfra", {"scores": [None] * 3}),
    ],
)
def test_null_is_asked_again_without_empty_texts(api, reply, make, rank, provider):
    provider.play(without_empty(reply))
    candidates = [Candidate(text) for text in ("3 a", "", "9 b")]
    ranking = rank(make(api), "q", candidates)
    assert scores(ranking) == {0: 0.3, 1: None, 2: 0.9}
    assert codes(ranking) == {"asked_again", "empty_text"}
    assert len(provider.requests) == 2


def message_of(ranking) -> str:
    return " ".join(
        issue.message for issue in ranking.report.issues if issue.code == "reply_refused"
    )


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({"error": {"message": "model is still loading"}}, "the server says: model is still load"),
        ({"code": "Throttled", "message": "later, please"}, "code Throttled: later, please"),
        ({"detail": "no such deployment"}, "the server says: no such deployment"),
        ({"data": []}, "'results' is wanted, and it has 'data'"),
        ({"results": [{"index": 0, "score": 1}]}, "'relevance_score' is wanted, and rows have "),
    ],
)
def test_a_reply_without_scores_is_described(reply, words, make, rank, provider):
    provider.play(fake.raw(http(200, reply)))
    assert words in message_of(rank(make("jina"), "q", ["3 a"]))


@pytest.mark.parametrize("reply", ["error", "names", "rows"])
def test_its_description_has_no_text_and_no_key(reply, make, rank, provider):
    secrets = ["wombats", KEY]
    bodies = {
        "error": {"error": {"message": " ".join(secrets), "type": secrets[0]}},
        "names": dict.fromkeys(secrets, 1),
        "rows": {"results": [dict.fromkeys(secrets, 1)]},
    }
    provider.play(fake.raw(http(200, bodies[reply])))
    ranking = rank(make("jina", api_key=KEY), "wombats", ["wombats"])
    assert message_of(ranking)
    assert not any(secret in json.dumps(ranking.to_dict()["report"]) for secret in secrets)


def test_words_that_begin_with_a_status_are_no_page(make, rank, provider):
    provider.play(fake.raw(http(400, {"message": "<400> Value error, no such thing"})))
    (issue,) = rank(make("dashscope"), "q", ["3 a"]).report.issues
    assert "the server says: <400> Value error, no such thing" in issue.message
    provider.play(fake.raw(http(400, b"<html>Value error</html>")))
    (issue,) = rank(make("dashscope"), "q", ["3 a"]).report.issues
    assert "Value error" not in issue.message
