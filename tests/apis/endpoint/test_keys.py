"""Which key is sent to whom; no error, log or report has a key."""

from __future__ import annotations

import json
import logging

import pytest

import fake_provider as fake
from fake_provider import FakeProvider, http, refusing
from rankings import codes, shown
from rerank_answers import KEY, documents, rows
from rerank_dialects import NUMBERS

SELF_HOSTED = ("tei", "vllm", "vllm_score", "infinity", "llama_cpp", "sglang")
KEYS = [
    # the API; what the environment holds; the key that is sent
    ("cohere", {"CO_API_KEY": "a"}, "a"),
    ("cohere", {"COHERE_API_KEY": "b"}, "b"),
    ("jina", {"JINA_API_KEY": " a\n"}, "a"),
    ("voyage", {"VOYAGE_API_KEY": "a"}, "a"),
    ("mixedbread", {"MXBAI_API_KEY": "a"}, "a"),
    *[(api, {"RERANK_API_KEY": "a"}, "a") for api in SELF_HOSTED],
    ("jina", {"CO_API_KEY": "a", "OPENAI_API_KEY": "b"}, None),
    ("tei", {"CO_API_KEY": "a", "TEI_API_KEY": "b"}, None),
]


@pytest.mark.parametrize(("api", "environment", "sent"), KEYS)
def test_whose_key_is_sent(api, environment, sent, make, provider, monkeypatch):
    reranker = make(api)
    for name, value in environment.items():  # read when asked, not when made
        monkeypatch.setenv(name, value)
    assert reranker.rerank("q", NUMBERS).report.status == "ok"
    headers = provider.requests[0].headers
    assert headers.get("authorization") == (None if sent is None else f"Bearer {sent}")


ECHOES = {
    # Servers repeat the request in their errors, and a passage may mention keys.
    "9 how to rotate an api key": lambda body: {"detail": [{"msg": "no", "input": body}]},
    "9 first\n\tan authentication_error\nlast": lambda body: {"message": f"cannot read {body}"},
    "9 unauthorized: " + "x" * 300: lambda body: {"message": json.dumps(body)[:250]},
    '9 "quoted" \\ schlüssel: api-key': lambda body: {"message": json.dumps(body)},
}


@pytest.mark.parametrize("text", ECHOES)
def test_passages_open_no_circuit(text, make, provider):
    provider.play(lambda request: [http(400, ECHOES[text](request.body))], fake.good())
    reranker = make("vllm")
    ranking = reranker.rerank("q", ["3 a", text, "5 c"])
    assert "bad_request" in ranking.report.issues[0].message
    assert reranker.rerank("q", NUMBERS).report.status == "ok"


@pytest.mark.parametrize("short", ["}", "5", "e", "context"])
def test_passages_hide_no_error(short, make, provider):
    """What an error says in its own words counts, though a word of it is a passage's too."""
    error = {"message": "This model's maximum context length is 512 tokens."}
    too_long = fake.raw(http(400, error))
    provider.play(refusing(lambda r: any(len(text) > 2500 for text in documents(r)), too_long))
    ranking = make("vllm").rerank("query", [short, "7 " + "word " * 6000, "5 c"])
    assert ranking.report.status == "ok"
    assert codes(ranking) == {"asked_again"}


SECRETS = (KEY, "wombats", "burrow", fake.LEAK)


# Those of errors are in the table of faults (`hygiene` of `fault_checks`).
@pytest.mark.parametrize(
    "step",
    [
        rows(lambda found: [{**row, "document": {"text": "wombats"}} for row in found[:1]]),
        rows(lambda found: {"error": f"{KEY} wombats"}),
    ],
)
def test_no_secret_leaves(step, make, rank, provider, caplog):
    provider.play(step)
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "secondpass")
    reranker = make("jina", api_key=KEY, limits={"retries": 1}, whole={"log_level": "debug"})
    ranking = rank(reranker, "burrow", [f"{number} wombats" for number in (3, 9)])
    text = shown(reranker, ranking, caplog)
    assert not [secret for secret in SECRETS if secret in text]


def test_no_key_follows_a_redirect(make, rank, provider):
    with FakeProvider() as elsewhere:
        there = f"http://127.0.0.1:{elsewhere.port}/tei/rerank"
        for code in (301, 302, 303, 307, 308):
            provider.play(fake.raw(http(code, b"", {"Location": there})))
            ranking = rank(make(api_key=KEY, limits={"retries": 2}), "q", NUMBERS)
            assert codes(ranking) == {"redirected"}
            assert len(provider.requests) == 1
        assert elsewhere.connections == 0
