"""Beside LlamaIndex's own rerankers: the same nodes in the same order, as docs promise.

``docs/coming-from.md`` says which configuration equals which peer. The peers here are
the real ones. Their LLM is scripted, and of one mind whichever form it is asked in.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.postprocessor import LLMRerank, SentenceTransformerRerank, StructuredLLMRerank
from llama_index.core.postprocessor.rankGPT_rerank import RankGPTRerank
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from fake_provider import FakeProvider
from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_objects import Said, Scripted, ids, scripted
from tiny_models import write_classifier

QUERY = "wombats"

Passages = dict[int, str]
"""Passages by the numbers that a peer shows them under."""


def grade_of(text: str) -> int:
    """A passage of :func:`nodes_of` is as good as the number that it ends with."""
    match = re.search(r"(\d+) wombats", text)
    assert match is not None
    return int(match[1])


def best_first(passages: Passages) -> list[int]:
    return sorted(passages, key=lambda number: -grade_of(passages[number]))


def one_mind(*, calls_tools: bool = False, least: int = 0) -> Scripted:
    """Grades the same passages alike in every form that it is asked in.

    Passages of a grade below ``least`` are not named, where the prompt does not ask for all.
    """

    def said(ours: dict[str, str], words: str) -> Said:
        if ours:
            if '"ranking"' in words:
                return {"ranking": sorted(ours, key=lambda one: -grade_of(ours[one]))}
            return {label: grade_of(text) for label, text in ours.items()}
        if results := re.findall(r"^\[(\d+)\] (.*)$", words, re.MULTILINE):
            passages = {int(number): text for number, text in results}
            return " > ".join(f"[{number}]" for number in best_first(passages))
        asked = words.rpartition("Let's try this now")[2]
        parts = re.split(r"Document (\d+):", asked.rpartition("Question:")[0])
        passages = {
            int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True)
        }
        named = [
            {"document_number": one, "relevance": grade_of(passages[one])}
            for one in best_first(passages)
            if grade_of(passages[one]) >= least
        ]
        if calls_tools:
            return {"documents": named}
        rows = "Doc: {document_number}, Relevance: {relevance}"
        return "\n".join(rows.format(**row) for row in named)

    return scripted(said, calls_tools=calls_tools)


def nodes_of(grades: Sequence[int]) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(
                text=f"{grade} wombats", id_=str(index), metadata={"title": "Marsupials"}
            ),
            score=1 - index / 100,
        )
        for index, grade in enumerate(grades)
    ]


def scored(nodes: Sequence[NodeWithScore]) -> list[tuple[str, float | None]]:
    return [(node.node_id, node.score) for node in nodes]


def both_ways(
    reranker: Any, make: Callable[[], list[NodeWithScore]], query: str = QUERY
) -> Iterator[list[NodeWithScore]]:
    """What it gives synchronously and asynchronously, of fresh nodes: some peers write to them."""
    yield reranker.postprocess_nodes(make(), query_str=query)
    yield asyncio.run(reranker.apostprocess_nodes(make(), query_str=query))


LLM_RERANK = {"method": {"type": "graded", "scale": [1, 10], "whole": True}}
"""What the docs give as the equal of LLMRerank and StructuredLLMRerank."""
RANK_GPT = {"method": {"type": "listwise", "window": None}}
"""And of RankGPTRerank."""

batches = st.integers(1, 12)
numbers = st.integers(1, 14)
grades_of_all = st.lists(st.integers(1, 10), min_size=1, max_size=12)


@settings(max_examples=settings().max_examples // 4)
@given(grades=grades_of_all, batch=batches, top_n=numbers)
@pytest.mark.parametrize("peer", [LLMRerank, StructuredLLMRerank])
def test_property_llm_rerank(peer: Any, grades: list[int], batch: int, top_n: int) -> None:
    llm = one_mind(calls_tools=peer is StructuredLLMRerank)
    theirs = peer(llm=llm, choice_batch_size=batch, top_n=top_n)
    ours = SecondPassRerank(
        LLM_RERANK, llm=llm, choice_batch_size=batch, top_n=top_n, metadata_mode=MetadataMode.LLM
    )
    expected = theirs.postprocess_nodes(nodes_of(grades), query_str=QUERY)
    results = ours.postprocess_nodes(nodes_of(grades), query_str=QUERY)
    assert scored(results) == scored(expected)


@pytest.mark.parametrize("peer", [LLMRerank, StructuredLLMRerank])
def test_unnamed_nodes_are_dropped_by_a_cutoff_like_llm_rerank(peer: Any) -> None:
    llm = one_mind(calls_tools=peer is StructuredLLMRerank, least=4)
    grades = [2, 9, 4, 10, 1, 7, 3, 8]
    theirs = peer(llm=llm, choice_batch_size=10, top_n=10)
    ours = SecondPassRerank(LLM_RERANK, llm=llm, similarity_cutoff=4)
    expected = next(both_ways(theirs, lambda: nodes_of(grades)))
    assert ids(expected) == ["3", "1", "7", "5", "2"]
    for found in both_ways(ours, lambda: nodes_of(grades)):
        assert scored(found) == scored(expected)


@settings(max_examples=settings().max_examples // 4)
@given(grades=st.lists(st.integers(0, 99), max_size=15), top_n=numbers)
def test_property_rank_gpt(grades: list[int], top_n: int) -> None:
    llm = one_mind()
    theirs = RankGPTRerank(llm=llm, top_n=top_n)
    ours = SecondPassRerank(RANK_GPT, llm=llm, top_n=top_n)
    expected = ids(theirs.postprocess_nodes(nodes_of(grades), query_str=QUERY))
    assert ids(ours.postprocess_nodes(nodes_of(grades), query_str=QUERY)) == expected


# ---------------------------------------------------------------- SentenceTransformerRerank


TEXTS = ["the dog ran", "the cat sat on the mat", "cat food", "a", "food on the mat", "", "no"]


def about_cats() -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(
                text=text,
                id_=str(index),
                metadata={"title": ("cat", "dog")[index % 2], "path": "food"},
                excluded_embed_metadata_keys=["path"],
            ),
            score=index / 10,
        )
        for index, text in enumerate(TEXTS)
    ]


@pytest.fixture(scope="module", params=[0, 1])
def folder(request: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / f"classifier{request.param}"
    return str(write_classifier(folder, seed=request.param, positions=512))


@pytest.mark.parametrize("top_n", [1, 3, 7])
def test_sentence_transformer_rerank(folder: str, top_n: int) -> None:
    theirs = SentenceTransformerRerank(
        model=folder, top_n=top_n, device="cpu", keep_retrieval_score=True, trust_remote_code=False
    )
    # What the docs give as its equal.
    method = {"type": "cross_encoder", "activation": "sigmoid", "max_length": 512}
    config = {"method": {**method, "model": folder, "precision": "exact"}}
    ours = SecondPassRerank(config, top_n=top_n, device="cpu", metadata_mode=MetadataMode.EMBED)
    expected = theirs.postprocess_nodes(about_cats(), query_str="cat food")
    assert len(expected) == top_n
    for found in both_ways(ours, about_cats, "cat food"):
        assert ids(found) == ids(expected)
        assert [one.score for one in found] == pytest.approx(
            [float(one.score or 0) for one in expected], abs=1e-5
        )
        assert [one.metadata["retrieval_score"] for one in found] == [
            one.metadata["retrieval_score"] for one in expected
        ]
        assert all(type(one.score) is float for one in found)


def test_a_saved_sentence_transformer_rerank(folder: str) -> None:
    """With what the page adds to the saved settings, scores are theirs."""
    theirs = SentenceTransformerRerank(
        model=folder, top_n=7, device="cpu", keep_retrieval_score=True, trust_remote_code=False
    )
    page = (Path(__file__).parents[3] / "docs/coming-from.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| | `SentenceTransformerR"))
    added = {"reranker": ast.literal_eval(row.split("`")[3]), "metadata_mode": "embed"}
    ours = SecondPassRerank.from_dict({**theirs.to_dict(), **added})
    expected = theirs.postprocess_nodes(about_cats(), query_str="cat food")
    found = ours.postprocess_nodes(about_cats(), query_str="cat food")
    assert ids(found) == ids(expected)
    assert [one.score for one in found] == pytest.approx(
        [float(one.score or 0) for one in expected], abs=1e-5
    )


# ---------------------------------------------------------------- APIs, by packages of their own


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as served:
        yield served


def closed(peer: Any) -> None:
    """Close a peer's connections, which it leaves to the garbage collector."""
    if session := getattr(peer, "_session", None):
        session.close()
    if client := getattr(peer, "_client", None):
        client.__exit__(None, None, None)


