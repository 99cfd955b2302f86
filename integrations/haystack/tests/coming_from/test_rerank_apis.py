"""Compared with rankers of other packages, which call rerank APIs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from haystack import Document
from haystack.utils import Secret

from fake_provider import FakeProvider
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_objects import QUERY, both, ids, scores


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as running:
        yield running


def numbered(*, meta: bool = False) -> list[Document]:
    """Documents that the fake provider scores by the number in their text."""
    return [
        Document(id=f"d{number}", content=f"{number} cats", meta={"title": "on"} if meta else {})
        for number in (3, 1, 7, 9, 4, 2)
    ]


def compare(
    provider: FakeProvider,
    theirs: Any,
    ours: SecondPassRanker,
    documents: list[Document],
    **arguments: Any,
) -> None:
    """Both are asked, say the same, and have shown the server the same."""
    expected = theirs.run(query=QUERY, documents=documents, **arguments)
    result = both(ours, QUERY, documents, **arguments)
    assert result["report"]["status"] == "ok"
    assert ids(result) == ids(expected)
    assert scores(result) == pytest.approx(scores(expected), abs=1e-9)
    shown = [(request.documents, request.body["query"]) for request in provider.requests]
    assert len(shown) == 3
    assert all(one == shown[0] for one in shown)
    assert {request.key for request in provider.requests} == {"sk-test"}
    ours.close()
    if hasattr(theirs, "close"):
        theirs.close()


def cohere(peers: Any, key: Secret, url: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    fields = {"meta_fields_to_embed": ["title"]}
    named = {"api_key": key, "api_base_url": url, "meta_data_separator": " - ", **fields}
    theirs = peers.CohereRanker("rerank-v3.5", **named)
    method = {"api": "cohere", "options": {"max_tokens_per_doc": 4096}}
    ours = {"model": "rerank-v3.5", "top_k": 10, "embedding_separator": " - ", **fields}
    return theirs, method, ours


def jina(peers: Any, key: Secret, url: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    theirs = peers.JinaRanker("m", api_key=key, base_url=f"{url}/rerank", score_threshold=0.2)
    return theirs, {"api": "jina"}, {"model": "m", "score_threshold": 0.2}


def vllm(peers: Any, key: Secret, url: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    fields = {"meta_fields_to_embed": ["title"]}
    extra = {"truncate_prompt_tokens": 256}
    named = {"api_key": key, "api_base_url": url, "extra_parameters": extra, **fields}
    theirs = peers.VLLMRanker(model="m", **named)
    return theirs, {"api": "vllm", "options": extra}, {"model": "m", **fields}


def huggingface_api(
    peers: Any, key: Secret, url: str
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    theirs = peers.HuggingFaceTEIRanker(url=url, token=key, raw_scores=True)
    return theirs, {"api": "tei", "raw_scores": True}, {"top_k": 10, "dedupe": None}


SENT = {
    cohere: {"max_tokens_per_doc": 4096, "model": "rerank-v3.5"},
    jina: {"model": "m"},
    vllm: {"truncate_prompt_tokens": 256},
    huggingface_api: {"raw_scores": True},
}
ADDRESS = {cohere: "cohere", jina: "jina", vllm: "jina", huggingface_api: ""}


@pytest.mark.long
@pytest.mark.parametrize("arguments", [{}, {"top_k": 2}, {"score_threshold": 0.4}])
@pytest.mark.parametrize("pair", SENT, ids=lambda pair: pair.__name__)
def test_rankers_of_rerank_apis_give_the_same(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, pair: Any, arguments: dict[str, Any]
) -> None:
    peers = pytest.importorskip(f"haystack_integrations.components.rankers.{pair.__name__}")
    if "score_threshold" in arguments and pair in {cohere, huggingface_api}:
        pytest.skip("it has no threshold at run time")
    monkeypatch.setenv("SOME_KEY", "sk-test")
    key = Secret.from_env_var("SOME_KEY")
    api = ADDRESS[pair]
    url = provider.base_url(api) if api else f"http://127.0.0.1:{provider.port}"
    theirs, method, parameters = pair(peers, key, url)
    ours = SecondPassRanker(
        {"method": {"type": "endpoint", "base_url": url, **method}, "depth": None},
        api_key=key,
        raise_on_failure=True,
        **{"dedupe": False, **parameters},
    )
    documents = numbered(meta="meta_fields_to_embed" in parameters)
    if pair is huggingface_api:  # it takes the best of those with the same id, as this one does
        documents.append(Document(id="d3", content="8 cats", score=1.0))
    compare(provider, theirs, ours, documents, **arguments)
    if pair is cohere:
        theirs._cohere_client.__exit__(None, None, None)  # it has no close, and leaves sockets open
    for request in provider.requests:
        assert SENT[pair].items() <= request.body.items()


PAGE = Path(__file__).resolve().parents[4] / "docs/coming-from.md"
PEERS = [
    ("haystack.components.rankers", "LLMRanker"),
    ("haystack.components.rankers", "LostInTheMiddleRanker"),
    ("haystack.components.rankers", "MetaFieldRanker"),
    *(
        pytest.param(
            f"haystack_integrations.components.rankers.{module}", name, marks=pytest.mark.long
        )
        for module, name in [
            ("cohere", "CohereRanker"),
            ("fastembed", "FastembedRanker"),
            ("huggingface_api", "HuggingFaceTEIRanker"),
            ("jina", "JinaRanker"),
            ("nvidia", "NvidiaRanker"),
            ("sentence_transformers", "SentenceTransformersSimilarityRanker"),
            ("vllm", "VLLMRanker"),
            ("voyage", "VoyageRanker"),
        ]
    ),
]


@pytest.mark.parametrize(("module", "name"), PEERS)
def test_the_page_names_every_parameter_of_the_peer(module: str, name: str) -> None:
    peer = getattr(pytest.importorskip(module), name)
    page = PAGE.read_text(encoding="utf-8")
    rankers, table = page.split("\n## Parameters\n")
    assert f"`{name}`" in rankers
    table = table.split("\n## ")[0]
    for parameter in inspect.signature(peer.__init__).parameters:
        assert parameter == "self" or re.search(rf"`{parameter}[`=]", table), parameter
