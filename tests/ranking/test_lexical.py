import math

import pytest

from native_lists import NATIVE_LISTS
from secondpass import Reranker
from secondpass.ranking.lexical import LexicalScorer
from word_forms import DIFFERENT_WORDS, WORD_FORMS


def test_bm25_by_hand():
    documents = ["cat food", "the cat sat on the mat", "dog"]
    scores = LexicalScorer(k1=1.2, b=0.75).score_pairs("cat food", documents)
    mean = (2 + 6 + 1) / 3

    def part(holders, frequency, length):
        rarity = math.log(1 + (3 - holders + 0.5) / (holders + 0.5))
        return rarity * frequency / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / mean))

    assert scores == pytest.approx([part(2, 1, 2) + part(1, 1, 2), part(2, 1, 6), 0.0])


@pytest.mark.parametrize("language", NATIVE_LISTS)
def test_languages_without_spaces(language):
    passages, questions = NATIVE_LISTS[language]
    reranker = Reranker("lexical")
    best = {question: reranker.rerank(question, passages)[0].position for question in questions}
    assert best == questions


def test_nothing_to_go_by():
    assert LexicalScorer().score_pairs("q", []) == []
    assert LexicalScorer().score_pairs("", ["a"]) == [0.0]
    assert LexicalScorer(k1=0).score_pairs("a", ["a a a", "a"]) == pytest.approx(
        [math.log(1.2)] * 2
    )
    assert LexicalScorer().score_pairs("a", ["", "!?"]) == [0.0, 0.0]


@pytest.mark.parametrize("name", WORD_FORMS)
def test_another_spelling_is_found(name):
    written, queried = WORD_FORMS[name]
    scores = LexicalScorer().score_pairs(queried, ["something else", written])
    assert scores[1] > scores[0] == 0


@pytest.mark.parametrize("name", DIFFERENT_WORDS)
def test_another_word_is_not_found(name):
    written, queried = DIFFERENT_WORDS[name]
    assert LexicalScorer().score_pairs(queried, ["something else", written]) == [0, 0]
