import logging
import re
from collections.abc import Sequence
from types import SimpleNamespace

import bm25s
import numpy as np
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from letter_embedder import LetterEmbedder, ids
from sampling import examples
from secondpass import Candidate, InputError, fuse
from secondpass_evaluation import HybridRetriever
from secondpass_evaluation.search.embedders import embed_checked, embed_in_batches

CORPUS = [
    Candidate("the owl hunts mice", "owl", metadata={"year": 0}),
    Candidate("a mouse fears the owl and the cat", "mouse"),
    Candidate("ships cross the sea", "ship", metadata={"title": "Harbour"}),
    Candidate("the owl hunts mice", "copy"),
    Candidate("", "empty"),
]


@pytest.fixture
def retriever() -> HybridRetriever:
    return HybridRetriever(CORPUS, LetterEmbedder())


def test_lexical_mode_keeps_corpus_order_in_ties(retriever) -> None:
    retrieved = retriever.retrieve("hunts OWL", 10, "lexical")
    assert ids(retrieved) == ["owl", "copy", "mouse"]
    assert retrieved[0].score == retrieved[1].score > retrieved[2].score > 0
    assert type(retrieved[0].score) is float
    assert (retrieved[0].text, retrieved[0].metadata) == (CORPUS[0].text, {"year": 0})


def test_vectors_rank_everything_by_cosine(retriever) -> None:
    retrieved = retriever.retrieve("the owl hunts mice", 10, "vector")
    assert ids(retrieved)[:3] == ["owl", "copy", "mouse"]
    assert sorted(map(str, ids(retrieved))) == sorted(str(candidate.id) for candidate in CORPUS)
    assert retrieved[0].score == retrieved[1].score == pytest.approx(1)
    scores = [candidate.score for candidate in retrieved]
    assert scores == sorted(scores, reverse=True)


def test_the_title_is_searched_with_the_text(retriever) -> None:
    assert ids(retriever.retrieve("harbour", 1, "lexical")) == ["ship"]
    assert "Harbour\nships cross the sea" in retriever.embedder.seen


def test_each_distinct_text_is_embedded_once(retriever) -> None:
    assert retriever.embedder.seen.count("the owl hunts mice") == 1


words = st.sampled_from(["owl", "cat", "sea", "ship", "mice", "x"])
texts = st.lists(words, max_size=5).map(" ".join)


@given(
    corpus=st.lists(texts, min_size=1, max_size=12),
    query=texts,
    depth=st.integers(1, 6),
    k=st.integers(1, 12),
    rrf_k=st.sampled_from([0, 1, 60]),
)
@examples(30)
def test_hybrid_is_the_fusion_of_both(corpus, query, depth, k, rrf_k) -> None:
    candidates = [Candidate(text, str(number)) for number, text in enumerate(corpus)]
    retriever = HybridRetriever(candidates, LetterEmbedder(), depth=depth)
    by_vectors = retriever.retrieve(query, depth, "vector")
    by_words = retriever.retrieve(query, depth, "lexical")
    hybrid = retriever.retrieve(query, k, "hybrid", rrf_k)
    assert hybrid == fuse({"vector": by_vectors, "lexical": by_words}, rrf_k=rrf_k)[:k]
    assert retriever.retrieve(query, k, rrf_k=rrf_k) == hybrid
    for found in (by_vectors, by_words):
        order = [(-(one.score or 0), int(str(one.id))) for one in found]
        assert order == sorted(order)


european = st.text(st.sampled_from("aAbÉéДд_7 -.☂"), max_size=20)


@pytest.mark.parametrize("stem", [None, lambda words: [word[:2] for word in words]])
@given(corpus=st.lists(european, min_size=1, max_size=8), query=european)
@examples(30)
def test_scores_of_other_languages_are_those_of_bm25s(stem, corpus, query) -> None:
    def tokens(texts: list[str]) -> list[list[str]]:
        return bm25s.tokenize(
            texts,
            token_pattern=r"\w+",
            stopwords=[],
            stemmer=stem,
            return_ids=False,
            show_progress=False,
        )

    candidates = [Candidate(text, str(position)) for position, text in enumerate(corpus)]
    retrieved = HybridRetriever(candidates, stem=stem).retrieve(query, 9, "lexical")
    expected = {}
    if any(tokens(corpus)):
        index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        index.index(tokens(corpus), show_progress=False)
        words = index.get_tokens_ids(tokens([query])[0])
        scores = index.get_scores_from_ids(words).tolist() if words else []
        expected = {str(position): score for position, score in enumerate(scores) if score > 0}
    assert {one.id: one.score for one in retrieved} == expected


@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("german", "Straßen", "STRASSE"),
        ("english", "ﬁnanc\u00ading", "finance"),
        ("french", "Les MANGE\u0301ES", "mangée"),
        ("greek", "της Αθήνας", "αθηνα"),
        ("arabic", "الكِتَابُ", "كتاب"),
        ("hindi", "किताबें", "किताब"),
    ],
)
def test_stemmers_get_words_in_one_form(language: str, text: str, query: str) -> None:
    stem = Stemmer.Stemmer(language).stemWords
    retriever = HybridRetriever([Candidate("other", "1"), Candidate(text, "2")], stem=stem)
    assert ids(retriever.retrieve(query, 9, "lexical")) == ["2"]


