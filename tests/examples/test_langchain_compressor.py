"""The parameters of the LangChain compressor; what it returns is tested by the contract."""

import pytest
from pydantic import ValidationError

from secondpass import Reranker

documents = pytest.importorskip("langchain_core.documents")


@pytest.mark.parametrize("name", ["top_k", "k", "model", "score_threshold"])
def test_unknown_parameters_are_refused(name):
    from langchain_compressor import SecondPassCompressor

    with pytest.raises(ValidationError, match=f"{name}\n.*not permitted"):
        SecondPassCompressor(Reranker("lexical"), **{name: 1})


def test_top_n_is_that_of_the_compressor():
    from langchain_compressor import SecondPassCompressor

    compressor = SecondPassCompressor(Reranker("lexical", top_k=3), top_n=1)
    texts = ["a fox", "an owl", "a hen"]
    passages = [documents.Document(text) for text in texts]
    (best,) = compressor.compress_documents(passages, "owl")
    assert best.page_content == "an owl"
