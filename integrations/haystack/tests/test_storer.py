import re

import pytest
from haystack import Document, Pipeline
from haystack.components.writers import DocumentWriter
from haystack.document_stores.in_memory import InMemoryDocumentStore

from haystack_integrations.components.rankers.secondpass import SecondPassRanker, SecondPassStorer
from secondpass import ConfigurationError, StoreError

DOCUMENTS = [
    Document(content="Pensioners travel at half price.", meta={"title": "Fares"}),
    Document(content="The ferry leaves every morning.", meta={"title": "Ferry"}),
    Document(content=None),
]


def ranker(path, **parameters):
    return SecondPassRanker({"method": {"type": "embedded", "store": str(path)}}, **parameters)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"meta_fields_to_embed": ["title"]}, {"document_prefix": "passage: ", "top_k": 1}],
)
def test_documents_of_an_indexing_pipeline_are_known_when_they_are_ranked(tmp_path, parameters):
    path = tmp_path / "passages.store"
    documents = InMemoryDocumentStore()
    indexing = Pipeline()
    indexing.add_component("storer", SecondPassStorer(ranker(path, **parameters)))
    indexing.add_component("writer", DocumentWriter(documents))
    indexing.connect("storer.documents", "writer.documents")
    indexing = Pipeline.loads(indexing.dumps())
    indexing.remove_component("writer")
    indexing.add_component("writer", DocumentWriter(documents))
    indexing.connect("storer.documents", "writer.documents")
    result = indexing.run({"storer": {"documents": DOCUMENTS}}, include_outputs_from={"storer"})
    assert result["storer"]["stored"] == {"known": 0, "encoded": 2}
    found = documents.filter_documents()
    assert sorted(found, key=str) == sorted(DOCUMENTS, key=str)
    report = ranker(path, **parameters).run(query="fares", documents=found)["report"]
    assert (report["usage"]["known"], report["usage"]["encoded"]) == (2, 0)


def test_a_ranker_without_a_store():
    with pytest.raises(StoreError, match="store"):
        SecondPassStorer(SecondPassRanker("lexical")).run(documents=DOCUMENTS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SecondPassStorer("lexical"), "ranker: give a SecondPassRanker, not 'lexical'"),
        (lambda: SecondPassStorer(reranker=None), "'reranker'; did you mean 'ranker'?"),
        (
            lambda: SecondPassStorer(SecondPassRanker("lexical")).run(nodes=[]),
            "'nodes'; did you mean 'documents'?",
        ),
    ],
)
def test_what_is_no_ranker(make, message):
    with pytest.raises((ConfigurationError, TypeError), match=re.escape(message)):
        make()


def test_what_is_no_document(tmp_path):
    with pytest.raises(ValueError, match="documents"):
        SecondPassStorer(ranker(tmp_path / "x")).run(documents=["text"])