@pytest.mark.parametrize("query", ["", "?!", "unknown", "\ud800"])
def test_query_without_known_words_finds_nothing(retriever, query: str) -> None:
    assert retriever.retrieve(query, 5, "lexical") == []
    assert len(retriever.retrieve(query, 3)) == 3


def test_only_lexical_mode_without_vectors() -> None:
    words_only = HybridRetriever(CORPUS)
    assert words_only.modes == ("lexical",)
    assert HybridRetriever.from_parts(words_only.parts, LetterEmbedder()).modes == ("lexical",)
    with_vectors = HybridRetriever(CORPUS, LetterEmbedder())
    without = HybridRetriever.from_parts(with_vectors.parts)
    assert without.modes == ("lexical",)
    with pytest.raises(InputError, match="vectors need an embedder"):
        without.retrieve("x", 1)


def test_it_is_quiet(capfd, caplog) -> None:
    level = logging.getLogger("bm25s").level
    with caplog.at_level(logging.DEBUG):
        HybridRetriever(CORPUS, LetterEmbedder()).retrieve("owl", 3)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
    assert logging.getLogger("bm25s").level == level


class Returning:
    def __init__(self, *answers) -> None:
        self.answers = list(answers)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(self.answers.pop(0), dtype=float)


ONE = [Candidate("x", "1")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HybridRetriever([]), "corpus: is empty"),
        (lambda: HybridRetriever(["x"]), r"corpus\[0\]\.id: retrieval needs an id"),
        (lambda: HybridRetriever([*ONE, *ONE]), r"\[1\]\.id: '1' is also the id of corpus\[0\]"),
        (lambda: HybridRetriever(ONE, depth=0), "depth: must be a whole number of 1 or more"),
        (lambda: HybridRetriever.from_parts(HybridRetriever(ONE).parts, depth=0), "depth: must be"),
        (lambda: HybridRetriever(ONE, b=2), "k1, b: must be"),
        (lambda: HybridRetriever(ONE, Returning([1.0])), r"vectors of shape \(1, d\), not \(1,\)"),
        (
            lambda: HybridRetriever(ONE, Returning([[1.0]], [[1.0, 0.0]])).retrieve("x", 1),
            "the query's vector has 2 dimensions, those of the corpus have 1",
        ),
        (lambda: HybridRetriever(ONE).retrieve("x", 1), "vectors need an embedder"),
        (lambda: HybridRetriever(ONE).retrieve("x", 0, "lexical"), "k: must be a whole number"),
        (lambda: HybridRetriever(ONE).retrieve("x", 1, "bm25"), "one of vector, lexical, hybrid"),
    ],
)
def test_errors_are_named(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


class Recorder:
    """Embeds a text as its length and its first character."""

    def __init__(self):
        self.batches = []

    def embed(self, texts):
        self.batches.append(list(texts))
        return np.array([[len(text), ord(text[0]) if text else 0] for text in texts], dtype=float)


@examples(20)
@given(st.lists(st.integers(0, 3_000).map(lambda n: chr(97 + n % 26) * n), max_size=200))
def test_vectors_have_the_order_of_the_texts(texts):
    recorder, steps = Recorder(), []
    vectors = embed_in_batches(recorder, texts, lambda *step: steps.append(step))
    expected = [[len(text), ord(text[0]) if text else 0] for text in texts]
    assert vectors.tolist() == expected
    if texts:
        assert sorted(text for batch in recorder.batches for text in batch) == sorted(texts)
        assert all(
            len(batch) == 1 or (len(batch) <= 64 and sum(map(len, batch)) <= 12_000)
            for batch in recorder.batches
        )
        assert [done for done, _ in steps] == sorted({done for done, _ in steps})
        assert (steps[0], steps[-1]) == ((0, len(texts)), (len(texts), len(texts)))
        assert len(steps) == len(recorder.batches) + 1


def test_vectors_of_about_length_1_are_usable():
    embedder = SimpleNamespace(embed=lambda texts: [[0.6, 0.8], [0.0, 1.009]])
    vectors = embed_checked(embedder, ["a", "b"])
    assert (vectors.dtype, vectors.shape) == (np.float32, (2, 2))


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([1.0], "must return vectors of shape (1, d), not (1,)"),
        ([[1.0], [1.0]], "not (2, 1)"),
        ([[3.0]], "every vector must have length 1"),
        ([[0.98]], "every vector must have length 1"),
        ([[np.nan]], "every vector must have length 1"),
    ],
)
def test_wrong_vectors_are_refused(vectors, message):
    with pytest.raises(InputError, match=re.escape(message)):
        embed_checked(SimpleNamespace(embed=lambda texts: vectors), ["a"])
