"""What is sent to each rerank API, and the scores that are read."""

from __future__ import annotations

import importlib
from dataclasses import replace

import httpx
import pytest

import fake_provider as fake
import llama_server
from fakes import task_of
from rankings import scores
from rerank_answers import KEY, answer
from rerank_dialects import DIALECTS, HOSTED, NUMBERS, OWN, SIGNED
from rotation import rotated
from secondpass import Reranker

endpoint = importlib.import_module("secondpass.apis.endpoint")
json_http = importlib.import_module("secondpass.services.json_http")


# ---------------------------------------------------------------------- each API


@pytest.mark.parametrize("api", DIALECTS)
def test_what_is_sent_and_read(api, make, rank, provider):
    dialect = DIALECTS[api]
    ranking = rank(make(api, api_key=KEY), "q", NUMBERS)
    assert ranking.order == (1, 2, 0)
    assert scores(ranking) == {0: 0.3, 1: 0.9, 2: 0.5}
    assert ranking.report.status == "ok"
    assert ranking.report.score_kind == dialect.kind
    assert ranking.report.method == ("tei" if api == "tei" else "m")
    (request,) = provider.requests
    assert request.path == f"/{api}{dialect.path}"
    assert request.body == dialect.sends
    header, prefix = dialect.header
    assert request.headers[header].startswith(prefix if api in SIGNED else f"{prefix}{KEY}")
    assert request.headers["content-type"] == "application/json"
    usage = ranking.report.usage
    assert (usage.calls, usage.rounds, usage.pairs) == (1, 1, 3)
    assert usage.input_tokens == dialect.tokens  # not reported is None, never 0
    assert usage.output_tokens == (None if dialect.tokens is None else 0)
    assert usage.units == dialect.units


@pytest.mark.parametrize("api", HOSTED)
def test_the_address_of_a_provider(api, make, monkeypatch):
    seen = mocked(monkeypatch, {"results": [], "data": []})
    make(api, base_url=None, api_key=KEY, limits={"repair": 0}).rerank("q", NUMBERS)
    (request,) = seen
    assert str(request.url) == DIALECTS[api].hosted
    header, prefix = DIALECTS[api].header
    assert request.headers[header].startswith(prefix)


@pytest.mark.parametrize("api", [api for api in OWN if api not in {"elastic", "vertex"}])
def test_self_hosted_without_key_and_model(api, make, provider):
    assert make(api, model=None).rerank("q", NUMBERS).order == (1, 2, 0)
    (request,) = provider.requests
    assert "authorization" not in request.headers
    assert "model" not in request.body


def test_tei_gets_no_model(make, provider):
    ranking = make("tei", model="BAAI/bge-reranker-base").rerank("q", NUMBERS)
    assert "model" not in provider.requests[0].body
    assert ranking.report.method == "BAAI/bge-reranker-base"


@pytest.mark.parametrize(
    ("batch_size", "rank"), rotated([None, 2], ["sync", "async"]), indirect=["rank"]
)
@pytest.mark.parametrize("api", DIALECTS)
def test_instruction_is_sent_in_a_field_of_its_own_or_reported(
    api, batch_size, make, rank, provider
):
    dialect = DIALECTS[api]
    reranker = make(api, api_key=KEY, batch_size=batch_size)
    ranking = rank(reranker, "q", NUMBERS, instruction="prefer owls")
    assert ranking.order == (1, 2, 0)
    field = dialect.instruction
    for request in provider.requests:
        if api == "voyage":
            field = "query"
            assert request.body["query"] == "prefer owls\nq"
        elif field is not None:
            place = request.body
            for name in field.split("."):
                place = place[name]
            assert place == "prefer owls"
        else:
            assert "owls" not in str(request.body)
    issues = [(issue.code, issue.method) for issue in ranking.report.issues]
    assert issues == ([] if field else [("instruction_not_used", ranking.report.method)])


def test_instruction_follows_that_of_the_options(make, provider):
    make("vllm", options={"instruction": "Find animals."}).rerank("q", NUMBERS, instruction="owls")
    assert provider.requests[0].body["instruction"] == "Find animals.\nowls"


def test_instruction_counts_for_each_pair_and_is_kept_out_of_errors(make, provider):
    instruction = "prefer what the night guard of the museum wrote"
    provider.play(fake.raw(fake.http(400, {"message": f"no template for {instruction}"})))
    report = make("vllm").rerank("q", NUMBERS, instruction=instruction).report
    assert report.status == "unchanged"
    assert "night guard" not in repr(report) + str(report.to_dict())
    plain, instructed = (
        next(make("vllm").method.judge(task)).questions[0]
        for task in (task_of(NUMBERS), replace(task_of(NUMBERS), instruction="x" * 40))
    )
    assert instructed.estimate.input_tokens - plain.estimate.input_tokens == 10 * len(NUMBERS)
    assert "x" * 40 not in repr(instructed)


def mocked(monkeypatch, body):
    """The addresses that are asked, the network being a function."""
    seen = []

    def serve(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=body)

    transport = httpx.MockTransport(serve)
    monkeypatch.setattr(json_http, "bounded", lambda kind, *_, **__: kind(transport=transport))
    return seen


def test_options_go_along(make, provider):
    reranker = make("cohere", options={"max_tokens_per_doc": 512, "priority": 1})
    assert reranker.rerank("q", NUMBERS).order == (1, 2, 0)
    assert provider.requests[0].body == {
        **DIALECTS["cohere"].sends,
        "max_tokens_per_doc": 512,
        "priority": 1,
    }


@pytest.mark.parametrize("api", ["tei", "infinity"])
def test_raw_scores(api, make, provider):
    provider.play(answer(lambda text: fake.by_number(text) - 5))
    ranking = make(api, raw_scores=True).rerank("q", NUMBERS)
    assert provider.requests[0].body["raw_scores"] is True
    assert scores(ranking) == {0: -2.0, 1: 4.0, 2: 0.0}
    assert ranking.report.score_kind == "logit"


MISSING = llama_server.missing_packages("xllamacpp", "gguf")


# ---------------------------------------------------------------------- a real server


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_real_server(tmp_path):
    model = llama_server.write_tiny_cross_encoder(tmp_path / "tiny.gguf")
    texts = ["the cat sat on a mat", "a dog ran", "", "yes", "cat food", "über café", "x" * 200]
    with llama_server.serve(model, context=512, rerank=True) as address:
        method = {"type": "endpoint", "api": "llama_cpp", "base_url": address.removesuffix("/v1")}
        reranker = Reranker.from_config({"method": {**method, "batch_size": 3}})
        alone = {}
        for index, text in enumerate(texts):
            (item,) = reranker.rerank("cat food", [text])
            if item.rerank_score is not None:
                alone[index] = item.rerank_score
        ranking = reranker.rerank("cat food", texts)
        reranker.close()
    assert set(ranking.order) == set(range(len(texts)))
    results = {index: score for index, score in scores(ranking).items() if score is not None}
    assert results == pytest.approx(alone, abs=1e-5)
    assert len(results) >= 6
    assert [index for index in ranking.order if index in alone] == sorted(
        alone, key=lambda index: -alone[index]
    )
    assert ranking.report.score_kind == "logit"
