"""The scorer ``endpoint`` asks the server, in each API that both speak."""

import pytest

from fakes import InOrder
from secondpass import Reranker

APIS = {
    "cohere": "/cohere",
    "jina": "/jina",
    "voyage": "/voyage",
    "mixedbread": "/mixedbread",
    "tei": "/tei",
    "vllm": "/vllm",
    "infinity": "/infinity",
    "llama_cpp": "/llama_cpp",
}
PASSAGES = [f"passage {number}" for number in range(50)]
SCORES = [((number * 37) % 50) / 50 for number in range(50)]
KINDS = {
    "logit": [score * 12 - 6 for score in SCORES],
    "probability": SCORES,
    "similarity": [score * 2 - 1 for score in SCORES],
    "unbounded": [score * 30 for score in SCORES],
}


def ask(server, api, **settings):
    config = {
        "type": "endpoint",
        "api": api,
        "model": "m",
        "base_url": server.url + APIS[api],
        "api_key": "none-is-demanded",
        "batch_size": 1000,
        **settings,
    }
    reranker = Reranker.from_config({"method": config})
    try:
        return reranker.rerank("q", PASSAGES)
    finally:
        reranker.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("api", APIS)
def test_order_of_the_process(api, kind, serving):
    local = Reranker(InOrder(KINDS[kind], score_kind=kind))
    ranking = ask(serving(local), api, scores="unbounded")
    assert ranking.order == local.rerank("q", PASSAGES).order
    assert ranking.report.status == "ok"
    assert ranking.report.usage.calls == 1


@pytest.mark.parametrize("api", ["tei", "infinity"])
def test_raw_scores_are_the_final_scores(api, serving):
    local = Reranker(InOrder(KINDS["logit"], score_kind="logit"))
    ranking = ask(serving(local), api, raw_scores=True)
    assert [item.rerank_score for item in ranking] == sorted(KINDS["logit"], reverse=True)


def test_presets_through_the_server(serving):
    local = Reranker.from_preset("lexical")
    texts = [f"{number % 7} cats, {number % 5} owls " * (number % 3 + 1) for number in range(50)]
    server = serving(local)
    config = {"type": "endpoint", "api": "tei", "base_url": server.url, "batch_size": 50}
    remote = Reranker.from_config({"method": config})
    try:
        assert remote.rerank("owls", texts).order == local.rerank("owls", texts).order
    finally:
        remote.close()
