"""Passages that are too long, and batch sizes that a server refuses."""

from __future__ import annotations

import importlib
import json
from urllib.parse import quote

import pytest

import fake_provider as fake
from fake_provider import http, refusing
from rankings import codes
from rerank_answers import documents
from rerank_dialects import NUMBERS
from rotation import rotated

client = importlib.import_module("secondpass.apis.method")

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
    "a proxy": ("jina", 413, b"<h1>413 Request Entity Too Large</h1>"),
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
    sent = [
        documents(request)
        for request in provider.requests
        if tokens_of(documents(request)) <= limit
    ]
    assert [text for part in sorted(sent, key=lambda part: texts.index(part[0])) for text in part]
    assert sorted(text for part in sent for text in part) == sorted(texts)
    assert [int(item.text[0]) for item in ranking] == sorted(
        (int(text[0]) for text in texts), reverse=True
    )
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
    assert sizes == [4, 2, 2]  # it is halved, as after any refusal
