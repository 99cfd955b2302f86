"""Documents that fit a budget of tokens, in real pipelines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.preprocessors import DocumentSplitter
from haystack.core import serialization

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass.adapters.shortening import SOURCES_KEY
from secondpass.errors import ConfigurationError, InputError

QUERY = "Who has red apples?"
TEXT = "We saw trees. They had red apples. It rained. Some apples were green. The end."
TEMPLATE = "{% for document in documents %}{{ document.content }}\n{% endfor %}{{ query }}"


def words(text: str) -> int:
    return len(text.split())


def ranker(max_tokens: int | None, **parameters: Any) -> SecondPassRanker:
    reranker = parameters.pop("reranker", {"method": {"type": "embedded"}})
    return SecondPassRanker(reranker, max_tokens=max_tokens, token_counter=words, **parameters)


@pytest.mark.parametrize("way", ["run", "run_async"])
def test_a_document_is_shortened_to_its_best_sentences(way: str) -> None:
    document = Document(content=TEXT, meta={"page": 1})
    component = ranker(8)
    if way == "run":
        result = component.run(QUERY, [document])
    else:
        result = asyncio.run(component.run_async(QUERY, [document]))
    (found,) = result["documents"]
    assert "They had red apples." in found.content
    assert words(found.content) <= 8
    assert (found.id, found.meta["page"]) == (document.id, 1)
    (source,) = found.meta[SOURCES_KEY]
    parts = [TEXT[start:stop] for start, stop in source["spans"]]
    assert source["id"] == document.id
    assert " […] ".join(parts) in found.content
    assert "rerank_span" not in found.meta
    assert document.content == TEXT
    assert SOURCES_KEY not in document.meta


def test_what_fits_is_whole_and_what_does_not_is_in_the_report() -> None:
    documents = [
        Document(id=name, content=text)
        for name, text in {"a": "red apples", "b": "red " * 9, "c": "red apples", "d": None}.items()
    ]
    result = ranker(5, reranker="lexical").run("red apples", documents)
    (found,) = result["documents"]
    assert (found.content, found.meta[SOURCES_KEY]) == (
        "red apples",
        [{"id": found.id, "spans": [[0, 10]]}],
    )
    left_out = result["report"]["left_out"]
    assert {name: len(left) for name, left in left_out.items()} == {
        "max_tokens": 1, "repeated": 1, "no_text": 1,
    }  # fmt: skip


def test_what_chunks_of_a_splitter_share_is_kept_once() -> None:
    splitter = DocumentSplitter(split_by="word", split_length=6, split_overlap=2)
    if hasattr(splitter, "warm_up"):
        splitter.warm_up()
    chunks = splitter.run([Document(content=TEXT)])["documents"]
    assert len(chunks) > 2
    found = ranker(100).run(QUERY, chunks[::-1])["documents"]
    found.sort(key=lambda document: document.meta["split_idx_start"])
    assert [document.id for document in found] == [chunk.id for chunk in chunks]
    kept = " ".join(document.content for document in found).replace("[…]", "")
    assert kept.split() == TEXT.split()


def test_a_prompt_is_built_from_it_unchanged() -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker("embedded", max_tokens=22))
    pipeline.add_component("builder", PromptBuilder(TEMPLATE, required_variables="*"))
    pipeline.connect("ranker.documents", "builder.documents")
    loaded = Pipeline.loads(pipeline.dumps())
    documents = [Document(content=TEXT), Document(content="Stones are grey.")]
    inputs = {"ranker": {"query": QUERY, "documents": documents}, "builder": {"query": QUERY}}
    prompts = [each.run(inputs)["builder"]["prompt"] for each in (pipeline, loaded)]
    assert prompts[0] == prompts[1]
    assert "They had red apples." in prompts[0]
    assert "We saw trees." not in prompts[0]


def test_the_counter_is_saved() -> None:
    if allow := getattr(serialization, "allow_deserialization_module", None):  # of Haystack 3
        allow(words.__module__)
    saved = ranker(8).to_dict()
    assert saved["init_parameters"]["token_counter"] == f"{words.__module__}.words"
    loaded = SecondPassRanker.from_dict(saved)
    (found,) = loaded.run(QUERY, [Document(content=TEXT)])["documents"]
    assert words(found.content) <= 8


def test_a_second_pass_replaces_the_sources_of_the_first() -> None:
    first = ranker(8).run(QUERY, [Document(content=TEXT)])["documents"]
    (found,) = ranker(7).run(QUERY, first)["documents"]
    (source,) = found.meta[SOURCES_KEY]
    parts = [first[0].content[start:stop] for start, stop in source["spans"]]
    assert " […] ".join(parts) in found.content


@pytest.mark.parametrize("value", [0, 1.5, True, "5"])
def test_a_budget_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="SecondPassRanker: max_tokens"):
        SecondPassRanker("lexical", max_tokens=value)
    component = SecondPassRanker("lexical")
    with pytest.raises(InputError, match="max_tokens"):
        component.max_tokens = value