def on_loopback(flavour: str, url: str) -> tuple[Any, SecondPassRerank]:
    """A peer and its equal, which ask the same provider."""
    common: dict[str, Any] = {"top_n": 3}
    method = {"type": "endpoint", "api": flavour, "base_url": url}
    if flavour == "cohere":
        package = pytest.importorskip("llama_index.postprocessor.cohere_rerank")
        theirs = package.CohereRerank(model="m", api_key="k", base_url=url, max_retries=1, **common)
        mode = MetadataMode.EMBED
    elif flavour == "jina":
        package = pytest.importorskip("llama_index.postprocessor.jinaai_rerank")
        theirs = package.JinaRerank(model="m", api_key="k", base_url=url, **common)
        mode = MetadataMode.EMBED
    else:
        package = pytest.importorskip("llama_index.postprocessor.tei_rerank")
        theirs = package.TextEmbeddingInference(base_url=url, auth_token="Bearer k", **common)
        mode = MetadataMode.NONE
    named = {} if flavour == "tei" else {"model": "m"}
    ours = SecondPassRerank({"method": method}, api_key="k", metadata_mode=mode, **named, **common)
    return theirs, ours


@pytest.mark.long
@pytest.mark.parametrize("flavour", ["cohere", "jina", "tei"])
def test_rerank_apis(flavour: str, provider: FakeProvider) -> None:
    theirs, ours = on_loopback(flavour, provider.base_url(flavour))
    grades = [2, 9, 4, 10, 1, 7]
    expected = theirs.postprocess_nodes(nodes_of(grades), query_str=QUERY)
    assert ids(expected) != ids(nodes_of(grades))[:3]
    for found in both_ways(ours, lambda: nodes_of(grades)):
        assert scored(found) == scored(expected)
    first, *others = provider.requests
    for other in others:
        assert other.documents == first.documents
        assert (other.key, other.path) == ("k", first.path)
        assert other.body.get("model") == first.body.get("model")
    ours._reranker.close()
    closed(theirs)


