import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.scorers.embedding.encoder import Encoding
from secondpass.scorers.embedding.similarity import (
    encoded_text,
    list_scores,
    match,
    products_in_blocks,
)

VOCABULARY = 12
VECTORS = np.random.default_rng(3).normal(size=(VOCABULARY, 384)).astype(np.float32)


def text(ids):
    """A text whose tokens are fixed vectors of the vocabulary; the first are longer."""
    ids = np.array(ids)
    states = VECTORS[ids] / (1 + ids)[:, None]
    everything = np.ones(len(ids), dtype=bool)
    return encoded_text(Encoding(states, everything, ids, everything))


def scores(query, passages, feedback=3, idf=True):
    asked = text(query)
    matches = [match(asked, text(passage)) for passage in passages]
    return list_scores(matches, feedback=feedback, idf=idf)


words = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=6)
lists = st.lists(words, min_size=1, max_size=8)


def by_the_formula(query, passages, feedback, idf):
    asked, texts = text(query), [text(passage) for passage in passages]
    weights = asked.weights
    if idf:
        count = len(passages)
        having = [sum(token in passage for passage in passages) for token in query]
        values = [math.log(1 + (count - n + 0.5) / (n + 0.5)) for n in having]
        rare = weights * values
        weights = (weights + rare / rare.sum()) / 2
    matches = [weights @ (asked.tokens @ each.tokens.T).max(axis=1) for each in texts]
    first = [(asked.mean @ each.mean + m) / 2 for each, m in zip(texts, matches, strict=True)]
    moved = asked.mean
    if feedback:
        after = sorted(first, reverse=True)[: feedback + 1][-1]
        for score, each in zip(first, texts, strict=True):
            moved = moved + 10 * max(0, score - after) * each.mean
        moved = moved / np.linalg.norm(moved)
    return [(each.mean @ moved + m) / 2 for each, m in zip(texts, matches, strict=True)]


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("feedback", [0, 1, 3, 9])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_formula(count, feedback, idf):
    passages = [[2, 3, 4], [1], [1, 5, 6, 7], [8, 9], [2, 10]][:count]
    expected = by_the_formula([1, 2, 2], passages, feedback, idf)
    assert scores([1, 2, 2], passages, feedback, idf) == pytest.approx(expected, abs=1e-6)


@given(words, lists)
def test_without_feedback_and_idf_the_list_has_no_effect(query, passages):
    together = scores(query, passages, 0, False)
    alone = [scores(query, [passage], 0, False)[0] for passage in passages]
    assert together == pytest.approx(alone, abs=1e-6)


@given(words, lists, st.integers(0, 4), st.booleans(), st.randoms())
def test_the_order_of_the_list_has_no_effect(query, passages, feedback, idf, random):
    expected = scores(query, passages, feedback, idf)
    order = list(range(len(passages)))
    random.shuffle(order)
    shuffled = scores(query, [passages[index] for index in order], feedback, idf)
    assert shuffled == pytest.approx([expected[index] for index in order], abs=1e-5)


@given(words, st.lists(words, min_size=1, max_size=40), st.integers(0, 4), st.booleans())
def test_equal_passages_have_equal_scores(query, passages, feedback, idf):
    """To the last bit, or rounding would decide their order."""
    repeated = [*passages, *passages]
    together = scores(query, repeated, feedback, idf)
    assert together[: len(passages)] == together[len(passages) :]


@pytest.mark.parametrize("query", [1, 2, 7, 700, 1500])
@pytest.mark.parametrize("passage", [1, 93, 94, 500])
def test_products_of_any_size(query, passage):
    generator = np.random.default_rng(0)
    rows, others = (generator.normal(size=(count, 384)).astype("f4") for count in (query, passage))
    np.testing.assert_allclose(products_in_blocks(rows, others), rows @ others.T, rtol=0, atol=1e-3)


@given(words, lists, st.integers(1, 4), st.randoms())
def test_rounding_errors_stay_small(query, passages, feedback, random):
    """Also where passages have equal scores, at the end of those that are fed back or not."""
    matches = [match(text(query), text(passage)) for passage in passages]
    noisy = [each._replace(cosine=each.cosine + random.uniform(-1e-6, 1e-6)) for each in matches]
    settings = {"feedback": feedback, "idf": True}
    expected = list_scores(matches, **settings)
    assert list_scores(noisy, **settings) == pytest.approx(expected, abs=1e-4)


@given(words, words)
def test_the_best_sentence(query, passage):
    """Each token is a sentence. Sentences do not change scores."""
    plain, asked = text(passage), text(query)
    ends = range(1, len(passage) + 1)
    parted = plain._replace(
        sentences=[(end - 1, end) for end in ends], first=[end - 1 for end in ends]
    )
    found = match(asked, parted)
    sums = asked.weights @ (asked.tokens @ plain.tokens.T)
    assert sums[found.span[0]] == pytest.approx(sums.max(), abs=1e-6)
    assert match(asked, plain).span is None
    assert np.array_equal(match(asked, plain).best, found.best)
