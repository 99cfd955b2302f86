"""Indexes, and the modes lexical and hybrid of `eval`, know the spellings of a word."""

import json

import numpy as np
import pytest

from letter_embedder import ids
from secondpass import Candidate
from secondpass_evaluation.first_stages import CorpusRetriever
from secondpass_evaluation.search.index import Index, open_index
from secondpass_evaluation.search.indexing import build_index
from word_forms import DIFFERENT_WORDS, WORD_FORMS

PASSAGES = WORD_FORMS | DIFFERENT_WORDS


class Constant:
    """Embeds all texts alike, so that a vector search keeps the order of the corpus."""

    name = "constant"

    def embed(self, texts):
        return np.ones((len(texts), 1))


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    folder = tmp_path_factory.mktemp("forms")
    with open(folder / "corpus.jsonl", "w", encoding="utf-8") as file:
        for name, (written, _) in PASSAGES.items():
            file.write(json.dumps({"_id": name, "text": written}) + "\n")
    build_index(folder, folder / "index")
    return open_index(folder / "index")


def corpus_retriever(name: str) -> CorpusRetriever:
    corpus = [Candidate("something else", "else"), Candidate(PASSAGES[name][0], name)]
    return CorpusRetriever(corpus, 1, Constant)


@pytest.mark.parametrize("name", WORD_FORMS)
def test_another_spelling_is_found(index, name) -> None:
    query = WORD_FORMS[name][1]
    assert name in ids(index.retrieve(query, len(PASSAGES), "lexical"))
    retriever = corpus_retriever(name)
    assert ids(retriever.retrieve(query, 9, "lexical")) == [name]
    assert ids(retriever.retrieve(query, 9, "hybrid")) == ["else", name]


@pytest.mark.parametrize("name", DIFFERENT_WORDS)
def test_another_word_is_not_found(index, name) -> None:
    query = DIFFERENT_WORDS[name][1]
    assert name not in ids(index.retrieve(query, len(PASSAGES), "lexical"))
    retriever = corpus_retriever(name)
    assert retriever.retrieve(query, 9, "lexical") == []
    assert ids(retriever.retrieve(query, 9, "hybrid")) == ["else"]
