"""Texts are embedded in small batches, so that progress moves, and in any order of lengths."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass import InputError
from secondpass_evaluation.search.embedders import embed_checked, embed_in_batches


class Recorder:
    """Embeds a text as its length and its first character."""

    def __init__(self):
        self.batches = []

    def embed(self, texts):
        self.batches.append(list(texts))
        return np.array([[len(text), ord(text[0]) if text else 0] for text in texts], dtype=float)


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
        ([1.0], "1 texts need vectors of shape (1, d), not (1,)"),
        ([[1.0], [1.0]], "not (2, 1)"),
        ([[3.0]], "every vector must have length 1"),
        ([[0.98]], "every vector must have length 1"),
        ([[np.nan]], "every vector must have length 1"),
    ],
)
def test_wrong_vectors_are_refused(vectors, message):
    with pytest.raises(InputError, match=re.escape(message)):
        embed_checked(SimpleNamespace(embed=lambda texts: vectors), ["a"])
