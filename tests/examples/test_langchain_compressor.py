"""The parameters of the LangChain compressor; what it returns is tested by the contract."""

import re

import pytest

from secondpass import ConfigurationError, Reranker

documents = pytest.importorskip("langchain_core.documents")


WRONG = [
    ({"top_k": 1}, "top_k: unknown key; did you mean 'top_n'?"),
    ({"score_threshold": 1}, "score_threshold: unknown key; known are: reranker, top_n"),
    ({"top_n": 0}, "top_n: must be greater than or equal to 1"),
    ({"reranker": "lexical"}, "reranker: must be an instance of Reranker, not 'lexical'"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_wrong_parameters_are_refused(fields, message):
    from langchain_compressor import SecondPassCompressor

    with pytest.raises(ConfigurationError, match=re.escape(f"SecondPassCompressor: {message}")):
        SecondPassCompressor(**{"reranker": Reranker("lexical"), **fields})


def test_top_n_is_that_of_the_compressor():
    from langchain_compressor import SecondPassCompressor

    compressor = SecondPassCompressor(Reranker("lexical", top_k=3), top_n=1)
    texts = ["a fox", "an owl", "a hen"]
    passages = [documents.Document(text) for text in texts]
    (best,) = compressor.compress_documents(passages, "owl")
    assert best.page_content == "an owl"


def test_it_ranks_two_documents_when_run(capsys):
    import langchain_compressor

    langchain_compressor.main()
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d\.\d\d  Bananas are rich in potassium\.", first)
    assert second.endswith("Paris is the capital of France.")
