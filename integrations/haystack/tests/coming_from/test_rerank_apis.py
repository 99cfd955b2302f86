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
from haystack_peers import QUERY, both
from haystack_rankers import ids, scores


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


@pytest.mark.long
@pytest.mark.parametrize("arguments", [{}, {"top_k": 2}, {"top_k": 50}])
def test_cohere_ranker_gives_the_same(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    peers = pytest.importorskip("haystack_integrations.components.rankers.cohere")
    monkeypatch.setenv("SOME_KEY", "sk-test")
    key = Secret.from_env_var("SOME_KEY")
    url = provider.base_url("cohere")
    theirs = peers.CohereRanker(
        "rerank-v3.5",
        api_key=key,
        api_base_url=url,
        meta_fields_to_embed=["title"],
        meta_data_separator=" - ",
    )
    method = {"type": "endpoint", "api": "cohere", "base_url": url}
    method["options"] = {"max_tokens_per_doc": 4096}
    ours = SecondPassRanker(
        {"method": method, "depth": None},
        model="rerank-v3.5",
        top_k=10,
        token=key,
        meta_fields_to_embed=["title"],
        embedding_separator=" - ",
        dedupe=False,
        raise_on_failure=True,
    )
    compare(provider, theirs, ours, numbered(meta=True), **arguments)
    theirs._cohere_client.__exit__(None, None, None)  # it has no close, and leaves sockets open
    bodies = [request.body for request in provider.requests]
    assert {body["max_tokens_per_doc"] for body in bodies} == {4096}
    assert {body["model"] for body in bodies} == {"rerank-v3.5"}


@pytest.mark.long
@pytest.mark.parametrize("arguments", [{}, {"top_k": 2}, {"score_threshold": 0.4}])
def test_jina_ranker_gives_the_same(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    peers = pytest.importorskip("haystack_integrations.components.rankers.jina")
    monkeypatch.setenv("SOME_KEY", "sk-test")
    key = Secret.from_env_var("SOME_KEY")
    url = provider.base_url("jina")
    theirs = peers.JinaRanker("m", api_key=key, base_url=f"{url}/rerank", score_threshold=0.2)
    ours = SecondPassRanker(
        {"method": {"type": "endpoint", "api": "jina", "base_url": url}, "depth": None},
        model="m",
        token=key,
        score_threshold=0.2,
        dedupe=False,
        raise_on_failure=True,
    )
    compare(provider, theirs, ours, numbered(), **arguments)


@pytest.mark.long
@pytest.mark.parametrize("arguments", [{}, {"top_k": 2}, {"score_threshold": 0.4}])
def test_vllm_ranker_gives_the_same(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    peers = pytest.importorskip("haystack_integrations.components.rankers.vllm")
    monkeypatch.setenv("SOME_KEY", "sk-test")
    key = Secret.from_env_var("SOME_KEY")
    url = provider.base_url("jina")
    extra = {"truncate_prompt_tokens": 256}
    theirs = peers.VLLMRanker(
        model="m",
        api_key=key,
        api_base_url=url,
        meta_fields_to_embed=["title"],
        extra_parameters=extra,
    )
    method = {"type": "endpoint", "api": "vllm", "base_url": url, "options": extra}
    ours = SecondPassRanker(
        {"method": method, "depth": None},
        model="m",
        token=key,
        meta_fields_to_embed=["title"],
        dedupe=False,
        raise_on_failure=True,
    )
    compare(provider, theirs, ours, numbered(meta=True), **arguments)
    limits = {request.body["truncate_prompt_tokens"] for request in provider.requests}
    assert limits == {256}


@pytest.mark.long
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("arguments", [{}, {"top_k": 2}])
def test_hugging_face_tei_ranker_gives_the_same(
    provider: FakeProvider,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, Any],
    raw: bool,
) -> None:
    peers = pytest.importorskip("haystack_integrations.components.rankers.huggingface_api")
    monkeypatch.setenv("SOME_KEY", "sk-test")
    key = Secret.from_env_var("SOME_KEY")
    url = f"http://127.0.0.1:{provider.port}"
    theirs = peers.HuggingFaceTEIRanker(url=url, token=key, raw_scores=raw)
    method = {"type": "endpoint", "api": "tei", "base_url": url, "raw_scores": raw}
    ours = SecondPassRanker(
        {"method": method, "depth": None}, token=key, top_k=10, raise_on_failure=True
    )
    # It takes the best of those with the same id, as this one does.
    documents = [*numbered(), Document(id="d3", content="8 cats", score=1.0)]
    compare(provider, theirs, ours, documents, **arguments)
    assert {request.body["raw_scores"] for request in provider.requests} == {raw}


PAGE = Path(__file__).resolve().parents[4] / "docs/coming-from-haystack.md"
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
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {name}\n")[1].split("\n## ")[0]
    for parameter in inspect.signature(peer.__init__).parameters:
        assert parameter == "self" or re.search(rf"`{parameter}[`=]", section), parameter
