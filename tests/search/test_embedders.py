"""Texts are embedded in small batches, so that progress moves, and in any order of lengths."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from secondpass.search.embedders import embed_in_batches


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
