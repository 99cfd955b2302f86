"""The LangChain compressor: documents go in and come out, none changed, none lost."""

import asyncio
import copy

import pytest
from langchain_compressor import SecondPassCompressor
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableLambda

from fakes import InOrder
from secondpass import InputError, Reranker
from secondpass.adapters.scores import KEYS

QUERY = "red panda"
TEXTS = ["A car has wheels.", "The red panda eats bamboo.", "A panda is a bear."]


def documents():
    return [
        Document(page_content=text, id=f"d{index}", metadata={"page": index, "tags": ["a"]})
        for index, text in enumerate(TEXTS)
    ]


def compress(compressor, given, asynchronous):
    if asynchronous:
        return asyncio.run(compressor.acompress_documents(given, QUERY))
    return compressor.compress_documents(given, QUERY)


def ids(found):
    return [document.id for document in found]


@pytest.mark.parametrize("asynchronous", [False, True])
class TestCompressing:
    def test_best_first(self, asynchronous):
        compressor = SecondPassCompressor(Reranker.from_preset("lexical"))
        assert isinstance(compressor, BaseDocumentCompressor)
        assert ids(compress(compressor, documents(), asynchronous)) == ["d1", "d2", "d0"]

    def test_adds_to_metadata(self, asynchronous):
        found = compress(
            SecondPassCompressor(Reranker(InOrder([1, 3, 2]))), documents(), asynchronous
        )
        assert [document.metadata["rerank_score"] for document in found] == [3.0, 2.0, 1.0]
        assert [document.metadata["rerank_rank"] for document in found] == [1, 2, 3]
        for document in found:
            assert set(document.metadata) == {"page", "tags", *KEYS}
            assert document.id == f"d{document.metadata['page']}"

    def test_inputs_are_unchanged(self, asynchronous):
        given = documents()
        before = copy.deepcopy(given)
        found = compress(SecondPassCompressor(Reranker(InOrder([1, 3, 2]))), given, asynchronous)
        found[0].metadata["changed"] = True
        assert given == before

    @pytest.mark.parametrize("answer", [[1], [], ["x", None, float("nan")]])
    def test_loses_none(self, asynchronous, answer):
        compressor = SecondPassCompressor(Reranker(InOrder(answer), log_level="debug"))
        found = compress(compressor, documents(), asynchronous)
        assert sorted(ids(found)) == ["d0", "d1", "d2"]

    def test_top_k(self, asynchronous):
        compressor = SecondPassCompressor(Reranker.from_preset("lexical"), top_k=1)
        assert ids(compress(compressor, documents(), asynchronous)) == ["d1"]
        assert compress(compressor, [], asynchronous) == []

    def test_wrong_documents_are_named(self, asynchronous):
        compressor = SecondPassCompressor(Reranker.from_preset("lexical"))
        with pytest.raises(InputError, match=r"^documents\[1\]: give a Document, not a str$"):
            compress(compressor, [*documents()[:1], "text"], asynchronous)


def test_in_a_chain():
    compressor = SecondPassCompressor(Reranker.from_preset("lexical"), top_k=2)
    retrieve = RunnableLambda(lambda query: (documents(), query))
    rerank = RunnableLambda(lambda found: compressor.compress_documents(*found))
    assert ids((retrieve | rerank).invoke(QUERY)) == ["d1", "d2"]


def test_wrong_top_k():
    with pytest.raises(ValueError, match="top_k"):
        SecondPassCompressor(Reranker.from_preset("lexical"), top_k=0)


def test_a_second_pass_keeps_foreign_keys():
    given = [Document(page_content="x", metadata={"rerank_score": "theirs"})]
    first = SecondPassCompressor(Reranker(InOrder([0.5])))
    (found,) = first.compress_documents(first.compress_documents(given, QUERY), QUERY)
    assert found.metadata["rerank_score"] == "theirs"
