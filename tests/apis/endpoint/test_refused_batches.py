"""Requests that a server refuses, in words that may be unknown: too many or too long documents."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

import fake_provider as fake
from fake_provider import Step, http, refusing
from rankings import codes, scores
from rerank_answers import KEY, documents
from rerank_dialects import NUMBERS
from rotation import rotated

TEXTS = [f"{number % 10} text {number}" for number in range(100)]


def limited_to(most: int, code: int, error: object) -> Step:
    """A server that takes some documents, and answers more of them with an error."""
    return refusing(lambda r: len(documents(r)) > most, fake.raw(http(code, error)))


def dashscope(message: str) -> dict[str, str]:
    prefix = "<400> InternalError.Algo.InvalidParameter: Value error, "
    return {"code": "InvalidParameter", "message": f"{prefix}{message}"}


def fastapi(kind: str, message: str, *place: object, member: str = "documents") -> object:
    """As docs.pydantic.dev, errors/validation_errors, has it, in the body of FastAPI."""
    return {"detail": [{"type": kind, "loc": ["body", member, *place], "msg": message}]}


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
    "must not exceed": ("jina", 400, {"detail": "documents must not exceed 64"}, 64, 4),
    "Chinese": ("jina", 400, {"message": "单次请求最多支持25个文档"}, 25, 7),
    "unnamed": ("jina", 422, {"error": "too many documents"}, 30, 7),
    "no words": ("jina", 413, b"", 50, 4),
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


EXTRA = "Extra inputs are not permitted"
NO_MATTER_OF_SIZE = {
    # the body of the error, and the further calls that it costs once
    "unknown field": ({"error": "unknown field"}, 0),
    "extra inputs": (fastapi("extra_forbidden", EXTRA, member="return_documents"), 0),
    "a member": ({"detail": "return_documents must be false"}, 0),
    "the model": ({"message": "The model `m` does not support reranking."}, 0),
    "another model": ({"detail": "Model m not found"}, 0),
    "unknown words": ({"error": "it cannot be done"}, 1),
    "no words": (b"", 1),
    "words about documents": ({"error": "unsupported input: the documents"}, 1),
}


@pytest.mark.parametrize("name", NO_MATTER_OF_SIZE)
@pytest.mark.parametrize("code", [400, 422])
def test_another_reason_is_asked_about_once(name, code, make, rank, provider):
    body, further = NO_MATTER_OF_SIZE[name]
    refusal = fake.raw(http(code, body))
    provider.play(refusal)
    reranker = make("jina", batch_size=10)
    ranking = rank(reranker, "q", TEXTS)
    assert ranking.report.status == "unchanged"
    assert len(provider.requests) == ranking.report.usage.calls == 10 + further
    provider.play(refusal)
    assert rank(reranker, "q", TEXTS).report.usage.calls == 10  # it is remembered
    provider.play(fake.good())
    assert rank(reranker, "q", TEXTS[:1]).report.status == "ok"
    provider.play(refusal)  # since then the form was accepted
    assert rank(reranker, "q", TEXTS).report.usage.calls == 10 + further


def test_a_text_may_be_too_long_for_another_reason(make, rank, provider):
    provider.play(fake.raw(http(413, {"error": "unknown field"})))
    ranking = rank(make("jina", batch_size=10), "q", TEXTS)
    assert ranking.report.status == "unchanged"
    assert len(provider.requests) == ranking.report.usage.calls == 17  # one batch is followed down


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


def message_of(ranking) -> str:
    return " ".join(
        issue.message for issue in ranking.report.issues if issue.code == "reply_refused"
    )


NULL = "is null in each row"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({"results": [{"index": 0, "relevance_score": None}]}, f"'relevance_score' {NULL}"),
        ({"results": [{"index": None, "relevance_score": 0.5}]}, f"'index' {NULL}"),
        ({"results": [{"relevance_score": 0.5}]}, "'index' is wanted, and rows have 'relevance"),
        ({"results": [None]}, "it has no usable score"),
        ({"results": None}, "'results' is null"),
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


def test_scores_that_are_all_null_are_described(make, rank, provider):
    provider.play(fake.raw(http(200, {"scores": [None]})))
    ranking = rank(make("deepinfra"), "q", ["3 a"])
    assert "it has no usable score: 'scores' has only null" in message_of(ranking)


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


# ---------------------------------------------------------------------- too long


LONG = "7 " + "word " * 3500
TEI = "Input validation error: `inputs` must have less than 512 tokens. Given: 6001"
VLLM = (
    "This model's maximum context length is 512 tokens. However, you requested 6001 tokens in the "
    "input for score generation. Please reduce the length of the input."
)
CONTEXT = "input (6001 tokens) is larger than the max context size (512 tokens)"
PHYSICAL = (
    "input (6001 tokens) is too large to process. increase the physical batch size (current batch "
    "size: 512)"
)
COHERE = "too many tokens: size limit exceeded by 1919 tokens. Try using shorter or fewer inputs."


def llama_cpp(code: int, kind: str, message: str) -> dict[str, object]:
    return {"error": {"code": code, "type": kind, "message": message}}


WORDINGS = {
    "TEI": ("tei", 413, {"error": TEI, "error_type": "Validation"}),
    "vLLM": ("vllm", 400, {"object": "error", "message": VLLM, "code": 400}),
    "context": ("llama_cpp", 400, llama_cpp(400, "exceed_context_size_error", CONTEXT)),
    "batch": ("llama_cpp", 500, llama_cpp(500, "server_error", PHYSICAL)),
    "Cohere": ("cohere", 400, {"message": COHERE}),
    "422": ("infinity", 422, {"error": {"message": "input is too long for this model"}}),
    # the seventh, to which `rotated` gives a limit of 600
    "a proxy": ("jina", 413, b"<h1>413 Request Entity Too Large</h1>"),
    # apecloud/ApeRAG issue 1071
    "DashScope": ("dashscope", 400, dashscope(INDEX)),
    "FastAPI": ("infinity", 422, CHARACTERS),
}


@pytest.mark.parametrize(("wording", "longest"), rotated(WORDINGS, [3000, 1500, 600]))
def test_a_passage_that_is_too_long(wording, longest, make, rank, provider):
    """It is cut for judging, and costs the others nothing."""
    api, code, error = WORDINGS[wording]
    too_long = fake.raw(http(code, error))
    provider.play(refusing(lambda r: any(len(text) > longest for text in documents(r)), too_long))
    texts = ["3 a", LONG, "9 " + "x " * 100, "5 c"]
    ranking = rank(make(api, limits={"retries": 1}), "q", texts)
    assert ranking.report.status == "ok"
    assert ranking.order == (2, 1, 3, 0)
    assert ranking[1].text == LONG
    *truncated, again = sorted(ranking.report.issues, key=lambda issue: issue.code, reverse=True)
    assert [issue.code for issue in truncated] == ["text_truncated"] * (api == "cohere")
    assert again.code == "asked_again"
    assert "too_long" in again.message
    most = 4 if wording != "a proxy" else 12  # the whole request may be too long, so it is halved
    assert 2 <= len(provider.requests) == ranking.report.usage.calls <= most
    # What was short enough was never cut.
    assert all(
        text in texts or text.startswith("7")
        for request in provider.requests
        for text in documents(request)
    )


def test_the_suffix_of_a_long_passage_stays(make, provider):
    too_long = fake.raw(http(413))
    provider.play(refusing(lambda r: any(len(text) > 1000 for text in documents(r)), too_long))
    reranker = make(whole={"render": {"prefix": "P ", "suffix": " [END]"}})
    assert reranker.rerank("q", [LONG, "9 b"]).report.status in {"ok", "degraded", "partial"}
    shown = {text for request in provider.requests for text in documents(request)}
    assert len(shown) > 2
    assert all(text.startswith("P ") and text.endswith(" [END]") for text in shown)


VOYAGE = (
    "Request to model 'rerank-2' failed. The max allowed tokens per submitted batch is {limit}. "
    "Your batch has {tokens} tokens after truncation. Please lower the number of tokens in the "
    "batch."
)


def tokens_of(texts):
    """About as many as a tokenizer finds; half as many again as the client estimates."""
    return sum(len(text) for text in texts) * 3 // 8


@pytest.mark.parametrize("limit", [5000, 2000, 700])
def test_a_batch_with_too_many_tokens_is_split_and_no_text_is_cut(limit, make, rank, provider):
    def step(request):
        tokens = tokens_of(documents(request))
        if tokens <= limit:
            return fake.good()(request)
        return [http(400, {"detail": VOYAGE.format(limit=limit, tokens=tokens)})]

    provider.play(step)
    texts = [f"{number} " + "x" * (100 * number) for number in (3, 9, 5, 1, 7, 4)] * 6
    reranker = make("voyage", limits={"retries": 0})
    ranking = rank(reranker, "q", texts)
    assert ranking.report.status == "ok"
    assert codes(ranking) == {"asked_again"}
    assert "batch_too_large" in ranking.report.issues[0].message
    parts = [documents(request) for request in provider.requests]
    sent = [text for part in parts if tokens_of(part) <= limit for text in part]
    assert sorted(sent) == sorted(texts)
    assert [item.text[0] for item in ranking] == sorted((text[0] for text in texts), reverse=True)
    provider.play(step)  # what was learned holds for the next list
    assert rank(reranker, "q", texts[:6]).report.issues == ()


QUOTED = "How a server says so: maximum allowed batch size 1, and more of it."
ESCAPES = {
    "plain": str,
    "json": lambda text: json.dumps(text)[1:-1],
    "url": quote,
}


@pytest.mark.parametrize("escape", ESCAPES)
def test_no_passage_can_set_the_batch_size(escape, make, provider):
    message = f"bad input: {ESCAPES[escape](QUOTED)}"
    provider.play(fake.raw(http(422, {"error": message})), fake.good())
    reranker = make("tei")
    ranking = reranker.rerank("q", [*NUMBERS, QUOTED])
    assert "bad_request" in ranking.report.issues[0].message
    sizes = [len(documents(request)) for request in provider.requests]
    assert sizes == [4, 1, 2, 1]  # as after any refusal