# ---------------------------------------------------------------- a decision model

PAGE = Path(__file__).parents[3] / "docs" / "decision-models.md"
NOUL = {
    "question": "yes_no",
    "instructions": "Does this passage answer the query?",
    "levels": [
        "The passage is off-topic or only loosely related",
        "The passage contains information that answers the query",
    ],
}


@pytest.mark.parametrize("mode", ["score", "noul"])
def test_jev(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration of the page, and the peer, with the mock server of jevcompat."""
    package = pytest.importorskip("llama_index.postprocessor.jev")
    mock = pytest.importorskip("jevcompat.mock")
    section = PAGE.read_text(encoding="utf-8").partition("## Coming from JevRerank")[2]
    config = yaml.safe_load(section.partition("```yaml\n")[2].partition("```")[0])
    if mode == "noul":
        config["method"] = {**config["method"], **NOUL}
    with mock.Running() as running:
        monkeypatch.setenv("TYPESAFE_BASE_URL", running.url)
        config["method"]["base_url"] = running.url
        theirs = package.JevRerank(api_key="k", mode=mode, timeout_s=60, raise_on_error=True)
        ours = SecondPassRerank(config, metadata_mode=MetadataMode.EMBED)
        grades = [2, 9, 4, 10, 1, 7]
        expected = theirs.postprocess_nodes(nodes_of(grades), query_str=QUERY)
        highest = 3 if mode == "score" else 1
        assert len(expected) == 5
        for found in both_ways(ours, lambda: nodes_of(grades)):
            assert ids(found) == ids(expected)
            scores = [(one.score or 0) * highest for one in found]
            assert scores == pytest.approx([one.score for one in expected], abs=1e-6)
        ours._reranker.close()
